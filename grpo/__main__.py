"""``python -m grpo COMMAND``: the commands of the package, also where their scripts are not on the path."""

from importlib.metadata import distribution

import click

SCRIPTS = distribution("email-rl").entry_points.select(group="console_scripts")


class Commands(click.Group):
    """``COMMAND`` is the script ``grpo-COMMAND``, imported when it is asked for."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """By name."""
        return sorted(name.removeprefix("grpo-") for name in SCRIPTS.names if name.startswith("grpo-"))

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """The command, or None where there is none of that name."""
        return SCRIPTS[f"grpo-{cmd_name}"].load() if f"grpo-{cmd_name}" in SCRIPTS.names else None


@click.group(cls=Commands)
@click.version_option(package_name="email-rl")
def main() -> None:
    """Train a policy on any Gymnasium env, evaluate any agent on it, and judge trajectories."""


if __name__ == "__main__":
    main(prog_name="python -m grpo")

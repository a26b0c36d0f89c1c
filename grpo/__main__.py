"""``python -m grpo COMMAND``: the commands of the package, also where their scripts are not on the path."""

import importlib

import click

COMMANDS = {
    "train": "grpo.cli.train:train",
    "eval": "grpo.cli.evaluate:evaluate",
    "compare": "grpo.cli.compare:compare",
    "view": "grpo.cli.view:view",
    "play": "grpo.cli.play:play",
    "doctor": "grpo.cli.doctor:doctor",
    "sft": "grpo.cli.sft:sft",
    "serve": "grpo.cli.serve:serve",
    "export": "grpo.cli.export:export",
    "judge": "judges.cli:main",
}
"""``COMMAND`` is the script ``grpo-COMMAND``."""


class Commands(click.Group):
    """Imports a command when it is asked for."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """In the order in which one needs them."""
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """The command, or None where there is none of that name."""
        if cmd_name not in COMMANDS:
            return None
        module, _, name = COMMANDS[cmd_name].partition(":")
        return getattr(importlib.import_module(module), name)


@click.group(cls=Commands)
@click.version_option(package_name="email-rl")
def main() -> None:
    """Train a policy on any Gymnasium env, evaluate any agent on it, and judge trajectories."""


if __name__ == "__main__":
    main(prog_name="python -m grpo")

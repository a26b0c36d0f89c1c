"""``python -m email_env COMMAND``: the commands of the package, also where their scripts are not on the path."""

import click

from email_env.cli import main as build_enron_db
from email_env.make_scenarios.cli import main as make_scenarios
from email_env.versions import __version__


@click.group()
@click.version_option(__version__)
def main() -> None:
    """The environment EmailSearch-v0: make a mail database, and questions about its mail.

    Play it by hand with grpo-play, and evaluate an agent on it with grpo-eval.
    """


main.add_command(build_enron_db, "build-enron-db")
main.add_command(make_scenarios, "make-scenarios")

if __name__ == "__main__":
    main(prog_name="python -m email_env")

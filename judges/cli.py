"""Command line `grpo-judge`: what can be asked of judges and of recorded judgements without new rollouts.

Thin on purpose: options become a call, errors become one clear line and an exit status. Heavy imports wait until a
command runs, so ``--help`` is instant and opens no connection.

Exit status: 0 done, 1 an error that was explained, 2 wrong usage, 130 stopped by the user.
"""

from __future__ import annotations

import sys
from typing import Any

import click

from judges.errors import JudgeError


class _Explained(click.Group):
    """One boundary for every command: our errors are printed without a traceback."""

    def invoke(self, ctx: click.Context) -> Any:
        try:
            return super().invoke(ctx)
        except JudgeError as error:
            click.echo(f"Error: {error}", err=True)
            sys.exit(1)
        except KeyboardInterrupt:
            click.echo("\nStopped. Judgements that were recorded or cached are kept.", err=True)
            sys.exit(130)


@click.group(cls=_Explained)
def main() -> None:
    """Judge again what was judged, and measure how far a judge can be trusted."""


if __name__ == "__main__":
    main()

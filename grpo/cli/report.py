"""``grpo-report``: the HTML page of a run."""

from __future__ import annotations

from pathlib import Path

import click

from grpo.cli.common import explained


@click.command(epilog="Example: grpo-report runs/first")
@click.argument("run_dir", type=click.Path(exists=True, file_okay=False, path_type=Path))
@explained()
def report(run_dir: Path) -> None:
    """Write RUN_DIR/report.html from what the run has left so far."""
    from grpo.report import write_report

    click.echo(write_report(run_dir))

"""``grpo-view``: a training run or an evaluation as one HTML page."""

import webbrowser
from pathlib import Path

import click

from grpo.cli.common import explained


@click.command(
    short_help="Write an HTML page of a run or an evaluation.", epilog="Example: grpo-view runs/first --open"
)
@click.argument("folder", type=click.Path(exists=True, file_okay=False, path_type=Path))
@click.argument("against", required=False, type=click.Path(exists=True, file_okay=False, path_type=Path))
@click.option(
    "--out", type=click.Path(dir_okay=False, path_type=Path), help="File to write.  [default: FOLDER/report.html]"
)
@click.option("--anyway", is_flag=True, help="Compare evaluations even where database, split, questions or env differ.")
@click.option("--open", "open_it", is_flag=True, help="Show it in the web browser.")
@explained()
def view(folder: Path, against: Path | None, out: Path | None, anyway: bool, open_it: bool) -> None:
    """Write one HTML page that works offline: curves, tables, and every episode with search and filters.

    FOLDER is a run directory or an evaluation. With a second evaluation, AGAINST, the page compares the two: FOLDER is
    the baseline, and the page lies in AGAINST.
    """
    from grpo.report import write_report

    page = write_report(folder, against, out, anyway=anyway)
    click.echo(page)
    if open_it and not webbrowser.open(page.absolute().as_uri()):
        click.echo("no web browser could be started; open the file by hand", err=True)


if __name__ == "__main__":
    view()

"""``grpo-view``: a training run or an evaluation as one HTML page."""

import webbrowser
from pathlib import Path

import click

from grpo.cli.common import explained
from grpo.errors import ReportError


@click.command(
    short_help="Write an HTML page of a run or an evaluation.", epilog="Example: grpo-view runs/first --open"
)
@click.argument("folder", type=click.Path(exists=True, file_okay=False, path_type=Path))
@click.argument("against", required=False, type=click.Path(exists=True, file_okay=False, path_type=Path))
@click.option(
    "--out",
    type=click.Path(dir_okay=False, path_type=Path),
    help="File to write.  [default: FOLDER/report.html, of two AGAINST/comparison.html]",
)
@click.option("--anyway", is_flag=True, help="Compare evaluations even where database, split, questions or env differ.")
@click.option("--otel", metavar="FILE|URL", help="Write the episodes as OpenTelemetry traces, or send them.")
@click.option("--inspect", type=click.Path(path_type=Path), help="Write the episodes as logs of Inspect into a folder.")
@click.option("--live", is_flag=True, help="Serve the page on this machine while the run goes on.")
@click.option("--port", default=0, type=click.IntRange(0, 65535), help="Of --live.  [default: any free one]")
@click.option("--open", "open_it", is_flag=True, help="Show it in the web browser.")
@explained()
def view(
    folder: Path,
    against: Path | None,
    out: Path | None,
    anyway: bool,
    otel: str | None,
    inspect: Path | None,
    live: bool,
    port: int,
    open_it: bool,
) -> None:
    """Write one HTML page that works offline: curves, tables, and every episode with search and filters.

    FOLDER is a run directory or an evaluation. With a second evaluation, AGAINST, the page compares the two: FOLDER is
    the baseline, and the page is comparison.html in AGAINST.

    With --live nothing is written: the page of a run that goes on is at the address that is shown, and changes with the
    run. It ends when the run does, or by Ctrl-C. With --otel or --inspect no page is written either.
    """
    if live:
        if against is not None or out is not None:
            raise click.UsageError("--live is of one run, and writes no file; leave AGAINST and --out out")
        _serve(folder, port, open_it)
        return
    if otel is not None or inspect is not None:
        if against is not None or out is not None:
            raise click.UsageError("--otel and --inspect export one folder; leave AGAINST and --out out")
        _export(folder, otel, inspect)
        return
    from grpo.report import write_report

    page = write_report(folder, against, out, anyway=anyway)
    click.echo(page)
    if open_it:
        _open(page.absolute().as_uri())


def _export(folder: Path, otel: str | None, inspect: Path | None) -> None:
    from grpo.report.traced import sources

    found = sources(folder)
    if otel is not None:
        from grpo.report.otel import export_traces

        click.echo(f"{export_traces(found, otel)} episodes: {otel}")
    if inspect is not None:
        from grpo.report.inspect_log import export_logs

        for path in export_logs(found, inspect):
            click.echo(path)


def _serve(root: Path, port: int, open_it: bool) -> None:
    from grpo.doctor.run_check import check_run
    from grpo.report.live import LiveView
    from grpo.runs.directory import is_in_use

    def lines() -> list[str]:
        return [f"{'! ' if one.status == 'failed' else ''}{one.name}: {one.found}" for one in check_run(root)]

    lines()  # what is no run is refused
    if not is_in_use(root):
        raise ReportError(f"no process works on {root}, so there is nothing to follow; leave --live out")
    with LiveView(root, lines, port) as view:
        click.echo(f"{root} is shown at {view.url} until it ends (Ctrl-C ends the view alone)")
        if open_it:
            _open(view.url)
        view.until(lambda: not is_in_use(root))
    click.echo(f"No process works on {root} any more: grpo-view {root} writes its page")


def _open(url: str) -> None:
    if not webbrowser.open(url):
        click.echo("no web browser could be started; open it by hand", err=True)

"""`build-enron-db`: mail in, searchable database out.

    build-enron-db demo --out data/demo.db
    build-enron-db enron_mail_20150507.tar.gz --out data/enron.db

On a terminal it shows a progress bar; elsewhere a line every ten seconds. Both go to stderr, so `--json` leaves stdout
to the report alone.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING

import click

from email_env._version import __version__
from email_env.errors import EmailEnvError

if TYPE_CHECKING:
    from email_env.ingest.build import BuildReport
    from email_env.ingest.sources import Source

_PLAIN_SECONDS = 10.0


@click.command(epilog="Example: build-enron-db demo --out data/demo.db")
@click.argument("source", default="demo")
@click.option(
    "--out", "-o", required=True, type=click.Path(path_type=Path), help="Database to write; replaced if it is there."
)
@click.option("--limit", type=click.IntRange(min=1), help="Read at most this many messages.")
@click.option(
    "--scenarios",
    type=click.Path(path_type=Path),
    help="JSONL file of questions to put in. Without it, those that the source brings.",
)
@click.option("--json", "as_json", is_flag=True, help="Print the report as JSON.")
@click.version_option(__version__)
def main(source: str, out: Path, limit: int | None, scenarios: Path | None, as_json: bool) -> None:
    """Build a mail database that EmailSearch-v0 can search.

    SOURCE is `demo` (the bundled mailboxes, the default), a maildir folder, an archive (.tar.gz, .tgz, .tar: read as a
    stream, never unpacked) or a table with the columns file and message (.csv).

    Left out, and counted in the report: mail without any address, bodies over 5,000 characters, mail to more than 30
    people, and copies of a mail that everyone on it already has. Nothing is written unless all goes well.
    """
    from email_env.ingest.build import build_database
    from email_env.ingest.sources import open_source
    from email_env.scenarios import load_scenarios

    try:
        questions = None if scenarios is None else load_scenarios(scenarios)
        opened = open_source(source)
        with closing(opened.mails), _progress(opened, limit) as progress:
            report = build_database(
                islice(opened.mails, limit),
                out,
                scenarios=opened.scenarios if questions is None else questions,
                source=opened.name,
                progress=progress,
            )
    except EmailEnvError as error:
        raise click.ClickException(str(error)) from error
    except KeyboardInterrupt:
        click.echo(f"Stopped; {out} is as it was.", err=True)
        sys.exit(130)
    click.echo(json.dumps(report.to_dict(), indent=2) if as_json else _summary(report))


def _summary(report: BuildReport) -> str:
    rate = report.read / max(report.seconds, 1e-9)
    lines = [
        f"{report.path}: {report.kept:,} mails of {report.addresses:,} addresses, {report.bytes / 1e6:,.1f} MB",
        f"  read      {report.read:,} from {report.source} in {report.seconds:.1f} s ({rate:,.0f}/s)",
        *(f"  left out  {count:,} {reason.replace('_', ' ')}" for reason, count in report.skipped.items()),
    ]
    if report.uncertain_dates:
        lines.append(f"  dates     {report.uncertain_dates:,} missing or implausible, kept and marked")
    if report.scenarios:
        lines.append(f"  questions {report.scenarios:,}")
    if report.scenario_misfits:
        lines.append(f"  questions {len(report.scenario_misfits):,} left out, for example:")
        lines.extend(f"    {key}: {why}" for key, why in islice(report.scenario_misfits.items(), 5))
    return "\n".join(lines)


@contextmanager
def _progress(source: Source, limit: int | None) -> Iterator[Callable[[int, int], None]]:
    """A callback for `build_database` that shows how far it is."""
    if not sys.stderr.isatty():
        yield _plain_progress()
        return
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeRemainingColumn

    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        TaskProgressColumn(),
        TextColumn("{task.fields[counts]}"),
        TimeRemainingColumn(),
    )
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task("Reading", total=limit or source.total or None, counts="")

        def show(read: int, skipped: int) -> None:
            done = read if limit else source.position()
            elapsed = bar.tasks[0].elapsed or 0.0
            rate = f"{read / elapsed:,.0f}/s" if elapsed > 0.5 else ""
            step = "Indexing" if done == bar.tasks[0].total else "Reading"
            bar.update(task, description=step, completed=done, counts=f"{read:,} read, {skipped:,} left out {rate}")

        yield show


def _plain_progress() -> Callable[[int, int], None]:
    started = time.monotonic()
    due = started + _PLAIN_SECONDS

    def show(read: int, skipped: int) -> None:
        nonlocal due
        now = time.monotonic()
        if now >= due:
            due = now + _PLAIN_SECONDS
            click.echo(f"{read:,} read, {skipped:,} left out, {read / (now - started):,.0f}/s", err=True)

    return show


if __name__ == "__main__":
    main()

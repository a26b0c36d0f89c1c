"""How far a long command is: a bar on a terminal, a line every ten seconds elsewhere; both on stderr."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from email_env.ingest.sources import Source

_PLAIN_SECONDS = 10.0


@contextmanager
def build_progress(source: Source, limit: int | None) -> Iterator[Callable[[int, int], None]]:
    """A callback for `build_database` that shows how far it is.

    Args:
        source: what is read.
        limit: most messages that are read; None for all.
    """
    if not sys.stderr.isatty():
        yield _plain()
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
        task = bar.add_task("Reading", total=limit, counts="")

        def show(read: int, skipped: int) -> None:
            done, total = (read, limit) if limit else (source.position(), source.total())
            elapsed = bar.tasks[0].elapsed or 0.0
            rate = f"{read / elapsed:,.0f}/s" if elapsed > 0.5 else ""
            step = "Indexing" if done == total else "Reading"
            counts = f"{read:,} read, {skipped:,} left out {rate}"
            bar.update(task, description=step, completed=done, total=total or None, counts=counts)

        yield show


@contextmanager
def mail_progress(total: int, kept: Callable[[], int]) -> Iterator[Callable[[int], None]]:
    """A callback, for each mail that is finished, that takes how many failed so far.

    Args:
        total: mails to ask about.
        kept: how many questions there are.
    """
    if not sys.stderr.isatty():
        done, due = 0, time.monotonic() + _PLAIN_SECONDS

        def tell(failed: int) -> None:
            nonlocal done, due
            done += 1
            if time.monotonic() >= due:
                due = time.monotonic() + _PLAIN_SECONDS
                click.echo(f"{done:,} of {total:,} mails, {kept():,} questions, {failed:,} failed", err=True)

        yield tell
        return
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    columns = (TextColumn("Mails"), BarColumn(), MofNCompleteColumn(), TextColumn("{task.description}"))
    with Progress(*columns, TimeRemainingColumn(), console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task("", total=total)
        yield lambda failed: bar.update(task, advance=1, description=f"{kept():,} questions, {failed:,} failed")


def _plain() -> Callable[[int, int], None]:
    started = time.monotonic()
    due = started + _PLAIN_SECONDS

    def show(read: int, skipped: int) -> None:
        nonlocal due
        now = time.monotonic()
        if now >= due:
            due = now + _PLAIN_SECONDS
            click.echo(f"{read:,} read, {skipped:,} left out, {read / (now - started):,.0f}/s", err=True)

    return show

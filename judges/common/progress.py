"""How far a long command is: a bar on a terminal, a line every ten seconds elsewhere; both on stderr."""

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeRemainingColumn

_LINE_SECONDS = 10.0


@contextmanager
def progress() -> Iterator[Callable[[str, int, int], None]]:
    """Yields a callback that takes a text, how much is done, and the whole (0 where it is not known)."""
    is_terminal = sys.stderr is not None and sys.stderr.isatty()  # None: closed by the caller
    console = Console(stderr=True, force_terminal=is_terminal, highlight=False)
    is_live = console.is_terminal and not console.is_dumb_terminal
    columns = (TextColumn("{task.description}"), BarColumn(), TaskProgressColumn(), TimeRemainingColumn())
    due = time.monotonic() + _LINE_SECONDS
    with Progress(*columns, console=console, transient=True, disable=not is_live) as bar:
        task = bar.add_task("", total=None)

        def show(text: str, done: int, total: int) -> None:
            nonlocal due
            bar.update(task, description=text, completed=done, total=total or None)
            if not is_live and time.monotonic() >= due:
                due = time.monotonic() + _LINE_SECONDS
                console.print(text, markup=False, soft_wrap=True)

        yield show

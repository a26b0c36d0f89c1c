"""A display with a clock of its own, which writes into memory as into a file or as onto a terminal."""

import io
from typing import Any

from rich.console import Console

from grpo.display.terminal import Display


class Clock:
    """Stands still until it is moved."""

    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


def make_display(width: int = 140, **options: Any) -> tuple[Display, io.StringIO, Clock]:
    """The display, what it writes, and its clock; with ``live`` a terminal of that width."""
    out, clock = io.StringIO(), Clock()
    console = Console(file=out, width=width, force_terminal=options.get("live", False), color_system=None)
    return Display(console=console, clock=clock, **options), out, clock

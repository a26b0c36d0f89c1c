"""An event loop whose clock jumps to the next timer instead of waiting for it: hours of latencies pass in seconds."""

import asyncio
import selectors
from collections.abc import Coroutine
from typing import Any, TypeVar

T = TypeVar("T")


class _JumpingSelector(selectors.DefaultSelector):
    """Waits for nothing; tells its loop how long it would have waited."""

    def __init__(self, loop: "SimulatedLoop"):
        super().__init__()
        self._of = loop

    def select(self, timeout: float | None = None) -> list[Any]:
        ready = super().select(0)
        if not ready and timeout:
            self._of.now += timeout
        assert ready or timeout is not None, "all wait, and no timer will wake anyone"
        return ready


class SimulatedLoop(asyncio.SelectorEventLoop):
    """Nothing but timers and coroutines belongs on it: no sockets, no threads."""

    def __init__(self) -> None:
        self.now = 0.0
        super().__init__(_JumpingSelector(self))

    def time(self) -> float:
        """Simulated seconds since the loop was made."""
        return self.now


def simulate(work: Coroutine[Any, Any, T]) -> tuple[T, float]:
    """Run a coroutine on the simulated clock; what it returned, and how long it took there."""
    with asyncio.Runner(loop_factory=SimulatedLoop) as runner:
        result = runner.run(work)
        return result, runner.get_loop().time()

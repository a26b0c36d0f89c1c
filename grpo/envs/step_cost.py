"""What a step of an env costs, and where an env of such a cost is called without holding up the others.

    loop        in the thread of the event loop: nothing is cheaper than a call
    threads     in a thread for each env: they wait at the same time (a server, a browser, a program that runs)
    processes   in worker processes: they compute at the same time

N processes do ``N / seconds`` steps a second, because each has one call at a time. Threads do as many as they like, but
compute one at a time: ``1 / computing_seconds``. The larger number wins.

On a busy machine a step also waits for a core. That says nothing of the env, and is left out.
"""

import time
from collections import deque
from enum import StrEnum

BOUND_SECONDS = 0.005
"""Mean cost of a step from which on it leaves the event loop. A call in a thread of its own costs about a tenth of a
millisecond more, and a turn costs the rollout client about three (docs/performance.md)."""
NEEDED = 3
"""Steps that have to be seen before an expensive one is believed: the first loads and opens what it needs."""
REMEMBERED = 64
"""Newest measured steps whose mean is taken."""
MEASURED_EACH = 16
"""Once `NEEDED` are known, one step of so many is measured: to measure costs some tens of microseconds."""


class Place(StrEnum):
    """Where an env is called."""

    LOOP = "loop"
    THREADS = "threads"
    PROCESSES = "processes"


class StepCost:
    """The newest steps of an env: how long they took, and how long they computed. Any thread may add to it.

    Attributes:
        waits: The env says that others wait for what it holds (``metadata["waits"]``), so each has a thread of its own.
    """

    def __init__(self) -> None:
        self.waits = False
        self._steps: deque[tuple[float, float]] = deque(maxlen=REMEMBERED)
        self._count = 0
        self._begun = 0

    def wanted(self) -> bool:
        """Whether the step that begins now is to be measured."""
        self._begun += 1
        return self._count < NEEDED or self._begun % MEASURED_EACH == 0

    def add(self, seconds: float, computing_seconds: float) -> None:
        """A step has been taken; ``computing_seconds`` is the CPU time of its thread."""
        self._count += 1
        self._steps.append((seconds, computing_seconds))

    def means(self) -> tuple[float, float] | None:
        """Seconds and computing seconds of a step; None while they are not known.

        One cheap step is enough: an expensive one counts from the second on.
        """
        steps = list(self._steps)
        if not steps:
            return None
        if self._count < NEEDED:
            return steps[-1] if steps[-1][0] < BOUND_SECONDS else None
        steps = steps[1:] if self._count <= REMEMBERED else steps
        seconds, computing = map(sum, zip(*steps, strict=True))
        return seconds / len(steps), computing / len(steps)

    def place(self, processes: int, now: Place | None = None) -> Place | None:
        """Where an env is best called; None while that is not known.

        Args:
            processes: How many there would be.
            now: Where it is called now; it moves where another place is twice as good.
        """
        if self.waits:
            return Place.THREADS
        means = self.means()
        if means is None:
            return now
        seconds, computing = means
        if seconds < BOUND_SECONDS / (2 if now in (Place.THREADS, Place.PROCESSES) else 1):
            return Place.LOOP
        for_processes = max(2, processes) * computing / seconds
        if for_processes > {Place.THREADS: 2.0, Place.PROCESSES: 0.5}.get(now or Place.LOOP, 1.0):
            return Place.PROCESSES
        return Place.THREADS


class Meter:
    """Measures what the thread that makes it does from then on."""

    __slots__ = ("_began", "_computed", "_queued")

    def __init__(self) -> None:
        self._queued = _queued_seconds()
        self._computed = time.thread_time()
        self._began = time.perf_counter()

    def read(self) -> tuple[float, float]:
        """Seconds, without those in which other programs had the core, and seconds of computing."""
        seconds = time.perf_counter() - self._began
        computing = time.thread_time() - self._computed
        return max(computing, seconds - (_queued_seconds() - self._queued)), computing


def _queued_seconds() -> float:
    """How long this thread has waited for a core; 0 where the system does not say (the kernel's sched-stats)."""
    try:
        with open("/proc/thread-self/schedstat", "rb") as file:
            return int(file.read().split()[1]) / 1e9
    except (OSError, ValueError, IndexError):
        return 0.0

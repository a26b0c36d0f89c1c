"""Groups under way: begun with the newest policy, taken as they become whole, dropped when they are too old.

It knows nothing of episodes and rewards: a group is a coroutine with a task and the version that plays it. With
``max_staleness`` S, a step that learns from version n takes groups of versions n - S to n (AReaL, arXiv 2505.24298,
section 5.1, calls S the maximum permitted staleness, eta). A group keeps its version to its end.
"""

import asyncio
from collections.abc import Coroutine
from typing import Any, Generic, TypeVar

from grpo.types import Task

T = TypeVar("T")


class GroupStream(Generic[T]):
    """The groups that were begun and not taken yet; all methods are called in one event loop."""

    def __init__(self) -> None:
        self._jobs: dict[Task, tuple[int, asyncio.Task[T]]] = {}  # insertion order is the order of the tasks
        self._changed = asyncio.Event()

    def __len__(self) -> int:
        return len(self._jobs)

    @property
    def tasks(self) -> list[Task]:
        """Of the groups that were begun and not taken, in the order they were begun."""
        return list(self._jobs)

    def begin(self, task: Task, version: int, play: Coroutine[Any, Any, T]) -> None:
        """Begin to play a group; it goes on while nobody waits for it."""
        job = asyncio.create_task(play)
        job.add_done_callback(lambda _job: self._changed.set())
        self._jobs[task] = version, job

    async def take(self, count: int) -> list[T]:
        """The first ``count`` groups that are whole; the others stay under way.

        They stand in the order they were begun in, not in the order they ended in.

        Raises:
            Exception: What a group raised.
        """
        assert count <= len(self._jobs), "enough groups were begun"
        while len(done := [task for task, (_, job) in self._jobs.items() if job.done()]) < count:
            for task in done:
                self._jobs[task][1].result()  # one that failed ends the wait for the others
            self._changed.clear()
            await self._changed.wait()
        return [self._jobs.pop(task)[1].result() for task in done[:count]]

    def drop_before(self, oldest: int) -> list[Task]:
        """End the groups of versions below ``oldest``; returns their tasks."""
        old = [task for task, (version, _) in self._jobs.items() if version < oldest]
        for task in old:
            self._jobs.pop(task)[1].cancel()
        return old

    async def close(self) -> None:
        """End all groups, and wait until they are gone."""
        jobs = [job for _, job in self._jobs.values()]
        self._jobs.clear()
        for job in jobs:
            job.cancel()
        await asyncio.gather(*jobs, return_exceptions=True)

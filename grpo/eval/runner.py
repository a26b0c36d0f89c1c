"""Plays the episodes of an evaluation: so many at once, each within its time, each with an ending that says why.

An agent's exception, its time limit, a full context and a failure of env or model server are told apart here and
nowhere else. The runner knows nothing of what an agent is, beyond `Agent`.
"""

from __future__ import annotations

import asyncio
import re
import time
import traceback
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol, Self

from grpo.envs import AnswerKey
from grpo.errors import EnvError, GrpoError
from grpo.eval.desk import Desk
from grpo.eval.episode import Ending, Episode, EpisodeKey
from grpo.eval.results import SYNC_SECONDS, WRITE_SECONDS, Results, Row, result_of, trace_of
from grpo.rollout import EnvPool
from grpo.seeds import derive_seed
from grpo.types import Task as EnvTask

if TYPE_CHECKING:
    from grpo.eval.marking import Marker

OnResult = Callable[[Row], None]

YIELD_SECONDS = 0.01
"""How long agents that wait for nothing may keep the event loop."""

_OVERFLOW = re.compile(
    r"context[ _]length|context[ _]window|maximum context|prompt is too long|too many (input )?tokens"
    r"|exceeds? the (model'?s )?(max|context)",
    re.IGNORECASE,
)
_SERVER_FAULTS = (0, 401, 403, 404, 408, 429)


class Agent(Protocol):
    """What plays an episode. Opened once for all of them, as an async context manager."""

    @property
    def desk(self) -> Desk:
        """Where its envs live."""
        ...

    async def run(self, episode: Episode) -> None:
        """Play an episode that has begun. Any exception is the agent's crash, unless it is a ``GrpoError``."""
        ...

    async def __aenter__(self) -> Self: ...

    async def __aexit__(self, *_: object) -> None: ...


@dataclass(frozen=True, slots=True)
class Item:
    """One episode to play."""

    key: EpisodeKey
    task: EnvTask


def items_of(tasks: Iterable[EnvTask], samples: int) -> list[Item]:
    """``samples`` episodes of each task, all first samples first, so that an early stop has seen every scenario."""
    tasks = list(tasks)
    return [Item(EpisodeKey(task.key, sample), task) for sample in range(samples) for task in tasks]


class Runner:
    """Plays items with one agent and keeps their results."""

    def __init__(
        self,
        agent: Agent,
        pool: EnvPool,
        results: Results,
        *,
        seed: int,
        concurrency: int,
        timeout_seconds: float,
        marker: Marker | None = None,
        on_result: OnResult = lambda row: None,
    ):
        """Prepare.

        Args:
            agent: Plays the episodes; already opened.
            pool: Envs.
            results: Where results go.
            seed: Each episode's seed derives from it.
            concurrency: Episodes at once.
            timeout_seconds: Limit of one episode.
            marker: Gives a second mark to answers that the env does not take for right.
            on_result: Called after each.
        """
        self.agent = agent
        self.pool = pool
        self.results = results
        self.seed = seed
        self.concurrency = concurrency
        self.timeout_seconds = timeout_seconds
        self.marker = marker
        self.on_result = on_result
        self._yield_at = 0.0

    async def run(self, items: Iterable[Item]) -> None:
        """Play all items that have no result yet."""
        missing = [item for item in items if item.key not in self.results.rows]
        seeds = [derive_seed(self.seed, item.task.key, item.key.sample) for item in missing]
        pending = zip(missing, seeds, strict=True)
        async with asyncio.TaskGroup() as group:
            keepers = [group.create_task(self._write()), group.create_task(self._sync())]
            await asyncio.wait([group.create_task(self._worker(pending)) for _ in range(self.concurrency)])
            for keeper in keepers:
                keeper.cancel()

    async def _worker(self, pending: Iterator[tuple[Item, int]]) -> None:
        for item, seed in pending:
            await self._finish(*await self._play(item, seed))
            if time.perf_counter() >= self._yield_at:
                await asyncio.sleep(0)
                self._yield_at = time.perf_counter() + YIELD_SECONDS

    async def _finish(
        self, episode: Episode, ending: Ending, error: str, seconds: float, key: AnswerKey | None
    ) -> None:
        row = result_of(episode, ending, error, seconds)
        if self.marker is not None:
            await self.marker.mark(row, key)
        self.results.add(row, trace_of(episode, row))
        self.on_result(row)

    async def _write(self) -> None:
        while True:
            await asyncio.sleep(WRITE_SECONDS)
            self.results.write()

    async def _sync(self) -> None:
        while True:
            await asyncio.sleep(SYNC_SECONDS)
            await asyncio.to_thread(self.results.sync)

    async def _play(self, item: Item, seed: int) -> tuple[Episode, Ending, str, float, AnswerKey | None]:
        desk = self.agent.desk
        began = time.perf_counter()
        episode = await desk.run(lambda: self._begin(item, seed))
        failure: BaseException | None = None
        if not episode.fault:
            try:
                async with asyncio.timeout(self.timeout_seconds):
                    await self.agent.run(episode)
            except (Exception, SystemExit) as error:
                failure = error
            except asyncio.CancelledError as error:
                task = asyncio.current_task()
                if task is not None and task.cancelling():
                    raise
                failure = error  # the agent cancelled itself
        key = await desk.run(lambda: self._end(episode))
        seconds = time.perf_counter() - began
        return episode, *classify(episode, failure, self.timeout_seconds), seconds, key

    def _begin(self, item: Item, seed: int) -> Episode:
        episode = Episode(item.key, item.task, seed, self.pool.take())
        with suppress(EnvError):  # it is the episode's fault
            episode.begin()
        return episode

    def _end(self, episode: Episode) -> AnswerKey | None:
        wanted = self.marker is not None and episode.answer is not None
        key = episode.session.answer_key() if wanted else None
        episode.close()
        self.pool.give_back(episode.session)
        return key


def classify(episode: Episode, failure: BaseException | None, timeout_seconds: float) -> tuple[Ending, str]:
    """Why an episode ended, and the words for it.

    What the env ended stands, whatever the agent did afterwards. A failure of the env or of the model's server comes
    before the agent's exception or its lack of time, which it has probably caused.
    """
    said = "" if failure is None else describe(failure)
    if episode.fault:
        return Ending.INFRASTRUCTURE, episode.fault
    if episode.terminated:
        return Ending.ANSWERED, said
    if episode.truncated:
        return Ending.MAX_TURNS, said
    model_error = _last_error(episode)
    if _OVERFLOW.search(model_error) or (failure is not None and _OVERFLOW.search(said)):
        return Ending.CONTEXT_OVERFLOW, model_error or said
    if model_error and _is_server_fault(episode):
        return Ending.INFRASTRUCTURE, model_error
    if isinstance(failure, TimeoutError) and _is_ours(failure):
        waiting = "; a model call had not been answered" if _last_error(episode, pending=True) else ""
        return Ending.TIMEOUT, f"no answer within {timeout_seconds:g} s{waiting}"
    if isinstance(failure, GrpoError):
        return Ending.INFRASTRUCTURE, said
    if failure is not None:
        return Ending.AGENT_CRASH, said
    return Ending.NO_ANSWER, ""


def describe(failure: BaseException) -> str:
    """An exception in one line: its type, its words and where it was raised."""
    if isinstance(failure, BaseExceptionGroup) and failure.exceptions:
        return describe(failure.exceptions[0])
    if isinstance(failure, GrpoError):
        return str(failure)  # written for people; where in our code it was raised is of no use to them
    frames = traceback.extract_tb(failure.__traceback__)
    place = f" ({frames[-1].filename.rpartition('/')[2]}:{frames[-1].lineno})" if frames else ""
    return f"{type(failure).__name__}: {' '.join(str(failure).split())[:500]}{place}"


def _is_ours(failure: TimeoutError) -> bool:
    """``asyncio.timeout`` raises from the cancellation it made; an agent's own TimeoutError does not."""
    return isinstance(failure.__cause__, asyncio.CancelledError)


def _last_error(episode: Episode, *, pending: bool = False) -> str:
    if not episode.model_calls:
        return ""
    last = episode.model_calls[-1]
    return (last.status == 0 and not last.error and "pending") or "" if pending else last.error


def _is_server_fault(episode: Episode) -> bool:
    status = episode.model_calls[-1].status
    return status in _SERVER_FAULTS or status >= 500

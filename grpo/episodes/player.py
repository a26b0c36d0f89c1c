"""Plays the episodes of an evaluation: so many at once, each within its time, each with a result that is kept.

The runner knows nothing of what an agent is, beyond `Agent`; `ending` says why an episode ended.

A worker lets go of its episode before it waits, and `Results.add` encodes the trace at once. 64 finished episodes that
were kept until their workers' next turn cost about 20 us an episode, far more than the encoding does, because they
pushed the env's data out of the processor's caches. Beside a bare loop over the env, an evaluation takes about 20 %
more time. Two threads of envs are not faster than one, because SQLite is called too often and too briefly.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from dataclasses import KW_ONLY, dataclass, field
from typing import TYPE_CHECKING, Any, Protocol, Self

from grpo.envs.pool import EnvPool, Seat
from grpo.envs.step_cost import Place
from grpo.episodes.ending import OutOfTime, ending_of
from grpo.episodes.env_thread import EnvThread
from grpo.episodes.episode import MAX_TURNS, Episode, EpisodeKey
from grpo.episodes.record import Row, result_of
from grpo.episodes.store import SYNC_SECONDS, WRITE_SECONDS, Results
from grpo.episodes.traces import trace_of
from grpo.errors import ConfigError, EnvError
from grpo.seeds import derive_seed
from grpo.types import AnswerKey
from grpo.types import Task as EnvTask

if TYPE_CHECKING:
    from grpo.episodes.answer_judge import AnswerJudge

YIELD_SECONDS = 0.01
"""How long agents that wait for nothing may keep the event loop."""


class Agent(Protocol):
    """What plays an episode. Opened once for all of them, as an async context manager."""

    @property
    def env_thread(self) -> EnvThread | None:
        """Where envs live that are cheap to call; None for the thread of the event loop."""
        ...

    @property
    def needs_env(self) -> bool:
        """Whether it plays with the env itself, which then stays in this process."""
        ...

    async def run(self, episode: Episode) -> None:
        """Play an episode that has begun. Any exception is the agent's crash, unless it is a ``GrpoError``."""
        ...

    async def __aenter__(self) -> Self: ...

    async def __aexit__(self, *_: object) -> None: ...


@dataclass(frozen=True, slots=True)
class PlannedEpisode:
    """One episode to play."""

    key: EpisodeKey
    task: EnvTask


def planned_episodes(tasks: Iterable[EnvTask], samples: int) -> list[PlannedEpisode]:
    """``samples`` episodes of each task, all first samples first, so that an early stop has seen every scenario."""
    tasks = list(tasks)
    return [PlannedEpisode(EpisodeKey(task.key, sample), task) for sample in range(samples) for task in tasks]


@dataclass(slots=True)
class Runner:
    """Plays planned episodes with one agent and keeps their results.

    Attributes:
        agent: Plays the episodes; opened by whoever runs this.
        pool: Envs; its ``home`` is the agent's ``env_thread``.
        results: Where results go.
        seed: Each episode's seed derives from it.
        concurrency: Episodes at once.
        timeout_seconds: Limit of one episode.
        max_turns: Most turns of one.
        answer_judge: Marks the answers.
        on_result: Called after each.
    """

    agent: Agent
    pool: EnvPool
    results: Results
    _: KW_ONLY
    seed: int
    concurrency: int
    timeout_seconds: float
    max_turns: int = MAX_TURNS
    answer_judge: AnswerJudge | None = None
    on_result: Callable[[Row], None] = lambda row: None
    _yield_at: float = field(default=0.0, init=False)
    _openings: dict[str, int] = field(default_factory=dict, init=False)

    async def run(self, episodes: Iterable[PlannedEpisode]) -> None:
        """Play all episodes that have no result yet."""
        missing = [planned for planned in episodes if planned.key not in self.results.rows]
        seeds = [derive_seed(self.seed, planned.task.key, planned.key.sample) for planned in missing]
        pending = zip(missing, seeds, strict=True)
        async with asyncio.TaskGroup() as group:
            keepers = [group.create_task(self._write()), group.create_task(self._sync())]
            await asyncio.wait([group.create_task(self._worker(pending)) for _ in range(self.concurrency)])
            for keeper in keepers:
                keeper.cancel()

    async def _worker(self, pending: Iterator[tuple[PlannedEpisode, int]]) -> None:
        for planned, seed in pending:
            await self._keep(*await self._play(planned, seed))
            if time.perf_counter() >= self._yield_at:
                await asyncio.sleep(0)
                self._yield_at = time.perf_counter() + YIELD_SECONDS

    async def _keep(self, row: Row, trace: dict[str, Any], key: AnswerKey | None) -> None:
        if self.answer_judge is not None:
            await self.answer_judge.judge(row, key)
        self.results.add(row, trace)
        self.on_result(row)

    async def _write(self) -> None:
        while True:
            await asyncio.sleep(WRITE_SECONDS)
            self.results.write()

    async def _sync(self) -> None:
        while True:
            await asyncio.sleep(SYNC_SECONDS)
            await asyncio.to_thread(self.results.sync)

    async def _play(self, planned: PlannedEpisode, seed: int) -> tuple[Row, dict[str, Any], AnswerKey | None]:
        """Play an episode; its result, its trace, and what an answer judge has to know of it."""
        seat = await self.pool.seat()
        try:
            began = time.perf_counter()
            episode = await seat.run(self._begin, planned, seed, seat)
            failure = None if episode.fault else await self._run_agent(episode)
            key = await self._end(episode)
        finally:
            self.pool.leave(seat)
        ending, error = ending_of(episode, failure)
        return result_of(episode, ending, error, time.perf_counter() - began), trace_of(episode), key

    async def _run_agent(self, episode: Episode) -> BaseException | None:
        """Have the agent play within its time; returns what it raised."""
        limit = asyncio.timeout(self.timeout_seconds)
        try:
            async with limit:
                await self.agent.run(episode)
        except (ConfigError, KeyboardInterrupt):  # what was asked for cannot work in any episode; the user's Ctrl-C
            raise
        except BaseException as error:
            task = asyncio.current_task()
            if isinstance(error, asyncio.CancelledError) and task is not None and task.cancelling():
                raise
            return OutOfTime(self.timeout_seconds) if limit.expired() else error
        return None

    def _begin(self, planned: PlannedEpisode, seed: int, seat: Seat) -> Episode:
        episode = Episode(planned.key, planned.task, seed, seat, self.max_turns)
        try:
            episode.begin()
        except EnvError:
            if not episode.fault:
                raise
        else:
            opening = hash(repr(episode.messages))
            if self._openings.setdefault(planned.key.scenario_id, opening) != opening:
                raise EnvError(
                    f"{self.pool.env_id} begins sample {planned.key.sample} of {planned.key.scenario_id!r} with "
                    "another prompt than the sample before; the same seed and scenario must give the same one"
                )
        return episode

    async def _end(self, episode: Episode) -> AnswerKey | None:
        """Close the episode behind the calls that are under way."""

        def end() -> AnswerKey | None:
            episode.close()
            with suppress(EnvError):  # it is the episode's fault
                return episode.answer_key() if self.answer_judge is not None else None

        try:
            return await episode.seat.run(end)
        except EnvError as error:
            if episode.seat.place is Place.LOOP:  # no other env can be called either
                raise
            episode.close()
            episode.fault = str(error)

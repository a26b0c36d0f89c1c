"""Plays episodes: so many at once, each within its time, whoever the agent is and whatever they are for.

The player knows nothing of what an agent is, beyond `Agent`, nor of what becomes of an episode afterwards: a training
step makes groups of them, an evaluation keeps them one by one. `ending_of` says why an episode ended.

An evaluation lets go of an episode before it plays the next, and its record is encoded at once. 64 finished episodes
that were kept until their workers' next turn cost about 20 us an episode, far more than the encoding does, because they
pushed the env's data out of the processor's caches. Beside a bare loop over the env, an evaluation takes about 20 %
more time. Two threads of envs are not faster than one, because SQLite is called too often and too briefly.
"""

import asyncio
import time
from collections.abc import Callable, Iterable
from contextlib import nullcontext
from dataclasses import KW_ONLY, dataclass, field
from typing import Self

from grpo.ending import Ending
from grpo.envs.pool import EnvPool
from grpo.episodes.env_thread import EnvThread
from grpo.episodes.marking import Marker
from grpo.episodes.play import MAX_TURNS, Play
from grpo.errors import ConfigError, ContextFullError, EnvError, GrpoError, ServerDiedError, describe, first_of_ours
from grpo.seeds import derive_seed
from grpo.types import Episode, Group, Task
from grpo.watch import Part, Waiting

TIMEOUT_SECONDS = 600.0
"""Limit of one episode."""

OnEpisode = Callable[[Episode], None]


class Agent:
    """What plays an episode. Opened once for all of them, as an async context manager.

    Attributes:
        env_thread: Where envs live that are cheap to call; None for the thread of the event loop.
        needs_env: Whether it plays with the env itself, which then stays in this process.
        may_crash: Whether it is code of others: an exception is its crash then, unless it is a ``GrpoError``.
        fingerprint: Of what it plays, where another thing may have the same name later.
    """

    env_thread: EnvThread | None = None
    needs_env: bool = False
    may_crash: bool = True
    fingerprint: str | None = None

    async def run(self, play: Play) -> None:
        """Play an episode that has begun."""
        raise NotImplementedError

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        """Nothing to end, unless an agent says what."""


@dataclass(frozen=True, slots=True)
class PlannedEpisode:
    """One episode to play: its task, which of the task's episodes it is, and a seed for what its agent draws."""

    task: Task
    sample_index: int
    seed: int

    @property
    def key(self) -> tuple[str, int]:
        """That of its `Episode`."""
        return self.task.key, self.sample_index


def planned_episodes(tasks: Iterable[Task], samples: int, *seed_parts: int | str) -> list[PlannedEpisode]:
    """``samples`` episodes of each task, task by task, each with a seed of its own.

    A scenario that comes again, in the same step or in a later epoch, has a task of another seed, and other episodes.
    """
    return [
        PlannedEpisode(task, index, derive_seed(*seed_parts, task.key, task.seed, index))
        for task in tasks
        for index in range(samples)
    ]


@dataclass(slots=True)
class Player:
    """Plays planned episodes with one agent, which whoever uses this has opened.

    Attributes:
        agent: Plays the episodes.
        pool: Envs; its ``home`` is the agent's ``env_thread``.
        timeout_seconds: Limit of one episode.
        max_turns: Most turns of one.
        marker: Marks the answers; while a judge is waited for, others play.
        gate: Bounds how many play at once; players may share it.
        lost: Why episodes failed where no server was left to ask.
    """

    agent: Agent
    pool: EnvPool
    _: KW_ONLY
    timeout_seconds: float = TIMEOUT_SECONDS
    max_turns: int = MAX_TURNS
    marker: Marker | None = None
    gate: asyncio.Semaphore | None = None
    lost: ServerDiedError | None = field(default=None, init=False)
    _openings: dict[Task, int] = field(default_factory=dict, init=False)

    async def group(self, task: Task, size: int, *seed_parts: int | str, on_done: OnEpisode | None = None) -> Group:
        """A group: ``size`` episodes of one task.

        Raises:
            EnvError: Its members did not begin from the same prompt.
        """
        return Group(task, await self.all(planned_episodes([task], size, *seed_parts), on_done=on_done))

    async def all(self, episodes: Iterable[PlannedEpisode], *, on_done: OnEpisode | None = None) -> list[Episode]:
        """All episodes at once, as far as the ``gate`` allows; in the order they were planned."""

        async def told(planned: PlannedEpisode) -> Episode:
            episode = await self.one(planned)
            if on_done is not None:
                on_done(episode)
            return episode

        with first_of_ours():
            async with asyncio.TaskGroup() as group:
                tasks = [group.create_task(told(planned)) for planned in episodes]
        return [task.result() for task in tasks]

    async def each(self, episodes: Iterable[PlannedEpisode], concurrency: int, on_done: OnEpisode) -> None:
        """So many at once, one after the other; none is kept."""
        pending = iter(episodes)

        async def work() -> None:
            for planned in pending:
                on_done(await self.one(planned))

        with first_of_ours():
            async with asyncio.TaskGroup() as group:
                for _ in range(concurrency):
                    group.create_task(work())

    async def one(self, planned: PlannedEpisode) -> Episode:
        """Play an episode and have its answer marked.

        Raises:
            ConfigError: What was asked for cannot work in any episode.
            EnvError: The task began with another prompt before.
        """
        async with self.gate or nullcontext():
            episode = await self._played(planned)
        return episode if self.marker is None else await self.marker.marked(episode)

    async def _played(self, planned: PlannedEpisode) -> Episode:
        episode = Episode(self.pool.env_id, planned.task, planned.sample_index, planned.seed)
        episode.began, began = round(time.time(), 6), time.perf_counter()
        seat = await self.pool.seat()
        play = Play(episode, seat, self.max_turns)
        try:
            await seat.run(self._begin, play)
            failure = None if play.fault else await self._run_agent(play)
            await self._end(play)
        finally:
            if play.waiting is not None:
                play.waiting.leave()
            self.pool.leave(seat)
        if isinstance(failure, ServerDiedError):
            self.lost = failure
        episode.ending, episode.error = ending_of(play, failure)
        episode.seconds = round(time.perf_counter() - began, 6)
        return episode

    def _begin(self, play: Play) -> None:
        try:
            play.begin()
        except EnvError:
            if not play.fault:
                raise
            return
        task = play.episode.task
        opening = hash(repr(play.episode.messages))
        if self._openings.setdefault(task, opening) != opening:
            raise EnvError(
                f"{self.pool.env_id} begins sample {play.episode.sample_index} of {task.key!r} with another prompt "
                f"than the sample before; the same seed ({task.seed}) and scenario must give the same one"
            )

    async def _run_agent(self, play: Play) -> BaseException | None:
        """Have the agent play within its time; returns what it raised."""
        limit = asyncio.timeout(self.timeout_seconds)
        doing, remedy = f"its episode of {play.episode.task.key}", f"it is left after {self.timeout_seconds:g} s in all"
        try:
            with Waiting(Part.AGENT, doing, remedy, play.beat) if self.agent.may_crash else nullcontext():
                async with limit:
                    await self.agent.run(play)
        except (ConfigError, KeyboardInterrupt):  # what was asked for cannot work in any episode; the user's Ctrl-C
            raise
        except BaseException as error:
            task = asyncio.current_task()
            if isinstance(error, asyncio.CancelledError) and task is not None and task.cancelling():
                raise
            if limit.expired():
                return _OutOfTime(self.timeout_seconds)
            if not self.agent.may_crash and not isinstance(error, GrpoError):
                raise  # a fault of ours
            return error
        return None

    async def _end(self, play: Play) -> None:
        """Close the episode behind the calls that are under way."""
        try:
            await play.seat.run(lambda: play.end(wants_key=self.marker is not None))
        except EnvError as error:
            play.end(wants_key=False)
            play.fault = str(error)


class _OutOfTime(TimeoutError):
    """The agent was still running when its time was up."""

    def __init__(self, timeout_seconds: float):
        super().__init__(timeout_seconds)
        self.timeout_seconds = timeout_seconds


def ending_of(play: Play, failure: BaseException | None) -> tuple[Ending, str]:
    """Why an episode ended, and what was said of it.

    What the env ended stands, whatever the agent did afterwards. A failure of the env or of the model's server comes
    before the agent's exception or its lack of time, because it has probably caused them. So does a model that let a
    call wait for half of the episode's time.
    """
    said = "" if failure is None else describe(failure)
    if isinstance(failure, _OutOfTime):
        said = f"it was still running after {failure.timeout_seconds:g} s"
    if play.fault:
        return Ending.INFRASTRUCTURE, play.fault
    if play.terminated:
        return Ending.ANSWERED, said
    if play.truncated:
        return Ending.MAX_TURNS, said
    turns = play.episode.num_turns
    if play.is_cut:
        most = f"{turns} turns" if turns >= play.max_turns else f"{len(play.episode.calls)} calls of its model"
        return Ending.MAX_TURNS, f"cut after {most}, which the env had not ended (--max-turns)"
    last_call = play.episode.calls[-1] if play.episode.calls else None
    if isinstance(failure, ContextFullError):
        return Ending.CONTEXT_FULL, said
    if last_call and last_call.is_context_full:
        return Ending.CONTEXT_FULL, last_call.error
    if last_call and last_call.is_server_fault:
        return Ending.INFRASTRUCTURE, last_call.error
    if isinstance(failure, _OutOfTime):
        no_answer = f"no answer within {failure.timeout_seconds:g} s"
        if last_call is None or not last_call.is_pending:
            return Ending.TIMEOUT, no_answer
        waited = time.perf_counter() - play.began - last_call.began
        hung = waited >= failure.timeout_seconds / 2 and last_call.first_token_seconds is None
        ending = Ending.INFRASTRUCTURE if hung else Ending.TIMEOUT
        return ending, f"{no_answer}; a model call had not been answered for {waited:.0f} s"
    if isinstance(failure, GrpoError):
        return Ending.INFRASTRUCTURE, said
    if failure is not None:
        return Ending.AGENT_CRASH, said
    return Ending.NO_ANSWER, ""

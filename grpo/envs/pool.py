"""The envs of a run: kept open between episodes, and called where they do not hold each other up (`workers`).

Where the cost of a step is not known yet, one episode plays and the others wait for it: a turn where the env is cheap,
three where it is not. An evaluation bounds the wait, because its agents may think for long before they call a tool; an
agent that does so hardly meets others in the env.
"""

from __future__ import annotations

import asyncio
import math
import time
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import Any, ParamSpec, TypeVar

from grpo.envs.message_env import MessageEnv, Observation
from grpo.envs.own_thread import OwnThread
from grpo.envs.step_cost import Place
from grpo.envs.worker_env import WorkerEnv
from grpo.envs.workers import EnvWorkers
from grpo.errors import EnvError
from grpo.machine.processes import allow_many_files
from grpo.types import AnswerKey, Task
from judges.common.files import Closeable

P = ParamSpec("P")
Result = TypeVar("Result")

CLOSING_SECONDS = 5.0
"""How long envs in threads may take to close, all together."""
_POLL_SECONDS = 0.01


class Seat:
    """An env where an episode calls it. Awaiting a call lets others go on, but where the event loop calls it.

    Args:
        place: Where.
        make: Makes the env, at its first call and where it is to live.
        home: Thread of the envs whose place is ``loop``; None for that of the event loop.

    Attributes:
        thread: Where the env is called; None for the thread that calls.
    """

    def __init__(self, place: Place, make: Callable[[], MessageEnv | WorkerEnv], home: OwnThread | None = None):
        self.place = place
        self.thread = home if place is Place.LOOP else OwnThread()
        self._make = make
        self._env: MessageEnv | WorkerEnv | None = None
        self._is_busy = False

    @property
    def env(self) -> MessageEnv | WorkerEnv:
        """The env, for what `run` calls.

        Raises:
            EnvError: It cannot be made.
        """
        if self._env is None:
            self._env = self._make()
        return self._env

    async def reset(self, task: Task) -> Observation:
        """As of `MessageEnv`."""
        return await self.run(lambda: self.env.reset(task))

    async def step(self, action: str) -> Observation:
        """As of `MessageEnv`."""
        return await self.run(lambda: self.env.step(action))

    async def answered(self, given: str | None) -> AnswerKey | None:
        """As of `MessageEnv`."""
        return await self.run(lambda: self.env.answered(given))

    async def run(self, act: Callable[P, Result], *args: P.args, **kwargs: P.kwargs) -> Result:
        """Call ``act`` where the env lives."""
        if self.thread is None:
            return act(*args, **kwargs)
        self._is_busy = True  # and stays so where this raises or is cancelled
        result = await self.thread.run(lambda: act(*args, **kwargs))
        self._is_busy = False
        return result

    @property
    def free_env(self) -> MessageEnv | WorkerEnv | None:
        """The env; None where it was not made, or where a call that nobody awaits any more may go on."""
        return None if self._is_busy else self._env

    def close(self) -> None:
        """Have the env closed after the calls that are under way; its thread ends then."""
        assert self.thread is not None, "the pool closes what lives in the loop"
        self.thread.post(lambda: self._env.close() if self._env is not None else None)
        self.thread.end()


class EnvPool(Closeable):
    """Envs kept open between episodes; one per episode in flight.

    Args:
        env_id: As for `MessageEnv`.
        env_kwargs: As for `MessageEnv`.
        workers: Where envs are called, shared by the pools of a run; by default in the thread of the event loop.
        home: Thread that has the envs which would be called in the event loop.
        patience_seconds: How long episodes of the pool wait, all together, for the cost of a step.
    """

    def __init__(
        self,
        env_id: str,
        env_kwargs: dict[str, Any],
        workers: EnvWorkers | None = None,
        home: OwnThread | None = None,
        patience_seconds: float = math.inf,
    ):
        allow_many_files()
        self.env_id = env_id
        self.env_kwargs = env_kwargs
        self.workers = workers or EnvWorkers()
        self.home = home
        self._patience_seconds = patience_seconds
        self._patient_until: float | None = None
        self._idle: list[MessageEnv] = []
        self._all: list[MessageEnv] = []
        self._idle_seats: list[Seat] = []
        self._seats: set[Seat] = set()
        self._pilot: Seat | None = None

    def take(self) -> MessageEnv:
        """An env for the thread that calls, idle or new."""
        if self._idle:
            return self._idle.pop()
        env = MessageEnv(self.env_id, self.env_kwargs, self.workers.cost)
        self._all.append(env)
        return env

    def give_back(self, env: MessageEnv) -> None:
        """Hand an env back after its episode; a broken one is closed and not used again."""
        if not env.broken:
            self._idle.append(env)
            return
        self._all.remove(env)
        if self.home is None:
            env.close()
        else:
            self.home.post(env.close)

    def scenario_ids(self) -> list[str] | None:
        """Those of the env, as of `MessageEnv`."""
        env = self.take()
        try:
            return env.scenario_ids()
        finally:
            self.give_back(env)

    async def seat(self) -> Seat:
        """An env for one episode, where it holds up nobody; to be left with `leave`.

        Raises:
            EnvError: The system gives no further thread.
        """
        if self._patient_until is None:
            self._patient_until = time.monotonic() + self._patience_seconds
        while (place := self.workers.place()) is None and time.monotonic() < self._patient_until:
            if self._pilot is None:
                self._pilot = Seat(Place.LOOP, self.take, self.home)
                return self._pilot
            await asyncio.sleep(_POLL_SECONDS)
        if place is None or place is Place.LOOP:
            return Seat(Place.LOOP, self.take, self.home)
        while self._idle_seats:
            seat = self._idle_seats.pop()
            if seat.place is place:
                return seat
            self._close(seat)
        seat = Seat(place, partial(self.workers.make, self.env_id, self.env_kwargs, place))
        self._seats.add(seat)
        return seat

    def leave(self, seat: Seat) -> None:
        """After the episode, however it ended; an env that is broken or belongs elsewhere by now is closed."""
        if seat is self._pilot:
            self._pilot = None
        env = seat.free_env
        if seat.place is Place.LOOP:
            if isinstance(env, MessageEnv):
                self.give_back(env)
        elif env is not None and not env.broken and seat.place is self.workers.place():
            self._idle_seats.append(seat)
        else:
            self._close(seat)

    def close(self) -> None:
        """Close every env. One that hangs in a thread is left there, and what a ``close`` raises is dropped."""
        seats, until = list(self._seats), time.monotonic() + CLOSING_SECONDS
        for seat in seats:
            self._close(seat)
        if self.home is None:
            self._close_own()
        else:
            with suppress(TimeoutError):
                self.home.post(self._close_own).result(CLOSING_SECONDS)
        for seat in seats:
            assert seat.thread is not None, "the pool closes what lives in the loop"
            seat.thread.join(max(0.0, until - time.monotonic()))
        self._idle_seats.clear()

    def _close_own(self) -> None:
        for env in self._all:
            with suppress(EnvError):  # its episodes are over, and what they came to must not be lost with it
                env.close()
        self._all.clear()
        self._idle.clear()

    def _close(self, seat: Seat) -> None:
        self._seats.discard(seat)
        seat.close()

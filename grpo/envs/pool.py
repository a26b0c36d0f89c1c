"""The envs of a run: kept open between episodes, and called where they do not hold each other up (`workers`).

Where the cost of a step is not known yet, one episode plays and the others wait for it: a turn where the env is cheap,
three where it is not. An evaluation bounds the wait, because its agents may think for long before they call a tool; an
agent that does so hardly meets others in the env.
"""

import asyncio
import math
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future, wait
from contextlib import contextmanager, suppress
from functools import partial
from typing import Any, ParamSpec, TypeVar

from grpo.envs.message_env import MessageEnv
from grpo.envs.own_thread import OwnThread, StuckError
from grpo.envs.step_cost import Place
from grpo.envs.worker_env import WorkerEnv
from grpo.envs.workers import EnvWorkers
from grpo.errors import EnvError
from grpo.machine.processes import allow_many_files
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
        self._thread_number = self._number_of_thread

    @property
    def _number_of_thread(self) -> int:
        return 0 if self.thread is None else self.thread.number

    @property
    def env(self) -> MessageEnv | WorkerEnv:
        """The env, for what `run` calls.

        Raises:
            EnvError: It cannot be made, or its thread was left behind.
        """
        if self._thread_number != self._number_of_thread:
            raise EnvError("the thread of the envs was left behind, because one of them did not come back from a call")
        if self._env is None:
            self._env = self._make()
        return self._env

    async def run(self, act: Callable[P, Result], *args: P.args, **kwargs: P.kwargs) -> Result:
        """Call ``act`` where the env lives."""
        if self.thread is None:
            return act(*args, **kwargs)
        self._is_busy = True  # and stays so where this raises or is cancelled
        try:
            result = await self.thread.run(lambda: act(*args, **kwargs))
        except StuckError:
            self._leave_behind(self.thread)
            raise
        self._is_busy = False
        return result

    def _leave_behind(self, thread: OwnThread) -> None:
        """Let the env go that does not come back, with its worker process or what shares its thread."""
        if isinstance(self._env, WorkerEnv):
            self._env.end_worker()
        elif self.place is Place.LOOP and self._thread_number == thread.number:
            thread.replace()

    @property
    def is_usable(self) -> bool:
        """Whether another episode may have it: its env was made and is whole, and no call goes on unawaited."""
        is_left = self._thread_number != self._number_of_thread
        return self._env is not None and not self._env.broken and not self._is_busy and not is_left

    def close(self) -> Future[None]:
        """Have the env closed after the calls that are under way; a thread of its own ends then."""
        if self.thread is None:
            self._close_env()
            closed: Future[None] = Future()
            closed.set_result(None)
            return closed
        closed = self.thread.post(self._close_env)
        if self.place is not Place.LOOP:
            self.thread.end()
        return closed

    def _close_env(self) -> None:
        if self._env is not None and self._thread_number == self._number_of_thread:
            with suppress(EnvError):  # its episodes are over, and what they came to must not be lost with it
                self._env.close()


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
        self._idle: list[Seat] = []
        self._seats: set[Seat] = set()
        self._pilot: Seat | None = None

    @contextmanager
    def here(self) -> Iterator[MessageEnv]:
        """An env for the thread that calls."""
        seat = self._seat_at(Place.LOOP)
        try:
            env = seat.env
            assert isinstance(env, MessageEnv), "no worker process is the loop"
            yield env
        finally:
            self.leave(seat)

    def scenario_ids(self) -> list[str] | None:
        """Those of the env, as of `MessageEnv`."""
        with self.here() as env:
            return env.scenario_ids()

    async def seat(self) -> Seat:
        """An env for one episode, where it holds up nobody; to be left with `leave`.

        Raises:
            EnvError: The system gives no further thread.
        """
        if self._patient_until is None:
            self._patient_until = time.monotonic() + self._patience_seconds
        while (place := self.workers.place()) is None and time.monotonic() < self._patient_until:
            if self._pilot is None:
                self._pilot = self._seat_at(Place.LOOP)
                return self._pilot
            await asyncio.sleep(_POLL_SECONDS)
        return self._seat_at(place or Place.LOOP)

    def leave(self, seat: Seat) -> None:
        """After the episode, however it ended; a broken env is closed and not used again."""
        if seat is self._pilot:
            self._pilot = None
        if seat.is_usable:
            self._idle.append(seat)
        else:
            self._close(seat)

    def close(self) -> None:
        """Close every env. One that hangs in a thread is left there, and what a ``close`` raises is dropped."""
        self._idle.clear()
        wait([self._close(seat) for seat in list(self._seats)], CLOSING_SECONDS)

    def _seat_at(self, place: Place) -> Seat:
        """An idle seat of that place or a new one; idle ones of another place are closed."""
        while self._idle:
            seat = self._idle.pop()
            if seat.place is place:
                return seat
            self._close(seat)
        seat = Seat(place, partial(self.workers.make, self.env_id, self.env_kwargs, place), self.home)
        self._seats.add(seat)
        return seat

    def _close(self, seat: Seat) -> Future[None]:
        self._seats.discard(seat)
        return seat.close()

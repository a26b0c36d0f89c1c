"""The thread in which the envs of an evaluation live: every env is made, reset, stepped and closed in one thread.

Envs need not be thread-safe, whatever threads an agent has. An agent that plays on the event loop takes
`CallingThread`, which simply calls. An agent with threads or programs of its own takes `OwnThread`: one thread does
all work on envs, and tools hand it their calls over a queue. A tool therefore holds no reference to the env, its
questions or its answers.
"""

from __future__ import annotations

import asyncio
import math
import secrets
import signal
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from contextlib import contextmanager
from queue import SimpleQueue
from types import FrameType
from typing import Any, Protocol, TypeVar

from grpo.envs.message_env import CALL_OF_AN_ENV
from grpo.errors import EnvError
from grpo.eval.episode import Episode

Result = TypeVar("Result")


STUCK_SECONDS = 600.0
"""How long one call of an env may take before it is taken to hang."""


@contextmanager
def interruptible() -> Iterator[None]:
    """Let the first Ctrl-C end a call of an env in the main thread, too; an event loop would wait for its end."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    usual: Any = signal.getsignal(signal.SIGINT)

    def stop(number: int, frame: FrameType | None) -> None:
        outer = frame
        while outer is not None:
            if outer.f_code is CALL_OF_AN_ENV:
                raise KeyboardInterrupt
            outer = outer.f_back
        usual(number, frame)

    signal.signal(signal.SIGINT, stop)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, usual)


class EnvThread(Protocol):
    """Runs whatever touches an env."""

    async def run(self, act: Callable[[], Result]) -> Result:
        """Call ``act`` in the thread where the envs live."""
        ...

    def close(self) -> None:
        """Take no more calls of agents."""
        ...


class CallingThread:
    """The envs live in the thread that calls."""

    async def run(self, act: Callable[[], Result]) -> Result:
        """Call ``act``."""
        return act()

    def close(self) -> None:
        """Nothing to end."""


class OwnThread:
    """The envs live in a thread of their own.

    Its queue takes either a job of the harness or a tool call ``(token, name, arguments, reply)`` of an agent. The
    token is the episode's secret, so that a stray thread can reach no other episode.

    Attributes:
        requests: The queue; tools write to it.
    """

    def __init__(self) -> None:
        """Start the thread."""
        self.requests: SimpleQueue[Any] = SimpleQueue()
        self._episodes: dict[str, Episode] = {}
        self._called = math.inf
        threading.Thread(target=self._serve, name="grpo-eval-envs", daemon=True).start()

    async def run(self, act: Callable[[], Result]) -> Result:
        """Call ``act`` in the thread; the event loop goes on meanwhile.

        Raises:
            EnvError: An env has been in one call for `STUCK_SECONDS`: nothing else can be called any more.
        """
        future: Future[Result] = Future()
        self.requests.put((None, act, None, future))
        waiting = asyncio.wrap_future(future)
        while not (await asyncio.wait([waiting], timeout=1.0))[0]:
            if time.monotonic() - self._called > STUCK_SECONDS:
                raise EnvError(f"an env has been in one call for {STUCK_SECONDS:g} s and does not come back")
        return await waiting

    def admit(self, episode: Episode) -> str:
        """Let tool calls reach an episode; returns its token."""
        token = secrets.token_urlsafe(24)
        self._episodes[token] = episode
        return token

    def dismiss(self, token: str) -> None:
        """Let no further call reach the episode."""
        self._episodes.pop(token, None)

    def close(self) -> None:
        """Let no call reach any episode. The thread stays, as a daemon, and refuses what stray agents still ask."""
        self._episodes.clear()

    def _serve(self) -> None:
        while True:
            self._called = math.inf
            token, act, arguments, reply = self.requests.get()
            self._called = time.monotonic()
            if token is None:
                _settle(reply, act)
                continue
            episode = self._episodes.get(token)
            try:
                reply.put((True, episode.call(act, arguments)) if episode else (False, "the episode is closed"))
            except BaseException as error:  # the agent's thread must not wait for ever
                reply.put((False, f"{type(error).__name__}: {error}"))


def _settle(future: Future[Any], act: Callable[[], Any]) -> None:
    if not future.set_running_or_notify_cancel():
        return
    try:
        future.set_result(act())
    except BaseException as error:
        future.set_exception(error)

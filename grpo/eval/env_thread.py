"""The thread in which the envs of an evaluation live: every env is made, reset, stepped and closed in one thread.

Envs need not be thread-safe, whatever threads an agent has. An agent that plays on the event loop takes
`CallingThread`, which simply calls. An agent with threads or programs of its own takes `OwnThread`: one thread does
all work on envs, and tools hand it their calls over a queue. A tool therefore holds no reference to the env, its
questions or its answers.
"""

from __future__ import annotations

import asyncio
import secrets
import threading
from collections.abc import Callable
from concurrent.futures import Future
from queue import SimpleQueue
from typing import Any, Protocol, TypeVar

from grpo.eval.episode import Episode

Result = TypeVar("Result")


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
        threading.Thread(target=self._serve, name="grpo-eval-envs", daemon=True).start()

    async def run(self, act: Callable[[], Result]) -> Result:
        """Call ``act`` in the thread; the event loop goes on meanwhile."""
        future: Future[Result] = Future()
        self.requests.put((None, act, None, future))
        return await asyncio.wrap_future(future)

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
            token, act, arguments, reply = self.requests.get()
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

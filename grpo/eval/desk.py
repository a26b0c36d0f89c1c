"""Where the env is touched: always from one thread, whatever thread the agent runs in.

Agents that play on the event loop use `InlineDesk`, which simply calls. Agents with threads or programs of their own
use `ThreadDesk`: one thread does all env work, and tools reach it through a queue that shows them nothing of the env.
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


class Desk(Protocol):
    """Runs what touches an env."""

    async def run(self, act: Callable[[], Result]) -> Result:
        """Call ``act`` where envs live."""
        ...

    def close(self) -> None:
        """Take no more work from agents."""
        ...


class InlineDesk:
    """The calling thread is where envs live."""

    async def run(self, act: Callable[[], Result]) -> Result:
        """Call ``act``."""
        return act()

    def close(self) -> None:
        """Nothing to end."""


class ThreadDesk:
    """One thread in which envs are made, reset and stepped.

    Its queue takes either a job of the harness or a tool call ``(token, name, arguments, reply)`` of an agent. The
    token is the episode's secret, so a stray thread can reach no other episode.
    """

    def __init__(self) -> None:
        """Start the thread."""
        self._inbox: SimpleQueue[Any] = SimpleQueue()
        self._episodes: dict[str, Episode] = {}
        threading.Thread(target=self._serve, name="grpo-eval-envs", daemon=True).start()

    async def run(self, act: Callable[[], Result]) -> Result:
        """Call ``act`` in the thread and wait without blocking the event loop."""
        future: Future[Result] = Future()
        self._inbox.put((None, act, None, future))
        return await asyncio.wrap_future(future)

    def admit(self, episode: Episode) -> str:
        """Let tool calls reach an episode; returns its token."""
        token = secrets.token_urlsafe(24)
        self._episodes[token] = episode
        return token

    def dismiss(self, token: str) -> None:
        """Let no further call reach it."""
        self._episodes.pop(token, None)

    @property
    def inbox(self) -> SimpleQueue[Any]:
        """What tools write to."""
        return self._inbox

    def close(self) -> None:
        """Admit nobody any more. The thread stays, as a daemon, to turn away agents that were left behind."""
        self._episodes.clear()

    def _serve(self) -> None:
        while True:
            token, act, arguments, reply = self._inbox.get()
            if token is None:
                _settle(reply, act)
                continue
            episode = self._episodes.get(token)
            try:
                reply.put((True, episode.call(act, arguments)) if episode else (False, "the episode is closed"))
            except Exception as error:  # the agent's thread must not wait for ever
                reply.put((False, f"{type(error).__name__}: {error}"))


def _settle(future: Future[Any], act: Callable[[], Any]) -> None:
    if not future.set_running_or_notify_cancel():
        return
    try:
        future.set_result(act())
    except BaseException as error:
        future.set_exception(error)

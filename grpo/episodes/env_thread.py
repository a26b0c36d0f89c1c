"""The thread in which envs live that are cheap to call, where agents have threads or programs of their own.

Tools hand it their calls over a queue, so they hold no reference to the env, its questions or its answers. An env that
has a thread of its own, because it is slow, gets its calls from here.
"""

import secrets
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any

from grpo.envs.message_env import CALL_OF_AN_ENV
from grpo.envs.own_thread import OwnThread
from grpo.episodes.play import Play


@contextmanager
def interruptible() -> Iterator[None]:
    """Let the first Ctrl-C end a call of an env in the main thread, too; an event loop would wait for its end."""
    usual: Any = signal.getsignal(signal.SIGINT)
    if threading.current_thread() is not threading.main_thread() or not callable(usual):
        yield  # not callable: Ctrl-C is ignored, as in a shell's background jobs
        return

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


class EnvThread(OwnThread):
    """Takes tool calls ``(token, name, arguments, reply)`` of agents, too.

    The token is the episode's secret, so that a stray thread can reach no other episode. The thread never ends: it
    refuses what stray agents still ask.
    """

    def __init__(self) -> None:
        super().__init__()
        self._plays: dict[str, Play] = {}
        self._handing_over = threading.Lock()

    @contextmanager
    def admit(self, play: Play) -> Iterator[str]:
        """Let calls reach an episode, by the token that this gives; none does afterwards."""
        token = secrets.token_urlsafe(24)
        self._plays[token] = play
        try:
            yield token
        finally:
            with self._handing_over:
                self._plays.pop(token, None)

    def play(self, token: str) -> Play | None:
        """The episode of a token, while it lasts."""
        return self._plays.get(token)

    def close(self) -> None:
        """Let no call reach any episode."""
        self._plays.clear()

    def _do(self, request: Any) -> None:
        if len(request) == 2:
            super()._do(request)
            return
        token, name, arguments, reply = request
        with self._handing_over:  # a thread that ends gets no call after the episode's dismissal
            play = self._plays.get(token)
            thread = play.seat.thread if play is not None else None
            if thread is not None and thread is not self:
                thread.post(lambda: _answer(play, name, arguments, reply))
                return
        _answer(play, name, arguments, reply)


def _answer(play: Play | None, name: str, arguments: dict[str, Any], reply: Callable[[Any], None]) -> None:
    if play is None:
        reply((False, "the episode is closed"))
        return
    try:
        reply((True, play.call(name, arguments)))
    except BaseException as error:  # the agent's thread must not wait for ever
        reply((False, f"{type(error).__name__}: {error}"))

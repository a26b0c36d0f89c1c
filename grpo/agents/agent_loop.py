"""An event loop in a thread of its own, where agents that are ``async`` functions play.

They share it with each other, so that a client may serve all episodes, but not with the harness: an agent that blocks
it, for example by a tool call, which waits for the env, stops neither time limits nor Ctrl-C.
"""

import asyncio
import threading
from collections.abc import Awaitable, Callable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

from grpo.machine.background import BackgroundLoop

CLOSING_SECONDS = 1.0
"""How long agents that were cancelled may take to end."""


class AgentLoop(BackgroundLoop):
    """Runs what agents await; one that an agent blocks is left behind with its thread when this is closed."""

    def __init__(self) -> None:
        """Start the thread."""
        super().__init__("grpo-eval-agents", CLOSING_SECONDS)
        self._loop.set_default_executor(_DaemonThreads())

    async def play(self, awaitable: Awaitable[Any]) -> Any:
        """Await ``awaitable`` in the loop; raises what it raises, and cancels it where this is cancelled."""
        result, error = await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(_settled(awaitable), self._loop))
        if error is not None:
            raise error
        return result


def in_daemon_thread(function: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
    """Call a function of an agent's in a thread of its own; the process does not wait for it at its end."""
    future: Future[Any] = Future()

    def work() -> None:
        try:
            future.set_result(function(*args, **kwargs))
        except BaseException as error:  # SystemExit too: it is the agent's end, not ours
            future.set_exception(_of_an_agent(error))

    future.set_running_or_notify_cancel()
    threading.Thread(target=work, name="grpo-eval-agent", daemon=True).start()
    return future


class _DaemonThreads(ThreadPoolExecutor):
    """Takes what agents hand to ``asyncio.to_thread``."""

    submit = staticmethod(in_daemon_thread)  # type: ignore[assignment]


async def _settled(awaitable: Awaitable[Any]) -> tuple[Any, BaseException | None]:
    try:
        return await awaitable, None
    except asyncio.CancelledError:
        raise
    except BaseException as error:  # SystemExit too: it is the agent's end, not the loop's
        return None, _of_an_agent(error)


def _of_an_agent(error: BaseException) -> BaseException:
    """An exception that ends the agent alone: no future takes StopIteration, a real Ctrl-C reaches the main thread."""
    if isinstance(error, StopIteration | KeyboardInterrupt):
        return RuntimeError(f"the agent raised {type(error).__name__}")
    return error

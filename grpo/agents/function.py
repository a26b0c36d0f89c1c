"""An agent that is a Python function: ``fn(task, tools, model) -> str | Answer | None``, plain or ``async``.

A plain function runs in a thread of its own; one that is still running when its time is up is left behind, and the next
tool it calls ends it. Async functions share an event loop of their own (`agent_loop`), which a tool call blocks: one
whose env is slow belongs into ``asyncio.to_thread``.
"""

from __future__ import annotations

import asyncio
import inspect
import threading
from collections.abc import Callable
from typing import Any, Self

from grpo.agents.agent_loop import AgentLoop
from grpo.agents.endpoint import Endpoint
from grpo.agents.typed_tools import typed_tools
from grpo.agents.upstream import Upstream
from grpo.episodes.env_thread import EnvThread
from grpo.episodes.play import Play
from grpo.errors import EvaluationError
from grpo.machine.user_code import load_function
from grpo.types import Answer


class FunctionAgent:
    """Calls the function once for each episode.

    Args:
        function: The agent.
        upstream: The model it may use; without one it is given None.
    """

    needs_env, may_crash = False, True

    def __init__(self, function: Callable[..., Any], upstream: Upstream | None):
        self.function = function
        self.env_thread = EnvThread()
        self.endpoint = Endpoint(upstream) if upstream else None
        self._loop: AgentLoop | None = None

    async def __aenter__(self) -> Self:
        self._loop = AgentLoop()
        if self.endpoint:
            self.endpoint.start()
        return self

    async def __aexit__(self, *_: object) -> None:
        if self.endpoint:
            await asyncio.to_thread(self.endpoint.stop)
        self.env_thread.close()
        if self._loop:
            await asyncio.to_thread(self._loop.close)

    async def run(self, play: Play) -> None:
        """Let the function play, and take what it returns as its answer if it gave none."""
        token = self.env_thread.admit(play)
        try:
            model = self.endpoint.admit(token, play) if self.endpoint else None
            arguments = (play.agent_task, typed_tools(play.episode.tools, self.env_thread.requests, token), model)
            result = await self._play(arguments)
            answer = _answer(result)
        finally:
            self.env_thread.dismiss(token)
            if self.endpoint:
                self.endpoint.dismiss(token)
        await play.seat.run(play.conclude, answer)

    async def _play(self, arguments: tuple[Any, ...]) -> Any:
        assert self._loop is not None, "the agent is open"
        if inspect.iscoroutinefunction(self.function):
            return await self._loop.run(self.function(*arguments))
        result = await _in_thread(self.function, arguments)
        return await self._loop.run(result) if inspect.isawaitable(result) else result


def agent_function(target: str) -> Callable[..., Any]:
    """The function that ``pkg.mod:fn`` names.

    Raises:
        ConfigError: There is no such module or function.
        EvaluationError: It does not take (task, tools, model).
    """
    function = load_function(target)
    try:
        inspect.signature(function).bind("task", [], None)
    except TypeError as error:
        raise EvaluationError(
            f"agent {target!r} must take three arguments (task, tools, model); it has {inspect.signature(function)}"
        ) from error
    return function


def _answer(result: Any) -> Answer | None:
    if result is None or isinstance(result, Answer):
        return result
    if isinstance(result, str):
        return Answer(result) if result.strip() else None
    raise TypeError(f"the agent returned {type(result).__name__} {str(result)[:100]!r}; return str, Answer or None")


async def _in_thread(function: Callable[..., Any], arguments: tuple[Any, ...]) -> Any:
    loop = asyncio.get_running_loop()
    future: asyncio.Future[Any] = loop.create_future()

    def settle(result: Any, error: BaseException | None) -> None:
        if future.done():
            return
        future.set_result((result, error))

    def work() -> None:
        result, error = None, None
        try:
            result = function(*arguments)
        except (StopIteration, KeyboardInterrupt) as raised:  # a real Ctrl-C reaches the main thread alone
            error = RuntimeError(f"the agent raised {type(raised).__name__}")
        except BaseException as raised:  # SystemExit too: it is the agent's end, not ours
            error = raised
        try:
            loop.call_soon_threadsafe(settle, result, error)
        except RuntimeError:  # the evaluation is over and nobody waits any more
            pass

    threading.Thread(target=work, name="grpo-eval-agent", daemon=True).start()
    result, error = await future
    if error is not None:
        raise error
    return result

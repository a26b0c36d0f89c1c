"""An agent that is a Python function: ``fn(task, tools, model) -> str | Answer | None``, plain or ``async``.

A plain function runs in a thread of its own; one that is still running when its time is up is left behind, and the next
tool it calls ends it. Async functions share an event loop of their own (`agent_loop`), which a tool call blocks: one
whose env is slow belongs into ``asyncio.to_thread``.
"""

import asyncio
import inspect
from collections.abc import Callable
from typing import Any, Self

from grpo.agents.agent_loop import AgentLoop, in_daemon_thread
from grpo.agents.endpoint import Endpoint
from grpo.agents.typed_tools import typed_tools
from grpo.agents.upstream import Upstream
from grpo.episodes.env_thread import EnvThread
from grpo.episodes.play import Play
from grpo.episodes.player import Agent
from grpo.errors import EvaluationError
from grpo.machine.user_code import load_function
from grpo.types import Answer


class FunctionAgent(Agent):
    """Calls the function once for each episode.

    Args:
        function: The agent.
        upstream: The model it may use; without one it is given None.
    """

    def __init__(self, function: Callable[..., Any], upstream: Upstream | None):
        self.function = function
        self.env_thread = self._thread = EnvThread()
        self.endpoint = Endpoint(self._thread, upstream) if upstream else None
        self._loop: AgentLoop | None = None

    async def __aenter__(self) -> Self:
        self._loop = AgentLoop()
        if self.endpoint:
            self.endpoint.start()
        return self

    async def __aexit__(self, *_: object) -> None:
        if self.endpoint:
            await asyncio.to_thread(self.endpoint.stop)
        self._thread.close()
        if self._loop:
            await asyncio.to_thread(self._loop.close)

    async def run(self, play: Play) -> None:
        """Let the function play, and take what it returns as its answer if it gave none."""
        with self._thread.admit(play) as token:
            model = self.endpoint.model(token) if self.endpoint else None
            arguments = (play.agent_task, typed_tools(play.episode.tools, self._thread.requests, token), model)
            answer = _answer(await self._play(arguments))
        await play.seat.run(play.conclude, answer)

    async def _play(self, arguments: tuple[Any, ...]) -> Any:
        assert self._loop is not None, "the agent is open"
        if inspect.iscoroutinefunction(self.function):
            return await self._loop.run(self.function(*arguments))
        result = await asyncio.wrap_future(in_daemon_thread(self.function, *arguments))
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

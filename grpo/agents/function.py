"""An agent that is a Python function: ``fn(task, tools, model) -> str | Answer | None``, plain or ``async``.

It is called in this process, or in an interpreter of its own (`Interpreter`).

A plain function runs in a thread of its own; one that is still running when its time is up is left behind, and the next
tool it calls ends it. Async functions share an event loop of their own (`agent_loop`), which a tool call blocks: one
whose env is slow belongs into ``asyncio.to_thread``.
"""

import asyncio
from collections.abc import Callable
from typing import Any, Self

from grpo.agents.agent_loop import AgentLoop
from grpo.agents.calling import called
from grpo.agents.endpoint import Endpoint
from grpo.agents.interpreter import Interpreter
from grpo.agents.typed_tools import typed_tools
from grpo.agents.upstream import Upstream
from grpo.episodes.env_thread import EnvThread
from grpo.episodes.play import Play
from grpo.episodes.player import Agent
from grpo.types import Answer, Model


class FunctionAgent(Agent):
    """Calls the function once for each episode.

    Args:
        function: The agent, or where it is called.
        upstream: The model it may use; without one it is given None.
    """

    def __init__(self, function: Callable[..., Any] | Interpreter, upstream: Upstream | None):
        self.function = function
        self.env_thread = self._thread = EnvThread()
        self.endpoint = Endpoint(self._thread, upstream) if upstream else None
        self._loop: AgentLoop | None = None

    async def __aenter__(self) -> Self:
        self._loop = AgentLoop()
        if isinstance(self.function, Interpreter):
            await asyncio.to_thread(self.function.start, self._thread.requests)
        if self.endpoint:
            self.endpoint.start()
        return self

    async def __aexit__(self, *_: object) -> None:
        if self.endpoint:
            await asyncio.to_thread(self.endpoint.stop)
        self._thread.close()
        if isinstance(self.function, Interpreter):
            await asyncio.to_thread(self.function.close)
        if self._loop:
            await asyncio.to_thread(self._loop.close)

    async def run(self, play: Play) -> None:
        """Let the function play, and take what it returns as its answer if it gave none."""
        with self._thread.admit(play) as token:
            model = self.endpoint.model(token) if self.endpoint else None
            answer = await self._answer(token, play, model)
        await play.seat.run(play.conclude, answer)

    async def _answer(self, token: str, play: Play, model: Model | None) -> Answer | None:
        if isinstance(self.function, Interpreter):
            return await self.function.play(token, play.agent_task, play.episode.tools, model)
        assert self._loop is not None, "the agent is open"
        tools = typed_tools(play.episode.tools, self._thread.requests.put, token)
        return await called(self.function, self._loop, play.agent_task, tools, model)

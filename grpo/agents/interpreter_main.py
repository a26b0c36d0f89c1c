"""The process in which functions of ``--agent-python`` play: it calls the agent's function for each episode.

Run by `grpo.agents.interpreter` in another interpreter as ``PYTHON -c BOOT FD PARENT TARGET``. It needs nothing but the
standard library and what the agent imports. Both sides send JSON, a message at a time:

    {"play": ID, "task": {...}, "tools": [...], "model": {...} or null}    begin an episode
    {"called": NUMBER, "done": true, "text": "..."}                         what a tool said
    {"ready": ""}                                                           the function is there; else why it is not
    {"call": NUMBER, "play": ID, "name": "...", "arguments": {...}}         a tool is called
    {"ended": ID, "answer": {...} or null, "error": "..."}                  the function has returned, or raised
"""

import asyncio
import itertools
import json
import os
import signal
import sys
import threading
from collections.abc import Callable
from multiprocessing.connection import Connection
from typing import Any

from grpo.agents.agent_loop import AgentLoop
from grpo.agents.calling import agent_function, called
from grpo.agents.typed_tools import typed_tools
from grpo.errors import GrpoError, describe
from grpo.machine.processes import end_with_parent
from grpo.types import AgentTask, Model


class Host:
    """This process's side of the connection."""

    def __init__(self, connection: Connection, function: Callable[..., Any]):
        self.function = function
        self._connection = connection
        self._sending = threading.Lock()
        self._numbers = itertools.count()
        self._waiting: dict[int, Callable[[tuple[bool, str]], None]] = {}
        self._agents = AgentLoop()

    def send(self, **message: Any) -> None:
        """A message to the other side."""
        content = json.dumps(message, ensure_ascii=False, default=str).encode(errors="replace")
        with self._sending:
            self._connection.send_bytes(content)

    def ask(self, item: tuple[str, str, dict[str, Any], Callable[[tuple[bool, str]], None]]) -> None:
        """A tool's call, as `typed_tools` makes it."""
        play, name, arguments, reply = item
        number = next(self._numbers)
        self._waiting[number] = reply
        self.send(call=number, play=play, name=name, arguments=arguments)

    async def serve(self) -> None:
        """Answer until the other side closes."""
        playing = set[asyncio.Task[None]]()
        while (message := await asyncio.to_thread(self._receive)) is not None:
            if "called" in message:
                self._waiting.pop(message["called"])((message["done"], message["text"]))
            else:
                playing.add(task := asyncio.create_task(self._play(message)))
                task.add_done_callback(playing.discard)

    def _receive(self) -> dict[str, Any] | None:
        try:
            return json.loads(self._connection.recv_bytes())
        except (EOFError, OSError):
            return None

    async def _play(self, message: dict[str, Any]) -> None:
        model = None if message["model"] is None else Model(**message["model"])
        tools = typed_tools(message["tools"], self.ask, message["play"])
        try:
            answer = await called(self.function, self._agents, AgentTask(**message["task"]), tools, model)
        except BaseException as error:
            self.send(ended=message["play"], answer=None, error=describe(error))
            return
        said = None if answer is None else {"text": answer.text, "sources": answer.sources}
        self.send(ended=message["play"], answer=said, error="")


def main() -> None:
    """Load the function, say so, and serve."""
    end_with_parent(int(sys.argv[2]), lambda: os.killpg(0, signal.SIGKILL))
    host = Host(Connection(int(sys.argv[1])), lambda *_: None)
    try:
        host.function = agent_function(sys.argv[3])
    except GrpoError as error:
        host.send(ready=str(error))
        return
    host.send(ready="")
    asyncio.run(host.serve())
    os.killpg(0, signal.SIGKILL)

"""An interpreter of its own for an agent's function: frameworks pin packages that the trainer cannot have.

One process plays all episodes (`grpo.agents.interpreter_main`), with its own packages first and this project's behind
them. What it says is JSON, so nothing of the agent's is run here. If it ends, the episodes in it fail, and the next one
starts it again.
"""

import asyncio
import json
import multiprocessing
import os
import shutil
import signal
import subprocess
import threading
from concurrent.futures import Future
from contextlib import suppress
from dataclasses import asdict
from pathlib import Path
from queue import SimpleQueue
from typing import Any

from grpo.errors import EvaluationError
from grpo.types import AgentTask, Answer, Model

BOOT = "import sys; sys.path.append(sys.argv.pop(4)); from grpo.agents.interpreter_main import main; main()"
"""Finds the modules of the working directory first, this project's after all that the interpreter has."""


SECRET_PREFIX = "EMAIL_ENV_"
"""Where mail and questions lie is none of an agent's business."""


class AgentFailed(RuntimeError):
    """The agent's function raised; or its process has ended."""


class Interpreter:
    """Calls one function in a process of another interpreter.

    Args:
        python: The interpreter.
        target: The function, ``PKG.MOD:FUNCTION``, as it finds it.
        option: Where it was named.

    Raises:
        EvaluationError: There is no such interpreter.
    """

    def __init__(self, python: str, target: str, option: str = "--agent-python"):
        if shutil.which(python) is None:
            raise EvaluationError(f"{option} {python}: there is no program that can be run; give a python's path")
        self.python = python
        self.target = target
        self._host: _Host | None = None
        self._starting = threading.Lock()
        self._requests: SimpleQueue[Any] = SimpleQueue()

    def start(self, requests: SimpleQueue[Any]) -> None:
        """Start the process; returns once the function is loaded.

        Args:
            requests: Where calls of tools go (`EnvThread`).

        Raises:
            EvaluationError: It has no such function.
        """
        self._requests = requests
        self._running()

    def close(self) -> None:
        """End the process, and what its agents have started."""
        if self._host is not None:
            self._host.end()

    async def play(
        self, token: str, task: AgentTask, tools: list[dict[str, Any]], model: Model | None
    ) -> Answer | None:
        """Have the function play the episode of ``token``, and give what it answers.

        Raises:
            AgentFailed: It raised, or its process has ended.
        """
        host = await asyncio.to_thread(self._running)
        return await host.play(token, task=asdict(task), tools=tools, model=None if model is None else asdict(model))

    def _running(self) -> "_Host":
        with self._starting:
            if self._host is None or self._host.process.poll() is not None:
                self._host = _Host(self.python, self.target, self._requests)
            return self._host


class _Host:
    """One process, from its start to its end."""

    def __init__(self, python: str, target: str, requests: SimpleQueue[Any]):
        self.python = python
        self._requests = requests
        self._open: dict[str, Future[Answer | None]] = {}
        self._sending = threading.Lock()
        self._connection, theirs = multiprocessing.Pipe()
        root = str(Path(__file__).resolve().parents[2])
        with theirs:
            self.process = subprocess.Popen(
                [python, "-c", BOOT, str(theirs.fileno()), str(os.getpid()), target, root],
                pass_fds=[theirs.fileno()],
                stdin=subprocess.DEVNULL,
                stdout=2,  # what agents print is no output of the command
                process_group=0,
                env={name: value for name, value in os.environ.items() if not name.startswith(SECRET_PREFIX)},
            )
        try:
            why = json.loads(self._connection.recv_bytes())["ready"]
        except (EOFError, OSError):
            why = f"it ended with status {self.process.wait()}; its words stand above"
        if why:
            self.end()
            raise EvaluationError(f"{target} cannot be called by {python}: {why}")
        threading.Thread(target=self._read, name="grpo-agent-interpreter", daemon=True).start()

    def end(self) -> None:
        """Kill it, and what its agents have started."""
        self._connection.close()
        with suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()

    async def play(self, token: str, **about: Any) -> Answer | None:
        """See `Interpreter`."""
        future = self._open[token] = Future[Answer | None]()
        try:
            self._send(play=token, **about)
            return await asyncio.wrap_future(future)
        finally:
            del self._open[token]

    def _send(self, **message: Any) -> None:
        content = json.dumps(message, ensure_ascii=False, default=str).encode(errors="replace")
        with self._sending:
            try:
                self._connection.send_bytes(content)
            except OSError as error:
                raise AgentFailed(f"the process of {self.python} has ended ({error})") from error

    def _read(self) -> None:
        try:
            while True:
                self._take(json.loads(self._connection.recv_bytes()))
        except (EOFError, OSError):
            status = self.process.wait()
            for future in list(self._open.values()):
                if not future.done():
                    future.set_exception(AgentFailed(f"the process of {self.python} has ended with status {status}"))

    def _take(self, message: dict[str, Any]) -> None:
        if "call" in message:

            def reply(said: tuple[bool, str]) -> None:
                with suppress(AgentFailed):  # an agent that is gone needs it no more
                    self._send(called=message["call"], done=said[0], text=said[1])

            self._requests.put((message["play"], message["name"], message["arguments"], reply))
        elif (future := self._open.get(message["ended"])) is not None and not future.done():
            given = message["answer"]
            if message["error"]:
                future.set_exception(AgentFailed(message["error"]))
            else:
                future.set_result(None if given is None else Answer(given["text"], tuple(given["sources"])))

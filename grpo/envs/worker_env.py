"""The near side of a worker process: envs that live in it, called as if they were here.

A worker has one call at a time. A thread that asks waits until the worker is free, and then for the reply. Workers
are programs of their own (`grpo.envs.worker_main`), not forks: the process that starts them may have torch, threads
and GPUs, and a script without ``if __name__ == "__main__"`` works.
"""

import multiprocessing
import os
import signal
import subprocess
import sys
import threading
from contextlib import suppress
from typing import Any, NamedTuple

from grpo.envs.message_env import Observation
from grpo.envs.step_cost import StepCost
from grpo.errors import EnvError
from grpo.machine.processes import child_environment, module_command
from grpo.types import AnswerKey, Task

ENDING_SECONDS = 2.0
"""How long a worker may take to end by itself."""


class Called(NamedTuple):
    """What became of a call: the value, or why there is none; and what it took."""

    value: Any
    error: str
    seconds: float
    computing_seconds: float


class Worker:
    """A worker process.

    Attributes:
        envs: Numbers of the envs that live in it, or are about to.
    """

    def __init__(self) -> None:
        ours, theirs = multiprocessing.Pipe()
        variables = {"PYTHONHASHSEED": os.environ.get("PYTHONHASHSEED", "0")}
        with theirs:
            self._process = subprocess.Popen(
                module_command("grpo.envs.worker_main", str(theirs.fileno()), str(os.getpid())),
                pass_fds=[theirs.fileno()],
                stdin=subprocess.DEVNULL,
                stdout=2,  # what envs print is no output of the command
                process_group=0,  # a Ctrl-C is for the command, which then ends its workers
                env=child_environment(variables),
            )
        self._connection = ours
        self._free = threading.Lock()
        self.envs: set[int] = set()

    @property
    def is_alive(self) -> bool:
        """Whether it can be asked."""
        return self._process.poll() is None

    def ask(self, number: int, name: str, *arguments: Any) -> Called:
        """Call a method of an env; waits for the calls before it.

        Raises:
            EnvError: The worker has ended.
        """
        try:
            with self._free:
                self._connection.send((number, name, *arguments))
                return Called(*self._connection.recv())
        except (OSError, EOFError) as error:
            raise EnvError(f"the worker process of the env has ended ({self._ending()}) at {name}") from error

    def end(self) -> None:
        """End it and what its envs have started; one in a call is killed."""
        if self._free.acquire(blocking=False):
            self._connection.close()
            self._free.release()
            with suppress(subprocess.TimeoutExpired):
                self._process.wait(ENDING_SECONDS)
        with suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()

    def _ending(self) -> str:
        try:
            status = self._process.wait(ENDING_SECONDS)
        except subprocess.TimeoutExpired:
            return "it closed its connection"
        if status >= 0:
            return f"exit status {status}"
        killed = "; the system kills so when memory is short" if -status == signal.SIGKILL else ""
        return f"{signal.Signals(-status).name}{killed}"


class WorkerEnv:
    """An env that lives in a worker process: the methods of `MessageEnv` that an episode needs.

    Args:
        worker: Where it lives.
        number: Its own there, one of `Worker.envs` as long as it lives.
        env_id: As for `MessageEnv`.
        env_kwargs: As for `MessageEnv`.
        module: Registers the env; imported there first.
        cost: Is told what each step took there.

    Raises:
        EnvError: It cannot be made there.
    """

    def __init__(
        self,
        worker: Worker,
        number: int,
        env_id: str,
        env_kwargs: dict[str, Any],
        module: str | None,
        cost: StepCost,
    ) -> None:
        self.env_id = env_id
        self.broken = False
        self._worker = worker
        self._number = number
        self._cost = cost
        try:
            self._make(env_id, env_kwargs, module, sys.path)
        except EnvError:
            worker.envs.discard(number)
            raise

    def reset(self, task: Task) -> Observation:
        """As of `MessageEnv`."""
        return self._ask("reset", task).value

    def step(self, action: str) -> Observation:
        """As of `MessageEnv`."""
        called = self._ask("step", action)
        self._cost.add(called.seconds, called.computing_seconds)
        return called.value

    def answered(self, given: str | None) -> AnswerKey | None:
        """As of `MessageEnv`."""
        return self._ask("answered", given).value

    def is_plain(self) -> bool:
        """As of `MessageEnv`."""
        return self._ask("is_plain").value

    def end_worker(self) -> None:
        """End its worker, with the envs that live there."""
        self._worker.end()

    def close(self) -> None:
        """As of `MessageEnv`; nothing where the worker has ended."""
        self._worker.envs.discard(self._number)
        was_broken = self.broken
        try:
            self._ask("close")
        except EnvError:
            if not was_broken and self._worker.is_alive:
                raise

    def _make(self, *recipe: Any) -> None:
        try:
            self._ask("make", *recipe)
        except EnvError as error:
            raise EnvError(f"in a worker process: {error}") from error
        except Exception as error:  # of pickle, which raises what it likes before it sends anything
            raise EnvError(f"the arguments of {self.env_id} cannot be sent to a worker process: {error}") from error

    def _ask(self, name: str, *arguments: Any) -> Called:
        try:
            called = self._worker.ask(self._number, name, *arguments)
            if called.error:
                raise EnvError(called.error)
        except EnvError:
            self.broken = True
            raise
        return called

"""Where the envs of a run are called, so that a slow one does not hold up the others: by a setting, or by measurement.

The cost of a step is measured all the time (`step_cost`), and a new episode goes where its env belongs by then. Envs
that are under way stay where they are.
"""

import itertools
import threading
from collections.abc import Callable
from typing import Any

from grpo.envs.message_env import MessageEnv
from grpo.envs.step_cost import Place, StepCost
from grpo.envs.worker_env import Worker, WorkerEnv
from grpo.errors import EnvError
from grpo.machine.hardware import cpu_count
from grpo.settings import EnvWorkersSetting
from judges.common.files import Closeable


class EnvWorkers(Closeable):
    """Where the envs of a run are called, and their worker processes.

    Args:
        setting: ``rollout.env_workers``: "auto" (measured), "threads", or a number of worker processes; with 0 envs
            are called in the thread of the event loop.
        module: Registers the env; a worker imports it first.
        say: Is told once where the envs have gone, and why.
        stay: With "auto", envs that compute go to threads, too: who plays needs the env itself.
    """

    def __init__(
        self,
        setting: EnvWorkersSetting = 0,
        module: str | None = None,
        say: Callable[[str], None] = lambda line: None,
        *,
        stay: bool = False,
    ):
        self.cost = StepCost()
        self._stay = stay
        self._setting = setting
        self._module = module
        self._say = say
        self._place: Place | None = None
        if setting != "auto":
            self._place = Place.THREADS if setting == "threads" else Place.PROCESSES if setting else Place.LOOP
        self._workers: list[Worker | None] = [None] * (setting if isinstance(setting, int) else cpu_count())
        self._numbers = itertools.count()
        self._lock = threading.Lock()
        self._is_closed = False
        self._unsendable = ""

    def place(self) -> Place | None:
        """Where the next episode's env belongs; None while nobody knows."""
        if self._setting != "auto":
            return self._place
        now, self._place = self._place, self.cost.place(len(self._workers), self._place)
        if self._place is Place.PROCESSES and self._stay:
            self._place = Place.THREADS
        if self._place is Place.PROCESSES and self._unsendable:
            self._place = Place.LOOP
        if self._place is not now and (now is not None or self._place is not Place.LOOP) and self._place is not None:
            self._say(self._described(self._place))
        return self._place

    def make(self, env_id: str, env_kwargs: dict[str, Any], place: Place) -> MessageEnv | WorkerEnv:
        """An env for that place, made in the thread that calls.

        Raises:
            EnvError: It cannot be made.
        """
        if place is not Place.PROCESSES:
            return MessageEnv(env_id, env_kwargs, self.cost)
        with self._lock:
            if self._is_closed:  # an episode that was given up makes its env in a thread that nobody awaits
                raise EnvError("the envs of this program were closed")
            worker = self._least_occupied()
            is_shared, number = bool(worker.envs), next(self._numbers)
            worker.envs.add(number)
        try:
            return WorkerEnv(worker, number, env_id, env_kwargs, self._module, self.cost)
        except EnvError as error:
            if is_shared and not worker.is_alive:  # another env has ended it
                return self.make(env_id, env_kwargs, place)
            if self._setting != "auto":
                raise EnvError(f"{error}; with env_workers 0 it plays in this process") from error
            env = MessageEnv(env_id, env_kwargs, self.cost)
            if not self._unsendable:
                self._unsendable = str(error)
                self._say(f"envs stay in this process, where a slow one holds up the others: {error}")
            return env

    def close(self) -> None:
        """End the worker processes; none is started afterwards."""
        with self._lock:
            self._is_closed = True
        for worker in filter(None, self._workers):
            worker.end()
        self._workers = [None] * len(self._workers)

    def _least_occupied(self) -> Worker:
        slot = min(range(len(self._workers)), key=lambda slot: self._occupied(self._workers[slot]))
        worker = self._workers[slot]
        if worker is None or not worker.is_alive:
            if worker is not None:
                worker.end()
            worker = self._workers[slot] = Worker()
        return worker

    def _occupied(self, worker: Worker | None) -> int:
        return len(worker.envs) if worker is not None and worker.is_alive else 0

    def _described(self, place: Place) -> str:
        where = {
            Place.LOOP: "in the thread that plays",
            Place.THREADS: "in a thread each",
            Place.PROCESSES: f"in {len(self._workers)} worker processes",
        }[place]
        if self.cost.waits:
            return f"envs are called {where}: each waits for what is not here"
        seconds, computing = self.cost.means() or (0.0, 0.0)
        share = computing / seconds if seconds else 0.0
        return f"envs are called {where}: a step takes {1000 * seconds:.3g} ms, {share:.0%} of it computing"

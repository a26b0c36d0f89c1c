"""The engine over all processes of ``torchrun``: the first process drives, the others do what it tells them.

    torchrun --nproc-per-node 4 -m grpo train ...

The first process runs the command: rollouts, judges, files, vLLM. Each call of its engine is a name with data, sent to
all processes; each computes its share (`distributed`), the first with them. The others know no run, env or server.

If a process ends, its connections close: what the others wait for fails, and torchrun ends those that wait for nothing.
"""

import os
import signal
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from datetime import timedelta
from pathlib import Path
from typing import Any, TypeVar

import torch
import torch.distributed as dist

from grpo.config import TrainConfig
from grpo.devices.plan import CARD_ORDER
from grpo.learner.distributed import RankEngine, lost_connections
from grpo.learner.engine import LossSpec, RowStatistics, ignore_progress
from grpo.learner.local_engine import engine_options
from grpo.learner.segments import Segment
from grpo.machine.hardware import cpu_count, visible_gpus
from grpo.machine.models import resolve_model
from grpo.machine.probe import computing_dtype
from grpo.machine.processes import Rank

T = TypeVar("T")
LONGEST_WAIT = timedelta(days=30)
"""Between two calls lie rollouts, judges and evaluations, however long they take."""
STOP, MAKE = "stop", "make"


class Processes:
    """All processes, as one of them sees them."""

    def __init__(self, place: Rank):
        """Meet the others."""
        self.place = place
        os.environ.update(CARD_ORDER)  # before CUDA is asked for anything
        with_gpus = torch.cuda.is_available()
        if with_gpus:
            visible_gpus()  # before a server of ours is on them: a plan counts what others have
        dist.init_process_group("cpu:gloo,cuda:nccl" if with_gpus else "gloo", rank=place.rank, world_size=place.size)
        self.control: Any = dist.new_group(backend="gloo", timeout=LONGEST_WAIT)
        self._calling = False

    def call(self, name: str, arguments: tuple[Any, ...], here: Callable[[], T]) -> T:
        """In the first process: have the others do ``name`` while this one does ``here``.

        Raises:
            TrainingError: Another process has ended.
        """
        self._calling = True  # and for ever, if the others are left in the middle of it
        with lost_connections():
            dist.broadcast_object_list([(name, arguments)], src=0, group=self.control)
        found = here()
        self._calling = False
        return found

    def serve(self) -> None:
        """In another process: do what the first one tells, until it says stop.

        Raises:
            TrainingError: The first process, or another one, has ended.
        """
        engine: Any = None
        while True:
            told: list[Any] = [None]
            with lost_connections():
                dist.broadcast_object_list(told, src=0, group=self.control)
            name, arguments = told[0]
            if name == STOP:
                return
            if name == MAKE:
                config, init_adapter = arguments
                engine = rank_engine(self, config, resolve_model(config.model).path, init_adapter)
            else:
                getattr(engine, name)(*arguments)

    def leave(self) -> None:
        """In the first process: let the others end. Those that were left in the middle of a call end with this one."""
        if not self._calling:
            with suppress(RuntimeError):  # one that has ended needs no stop
                self.call(STOP, (), dist.destroy_process_group)


_met: Processes | None = None


@contextmanager
def met(place: Rank) -> Iterator[bool]:
    """Meet the other processes; says whether this one drives. One that does not has served when this says so."""
    global _met
    if place.rank != 0:
        signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C reaches all; the first process says what it means
        for ended in (signal.SIGTERM, signal.SIGHUP):
            if signal.getsignal(ended) != signal.SIG_IGN:
                signal.signal(ended, signal.SIG_DFL)
    processes = Processes(place)
    if place.rank != 0:
        processes.serve()
        dist.destroy_process_group()
        yield False
        return
    _met = processes
    try:
        yield True
    finally:
        _met = None
        processes.leave()


def rank_engine(processes: Processes, config: TrainConfig, model_path: Path, init_adapter: Path | None) -> RankEngine:
    """The part of this process. The processes of a machine divide its threads."""
    options = engine_options(config, model_path, init_adapter)
    if config.device == "cpu":
        options["threads"] = max(1, (config.threads or cpu_count()) // processes.place.local_size)
    return RankEngine(model_path, control=processes.control, shard=config.learner.shard, **options)


class TorchrunEngine:
    """An ``Engine`` in the first process."""

    def __init__(self, config: TrainConfig, model_path: Path, init_adapter: Path | None = None):
        """Load the model in all processes, under the name that it has in ``config``; see ``rank_engine``."""
        assert _met is not None, "the processes have met"
        self._processes = _met
        dtype = computing_dtype(config.dtype, config.device, model_path).dtype  # measured once, for all
        config = config.model_copy(update={"dtype": dtype})
        self._mine = self._processes.call(
            MAKE, (config, init_adapter), lambda: rank_engine(self._processes, config, model_path, init_adapter)
        )

    def forward_backward(
        self, rows: Sequence[Segment], loss: LossSpec, on_rows: Callable[[int], None] = ignore_progress
    ) -> list[RowStatistics]:
        """See ``Engine``; ``on_rows`` hears of this process's rows as they are done, of the others' at the end."""
        here = lambda: self._mine.forward_backward(rows, loss, on_rows)  # noqa: E731
        return self._processes.call("forward_backward", (rows, loss), here)

    def logprobs(self, rows: Sequence[Segment]) -> list[list[float]]:
        """See ``Engine``."""
        return self._on_all("logprobs", rows)

    def optim_step(self, learning_rate: float, max_grad_norm: float) -> float:
        """See ``Engine``."""
        return self._on_all("optim_step", learning_rate, max_grad_norm)

    def reset_optimizer(self) -> None:
        """See ``Engine``."""
        self._on_all("reset_optimizer")

    def save_adapter(self, folder: Path) -> None:
        """See ``Engine``. The adapter is whole in this process."""
        self._mine.save_adapter(folder)

    def state(self) -> dict[str, bytes]:
        """See ``Engine``. The files are those of one process, which may load them, too."""
        return self._mine.state()

    def load_state(self, folder: Path) -> None:
        """See ``Engine``. This process reads the files."""
        self._on_all("set_state", self._mine.read_state(folder))

    def _on_all(self, name: str, *arguments: Any) -> Any:
        return self._processes.call(name, arguments, lambda: getattr(self._mine, name)(*arguments))

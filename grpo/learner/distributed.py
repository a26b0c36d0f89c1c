"""One of several processes that compute a step together: each takes a share of the rows, gradients are summed.

The loss is a sum over tokens with one divisor for all rows of an update, so sums are all that is exchanged, and several
processes compute what one does. Every process gets the same calls with the same rows. It computes the rows of its share
and as many micro-batches as every other process: where it has fewer, ``NOTHING`` stands for the rest, with weight zero,
so that none waits for another in a collective that the other never enters.

The adapter is whole in every process: with rank 16 it has about a hundredth of the model's weights. So the optimizer,
clipping and checkpoints are those of one process. The frozen base model, which is what may be too large for a device,
is whole too, or ``shard`` spreads its layers over the processes (``torch.distributed.fsdp.fully_shard``; ZeRO stage 3,
arXiv 1910.02054): a layer is put together right before it is computed. Embedding and vocabulary head stay whole.
"""

import math
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeVar

import torch
import torch.distributed as dist

from grpo.errors import TrainingError
from grpo.learner.engine import LossSpec, RowStatistics, ignore_progress
from grpo.learner.local_engine import LocalEngine
from grpo.learner.segments import Segment, even_shares

T = TypeVar("T")

NOTHING = Segment([0, 0], [False, True], [0.0, 0.0], 0.0)
"""A row for a process that has none left."""


@contextmanager
def lost_connections() -> Iterator[None]:
    """Around what the processes send each other, which fails where one of them is gone.

    Raises:
        TrainingError: It failed.
    """
    try:
        yield
    except RuntimeError as error:
        raise TrainingError(
            f"process {dist.get_rank()} of {dist.get_world_size()}: another one has ended; its own output says why. "
            "The last checkpoint is whole"
        ) from error


class RankEngine(LocalEngine):
    """The part of one process; what is said of rows is known to the first process alone."""

    def __init__(self, model_path: Path, *, control: dist.ProcessGroup, shard: bool = False, **options: Any):
        """Load a model; ``torch.distributed`` is initialised.

        Args:
            model_path: Folder of the base model.
            control: All processes, for Python objects.
            shard: Whether the base model's layers are spread over the processes.
            options: Of a ``LocalEngine``.
        """
        self._control = control
        self._shard = shard
        super().__init__(model_path, **options)

    def forward_backward(
        self, rows: Sequence[Segment], loss: LossSpec, on_rows: Callable[[int], None] = ignore_progress
    ) -> list[RowStatistics]:
        """This process's share of the gradient; the first process returns what all found, the others nothing."""
        numbers, missing = self._share_of(rows)
        found = super().forward_backward([rows[number] for number in numbers], loss, on_rows)
        for _ in range(missing):
            self._backward([NOTHING], replace(loss, normalizer=math.inf))
        everything = self._gathered(numbers, found)
        on_rows(len(rows) - len(numbers))
        return everything

    @torch.no_grad()
    def logprobs(self, rows: Sequence[Segment]) -> list[list[float]]:
        """Of each row's action tokens; the first process returns those of all, the others nothing."""
        numbers, missing = self._share_of(rows)
        found = super().logprobs([rows[number] for number in numbers])
        for _ in range(missing):
            self._forward([NOTHING])
        return self._gathered(numbers, found)

    def optim_step(self, learning_rate: float, max_grad_norm: float) -> float:
        """Sum the gradients of all processes, clip, step and clear them; returns their norm before clipping."""
        gradients = [torch.zeros_like(p) if p.grad is None else p.grad for p in self.parameters]
        summed = _joined(gradients, dist.all_reduce)
        for parameter, gradient in zip(self.parameters, summed, strict=True):
            parameter.grad = gradient
        return super().optim_step(learning_rate, max_grad_norm)

    def _share_of(self, rows: Sequence[Segment]) -> tuple[list[int], int]:
        """The numbers of this process's rows, and how many micro-batches it has less than the process with the most."""
        shares = even_shares(rows, dist.get_world_size())
        counts = [len(self._batches([rows[number] for number in share])) for share in shares]
        return shares[dist.get_rank()], max(counts) - counts[dist.get_rank()]

    def _gathered(self, numbers: Sequence[int], found: Sequence[T]) -> list[T]:
        """What all processes found, in the order of the rows, in the first process; nothing in the others."""
        mine = dict(zip(numbers, found, strict=True))
        parts: list[dict[int, T]] | None = [{}] * dist.get_world_size() if dist.get_rank() == 0 else None
        with lost_connections():
            dist.gather_object(mine, parts, group=self._control)
        everything = {number: value for part in parts or () for number, value in part.items()}
        return [everything[number] for number in sorted(everything)]

    def _placed(self, model: Any) -> Any:
        if self.device.type == "cuda":
            torch.cuda.set_device(self.device)  # NCCL and fully_shard take the current one
        if self._shard:
            _shard_layers(model, self.device)
        model = model.to(self.device)
        trained = [parameter for parameter in model.parameters() if parameter.requires_grad]
        first = _joined([parameter.data for parameter in trained], lambda values: dist.broadcast(values, src=0))
        for parameter, value in zip(trained, first, strict=True):
            parameter.data = value
        return model


def _shard_layers(model: Any, device: torch.device) -> None:
    """Spread the frozen weights of the decoder's layers over all processes, on ``device``."""
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.fsdp import fully_shard

    mesh = init_device_mesh(device.type, (dist.get_world_size(),))
    body = model.get_base_model().model
    trained = {parameter for parameter in model.parameters() if parameter.requires_grad}
    for layer in body.layers:
        fully_shard(layer, mesh=mesh, ignored_params=trained)
    spread = {parameter for layer in body.layers for parameter in layer.parameters()}
    fully_shard(body, mesh=mesh, ignored_params=trained | (set(body.parameters()) - spread))


def _joined(tensors: Sequence[torch.Tensor], exchange: Callable[[torch.Tensor], object]) -> list[torch.Tensor]:
    """The tensors after ``exchange`` of all their values in one message."""
    values = torch.cat([tensor.flatten() for tensor in tensors])
    with lost_connections():
        exchange(values)
    parts = values.split([tensor.numel() for tensor in tensors])
    return [part.view_as(tensor).clone() for part, tensor in zip(parts, tensors, strict=True)]

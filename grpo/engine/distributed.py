"""Data parallelism over the processes of ``torch.distributed``: each takes a share of the rows, gradients are summed.

The loss is a sum over tokens with one divisor for all rows of an update, so sums are all that is exchanged, and several
processes compute what one does. Every process makes the same calls with the same rows; only one should write files.
Where ``torch.distributed`` is not initialised there is one process and everything here is the identity.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
import torch.distributed as dist
from torch import Tensor

from grpo.segments import Segment


def share(segments: Sequence[Segment]) -> Sequence[Segment]:
    """This process's rows: neighbours in the order of their ids, so that common beginnings stay together."""
    rank, size = _place()
    if size == 1:
        return segments
    rows = sorted(segments, key=lambda segment: segment.ids)
    total = sum(len(row.ids) for row in rows)
    mine: list[Segment] = []
    before = 0
    for row in rows:
        middle = before + len(row.ids) / 2
        if int(middle * size / total) == rank:
            mine.append(row)
        before += len(row.ids)
    return mine


def sum_gradients(parameters: Sequence[torch.nn.Parameter]) -> None:
    """Replace every gradient by the sum over all processes; one without gradient contributes zeros."""
    if _place()[1] == 1:
        return
    for parameter in parameters:
        if parameter.grad is None:
            parameter.grad = torch.zeros_like(parameter)
        dist.all_reduce(parameter.grad)


def sum_numbers(value: float) -> float:
    """The sum over all processes, the same on each."""
    if _place()[1] == 1:
        return value
    values: list[float] = [0.0] * dist.get_world_size()
    dist.all_gather_object(values, value)
    return sum(values)


def gather(parts_T: Sequence[Tensor]) -> Tensor:
    """The values of all processes, one after another, on the CPU where there are several."""
    size = _place()[1]
    mine_T = torch.cat(list(parts_T)) if parts_T else torch.empty(0)
    if size == 1:
        return mine_T
    gathered: list[Tensor] = [mine_T] * size
    dist.all_gather_object(gathered, mine_T.cpu())
    return torch.cat([part_T for part_T in gathered if len(part_T)])


def _place() -> tuple[int, int]:
    """This process's number and how many there are."""
    if dist.is_available() and dist.is_initialized():
        return dist.get_rank(), dist.get_world_size()
    return 0, 1

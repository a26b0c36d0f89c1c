"""Data parallelism over the processes of ``torch.distributed``: each takes a share of the rows, gradients are summed.

The loss is a sum over tokens with one divisor for all rows of an update, so sums are all that is exchanged, and several
processes compute what one does. Every process makes the same calls with the same rows; only one should write files.
Where ``torch.distributed`` is not initialised there is one process and everything here is the identity.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeVar

import torch
import torch.distributed as dist

from grpo.learner.segments import Segment

T = TypeVar("T")


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


def gather(mine: T) -> list[T]:
    """The values of all processes, in their order, the same list on each."""
    size = _place()[1]
    if size == 1:
        return [mine]
    gathered = [mine] * size
    dist.all_gather_object(gathered, mine)
    return gathered


def _place() -> tuple[int, int]:
    """This process's number and how many there are."""
    if dist.is_available() and dist.is_initialized():
        return dist.get_rank(), dist.get_world_size()
    return 0, 1

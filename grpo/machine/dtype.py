"""Which dtype the model computes in, learner and sampler alike: measured, because processors differ by far both ways.

Matrix units for bfloat16 (AMX) make it about three times as fast as float32. Without them it is slower: on a Xeon with
AVX-512 BF16 82 GFLOP/s of CPU time against 142, limited to AVX2 1.7 against 81 (a product of 2048x576x1536 in torch
2.13). Both are right: float32 rounds less, so sampler and trainer agree better, and needs twice the memory. So ``auto``
asks the processor on a CPU, and is bfloat16 on a GPU.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import cast

from grpo.machine.probe import DTYPES, Dtype, probe


@dataclass(frozen=True, slots=True)
class ComputingDtype:
    """A dtype and why it is taken, as a log line says it."""

    dtype: Dtype
    reason: str

    def __str__(self) -> str:
        """For example ``float32: 2.9 times faster here than bfloat16 (measured)``."""
        return f"{self.dtype}: {self.reason}"


def computing_dtype(setting: str, device: str, model_path: Path, threads: int | None = None) -> ComputingDtype:
    """What a setting (``auto``, ``float32`` or ``bfloat16``) means for a model on this machine.

    Raises:
        ModelError: The probe failed.
    """
    if setting != "auto":
        return ComputingDtype(cast("Dtype", setting), "as set")
    if device != "cpu":
        return ComputingDtype("bfloat16", "the default on a GPU")
    return faster(probe(model_path, threads).seconds)


def faster(seconds: Mapping[Dtype, float]) -> ComputingDtype:
    """The dtype that took less time for the same products."""
    chosen = min(DTYPES, key=lambda dtype: seconds[dtype])
    (other,) = set(DTYPES) - {chosen}
    return ComputingDtype(chosen, f"{seconds[other] / seconds[chosen]:.1f} times faster here than {other} (measured)")

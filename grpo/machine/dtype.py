"""Which dtype the model computes in, learner and sampler alike: measured, because processors differ by far both ways.

Matrix units for bfloat16 (AMX) make it about three times as fast as float32. Without them it is slower: on a Xeon with
AVX-512 BF16 82 GFLOP/s of CPU time against 142, limited to AVX2 1.7 against 81 (a product of 2048x576x1536 in torch
2.13). Both are right: float32 rounds less, so sampler and trainer agree better, and needs twice the memory. So ``auto``
asks the processor on a CPU, and is bfloat16 on a GPU.

The probe runs in a process of its own, ``python -m grpo.machine.dtype HIDDEN INTERMEDIATE``: who asks need not load
torch. It times one thread in that thread's CPU time, because a busy neighbour then changes nothing, and more threads
change both dtypes alike.
"""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Literal, cast

from grpo.errors import ModelError
from grpo.machine.packages import require
from grpo.machine.processes import child_environment, module_command

Dtype = Literal["float32", "bfloat16"]

DTYPES: tuple[Dtype, ...] = ("float32", "bfloat16")
"""In the order in which ties are decided: float32 rounds less."""

ROWS = 256
"""Tokens of the probe: once together, as in a prompt and in the learner, and once ``DECODED_ROWS`` at a time."""

DECODED_ROWS = 32
ROUNDS = 3
MAX_HIDDEN, MAX_INTERMEDIATE = 1024, 4096
"""Larger models are probed with products of this size: they tell the same and take a second at most."""

_TIMEOUT_SECONDS = 300.0


@dataclass(frozen=True, slots=True)
class ComputingDtype:
    """A dtype and why it is taken, as a log line says it."""

    dtype: Dtype
    reason: str

    def __str__(self) -> str:
        """For example ``float32: 2.9 times faster here than bfloat16 (measured)``."""
        return f"{self.dtype}: {self.reason}"


def computing_dtype(setting: str, device: str, model_path: Path) -> ComputingDtype:
    """What a setting (``auto``, ``float32`` or ``bfloat16``) means for a model on this machine.

    The first ``auto`` on a CPU takes a few seconds, nearly all of them to load torch.

    Raises:
        ModelError: The probe failed.
    """
    if setting != "auto":
        return ComputingDtype(cast("Dtype", setting), "as set")
    if device != "cpu":
        return ComputingDtype("bfloat16", "the default on a GPU")
    require("torch")
    config = json.loads((model_path / "config.json").read_text(encoding="utf-8"))
    sizes = (config.get("hidden_size"), config.get("intermediate_size"))
    hidden, intermediate = (size if isinstance(size, int) else 1024 for size in sizes)
    return faster(_measured(min(hidden, MAX_HIDDEN), min(intermediate, MAX_INTERMEDIATE)))


def faster(seconds: Mapping[Dtype, float]) -> ComputingDtype:
    """The dtype that took less time for the same products."""
    chosen = min(DTYPES, key=lambda dtype: seconds[dtype])
    (other,) = set(DTYPES) - {chosen}
    return ComputingDtype(chosen, f"{seconds[other] / seconds[chosen]:.1f} times faster here than {other} (measured)")


@lru_cache
def _measured(hidden: int, intermediate: int) -> Mapping[Dtype, float]:
    """Seconds of the products in each dtype, measured in a process of its own, once for each shape."""
    command = module_command("grpo.machine.dtype", str(hidden), str(intermediate))
    try:
        done = subprocess.run(
            command, env=child_environment(), capture_output=True, text=True, timeout=_TIMEOUT_SECONDS, check=True
        )
        return json.loads(done.stdout)
    except (subprocess.SubprocessError, ValueError) as error:
        shown = (getattr(error, "stderr", None) or "").strip()
        raise ModelError(
            f"which dtype is faster here could not be measured ({error}); choose one: dtype = float32 or bfloat16\n"
            + "\n".join(shown.splitlines()[-12:])
        ) from error


def measure(hidden: int, intermediate: int) -> dict[Dtype, float]:
    """CPU seconds of ``(rows, hidden) x (hidden, intermediate)`` on one thread, the best of ``ROUNDS`` in turns."""
    import torch

    torch.set_num_threads(1)
    best = dict.fromkeys(DTYPES, float("inf"))
    for number in range(1 + ROUNDS):  # the first round warms up
        for dtype in DTYPES:
            x_TH, weight_IH = (torch.ones(size, hidden, dtype=getattr(torch, dtype)) for size in (ROWS, intermediate))
            began = time.thread_time()
            for x_RH in (x_TH, *x_TH.split(DECODED_ROWS)):
                torch.nn.functional.linear(x_RH, weight_IH)
            if number:
                best[dtype] = min(best[dtype], time.thread_time() - began)
    return best


if __name__ == "__main__":
    print(json.dumps(measure(int(sys.argv[1]), int(sys.argv[2]))))

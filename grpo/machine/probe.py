"""A measured second of this processor: which dtype is faster, how fast its threads are, whether others use its cores.

    python -m grpo.machine.probe HIDDEN INTERMEDIATE CORES THREADS

The probe runs in a process of its own: who asks need not load torch. The dtypes are compared on one thread in that
thread's CPU time, because a busy neighbour then changes nothing. The speed is of wall-clock time, because a run takes
that, with one thread, with one for each core, and with all: beside a busy neighbour two threads can be slower than one,
and threads that share a core slower than one of them.

Matrix units for bfloat16 (AMX) make it about three times as fast as float32. Without them it is slower: on a Xeon with
AVX-512 BF16 82 GFLOP/s of CPU time against 142, limited to AVX2 1.7 against 81 (a product of 2048x576x1536 in torch
2.13). Both are right: float32 rounds less, so sampler and trainer agree better, and needs twice the memory. So learner
and sampler compute in what is faster here, and in bfloat16 on a GPU.
"""

import json
import os
import subprocess
import sys
import time
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any, Literal, cast

from grpo.errors import ModelError
from grpo.machine.hardware import cpu_count, physical_cores
from grpo.machine.installed import require
from grpo.machine.processes import child_environment, module_command

Dtype = Literal["float32", "bfloat16"]

DTYPES: tuple[Dtype, ...] = ("float32", "bfloat16")
"""In the order in which ties are decided: float32 rounds less."""

ROWS = 256
"""Tokens of the probe: once together, as in a prompt and in the learner, and once ``DECODED_ROWS`` at a time."""

DECODED_ROWS = 32
ROUNDS = 3
WALL_SECONDS = 0.3
MAX_HIDDEN, MAX_INTERMEDIATE = 1024, 4096
"""Larger models are probed with products of this size: they tell the same and take a second at most."""

SHARED = 0.75
"""Cores that give less than this share of what they could are said to be shared. Idle ones give 0.9 to 1."""

_TIMEOUT_SECONDS = 300.0


@dataclass(frozen=True, slots=True)
class ComputingDtype:
    """A dtype and why it is taken, as a log line says it."""

    dtype: Dtype
    reason: str

    def __str__(self) -> str:
        """For example ``float32: 2.9 times faster here than bfloat16 (measured)``."""
        return f"{self.dtype}: {self.reason}"


@dataclass(frozen=True, slots=True)
class Probe:
    """What was measured.

    Attributes:
        seconds: CPU seconds of the same products on one thread, by dtype.
        core_gflops: GFLOP/s of CPU time of one thread, in the faster dtype.
        gflops: GFLOP/s of wall-clock time by number of threads, in the faster dtype: one, one for each core, and all.
        cores: How many cores those are; the others of all threads share a core with one of them.
    """

    seconds: Mapping[Dtype, float]
    core_gflops: float
    gflops: Mapping[int, float]
    cores: int

    @property
    def computing(self) -> ComputingDtype:
        """The dtype that took less time for the same products."""
        chosen = min(DTYPES, key=lambda dtype: self.seconds[dtype])
        (other,) = set(DTYPES) - {chosen}
        times = self.seconds[other] / self.seconds[chosen]
        return ComputingDtype(chosen, f"{times:.1f} times faster here than {other} (measured)")

    @property
    def threads(self) -> int:
        """The number of threads that was fastest; of equals all."""
        return max(sorted(self.gflops, reverse=True), key=lambda threads: self.gflops[threads])

    def speed(self, dtype: str, threads: int | None = None) -> float:
        """GFLOP/s of wall-clock time in ``dtype`` with the number of measured threads nearest to ``threads``."""
        nearest = min(self.gflops, key=lambda measured: abs(measured - (threads or self.threads)))
        slower = min(self.seconds.values()) / self.seconds[dtype] if dtype in DTYPES else 1.0
        return self.gflops[nearest] * slower

    def note(self, threads: int | None = None) -> str:
        """A line for the log where the cores are shared, "" where they are not; ``threads`` is the user's setting."""
        share = self.gflops[self.cores] / (self.cores * self.core_gflops)
        if share >= SHARED:
            return ""
        most = max(self.gflops)
        noun = "the core gives" if self.cores == 1 else f"{self.cores} cores give"
        fewer = f"; one thread is faster than {most} now, so it uses one to its end (--set threads={most} uses all)"
        fewer = fewer if not threads and self.threads < most else ""
        return (
            f"{noun} {share:.0%} of what they could (load average {os.getloadavg()[0]:.1f}): other programs or "
            f"machines use them, or they share a core or are of two kinds, and the run takes that much longer{fewer}"
        )


def probe(model_path: Path, threads: int | None = None) -> Probe:
    """Measure this machine with products of a model's size; a process measures it once for each size.

    Takes a few seconds, nearly all of them to load torch.

    Args:
        model_path: Folder of the model.
        threads: The user's setting; by default it is measured how many are fastest.

    Raises:
        ModelError: The probe failed.
    """
    require("torch")
    config = json.loads((model_path / "config.json").read_text(encoding="utf-8"))
    sizes = (config.get("hidden_size"), config.get("intermediate_size"))
    hidden, intermediate = (size if isinstance(size, int) else 1024 for size in sizes)
    most = threads or cpu_count()
    return _probed(min(hidden, MAX_HIDDEN), min(intermediate, MAX_INTERMEDIATE), min(physical_cores(), most), most)


@lru_cache
def _probed(hidden: int, intermediate: int, cores: int, threads: int) -> Probe:
    command = module_command("grpo.machine.probe", *map(str, (hidden, intermediate, cores, threads)))
    try:
        done = subprocess.run(
            command, env=child_environment(), capture_output=True, text=True, timeout=_TIMEOUT_SECONDS, check=True
        )
        return read(json.loads(done.stdout))
    except (subprocess.SubprocessError, ValueError) as error:
        shown = (getattr(error, "stderr", None) or "").strip()
        raise ModelError(
            f"how fast this machine is could not be measured ({error}); choose what it computes in: dtype = float32 or "
            "bfloat16\n" + "\n".join(shown.splitlines()[-12:])
        ) from error


def computing_dtype(setting: str, device: str, model_path: Path, threads: int | None = None) -> ComputingDtype:
    """What a setting (``auto``, ``float32`` or ``bfloat16``) means for a model on this machine.

    Raises:
        ModelError: The probe failed.
    """
    if setting != "auto":
        return ComputingDtype(cast("Dtype", setting), "as set")
    if device != "cpu":
        return ComputingDtype("bfloat16", "the default on a GPU")
    return probe(model_path, threads).computing


def read(measured: Mapping[str, Any]) -> Probe:
    """A probe from what ``measure`` printed."""
    gflops = {int(threads): float(value) for threads, value in measured["gflops"].items()}
    return Probe(measured["seconds"], float(measured["core_gflops"]), gflops, int(measured["cores"]))


def measure(hidden: int, intermediate: int, cores: int, threads: int) -> dict[str, Any]:
    """Time products ``(rows, hidden) x (hidden, intermediate)``; see `Probe`."""
    import torch

    torch.set_num_threads(1)
    seconds = dict.fromkeys(DTYPES, float("inf"))
    for number in range(1 + ROUNDS):  # the first round warms up
        for dtype in DTYPES:
            x_TH, weight_IH = (torch.ones(size, hidden, dtype=getattr(torch, dtype)) for size in (ROWS, intermediate))
            began = time.thread_time()
            for x_RH in (x_TH, *x_TH.split(DECODED_ROWS)):
                torch.nn.functional.linear(x_RH, weight_IH)
            if number:
                seconds[dtype] = min(seconds[dtype], time.thread_time() - began)
    faster = getattr(torch, min(DTYPES, key=lambda dtype: seconds[dtype]))
    weight_IH = torch.ones(intermediate, hidden, dtype=faster)
    gflops: dict[int, float] = {}
    core_gflops = 0.0
    for count in sorted(
        {1, cores, threads}
    ):  # each thread gets as many rows, so that the work for a thread is the same
        torch.set_num_threads(count)
        x_TH = torch.ones(ROWS * count, hidden, dtype=faster)
        torch.nn.functional.linear(x_TH, weight_IH)
        rounds, began, worked = 0, time.perf_counter(), time.thread_time()
        while time.perf_counter() - began < WALL_SECONDS:
            torch.nn.functional.linear(x_TH, weight_IH)
            rounds += 1
        work = rounds * 2 * ROWS * count * hidden * intermediate / 1e9
        gflops[count] = work / (time.perf_counter() - began)
        if count == 1:
            core_gflops = work / (time.thread_time() - worked)
    return {"seconds": seconds, "core_gflops": core_gflops, "gflops": gflops, "cores": cores}


if __name__ == "__main__":
    print(json.dumps(measure(*map(int, sys.argv[1:]))))

"""What overlap gains, on a simulated clock: share of the time in which sampler and learner wait for each other.

The scheduling is the trainer's own (`GroupStream`). An episode holds one of the servers' places for its latency, a step
holds the learner for a fixed time. Latencies do not depend on how many places are taken.
"""

from __future__ import annotations

import asyncio
import math
import random
from collections.abc import Callable
from dataclasses import dataclass

from grpo.training.group_stream import GroupStream
from grpo.types import Task
from scaling.clock import simulate


@dataclass(frozen=True, slots=True)
class Setting:
    """A run: ``servers`` with ``places`` episodes each, and how its steps overlap."""

    servers: int
    staleness: int
    oversample: int = 0
    places: int = 64
    groups: int = 16
    group_size: int = 8
    steps: int = 50
    learn_seconds: float = 20.0


@dataclass(frozen=True, slots=True)
class Gain:
    """Of one run: seconds a step, shares of the time, and groups that were dropped, a step."""

    step_seconds: float
    sampler_idle: float
    learner_idle: float
    stale: float


def long_tailed(seed: int, median: float = 8.0, sigma: float = 0.8) -> Callable[[], float]:
    """Latencies of a log-normal distribution: with this sigma one in a hundred takes 6.4 times the median."""
    generator = random.Random(seed)
    return lambda: generator.lognormvariate(math.log(median), sigma)


def recorded(seconds: list[float], seed: int) -> Callable[[], float]:
    """Latencies of a run's episodes, drawn again and again."""
    generator = random.Random(seed)
    return lambda: generator.choice(seconds)


def gain(setting: Setting, latency: Callable[[], float]) -> Gain:
    """Play a run on the simulated clock."""
    (busy, stale), seconds = simulate(_run(setting, latency))
    slots = setting.servers * setting.places
    learned = setting.steps * setting.learn_seconds
    return Gain(
        seconds / setting.steps,
        1.0 - busy / (slots * seconds),
        1.0 - learned / seconds,
        stale / setting.steps,
    )


async def _run(setting: Setting, latency: Callable[[], float]) -> tuple[float, int]:
    gate = asyncio.Semaphore(setting.servers * setting.places)
    stream: GroupStream[None] = GroupStream()
    busy, stale, begun = 0.0, 0, 0

    async def episode() -> None:
        nonlocal busy
        async with gate:
            began = asyncio.get_running_loop().time()
            try:
                await asyncio.sleep(latency())
            finally:
                busy += asyncio.get_running_loop().time() - began

    async def group() -> None:
        async with asyncio.TaskGroup() as members:
            for _ in range(setting.group_size):
                members.create_task(episode())

    def fill(count: int, version: int) -> None:
        nonlocal begun
        for _ in range(count - len(stream)):
            stream.begin(Task(begun), version, group())
            begun += 1

    for step in range(setting.steps):
        fill(setting.groups + setting.oversample, step)
        await stream.take(setting.groups)
        ahead = min(setting.staleness, setting.steps - step - 1)
        stale += len(stream.drop_before(step + 1 - setting.staleness if ahead else step + 1))
        if ahead:
            fill(ahead * setting.groups + setting.oversample, step)
        await asyncio.sleep(setting.learn_seconds)
    return busy, stale

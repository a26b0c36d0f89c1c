"""What the benchmarks share: what some work took, forms that take turns, the ratios of one to another, and episodes."""

import random
import re
import statistics
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self, TypeVar

T = TypeVar("T")

Turn = tuple[list[dict[str, Any]], float, Any]
"""What the beginning of an episode, or a turn of it, brought: messages, reward and metrics."""


@dataclass(frozen=True, slots=True)
class Cost:
    """What some work took: seconds by the clock, and of CPU."""

    seconds: float
    cpu_seconds: float

    @classmethod
    def until_now(cls, cpu: Callable[[], float] = time.process_time) -> Self:
        """To be subtracted from a later one; ``cpu`` says whose CPU counts (default: this process's)."""
        return cls(time.perf_counter(), cpu())

    def __sub__(self, began: Self) -> Self:
        return type(self)(self.seconds - began.seconds, self.cpu_seconds - began.cpu_seconds)


def timed(work: Callable[[], T], cpu: Callable[[], float] = time.process_time) -> tuple[T, Cost]:
    """What ``work`` returned, and what it took."""
    began = Cost.until_now(cpu)
    found = work()
    return found, Cost.until_now(cpu) - began


def peak_memory() -> int:
    """The most resident memory that this process ever had, in bytes."""
    found = re.search(r"^VmHWM:\s+(\d+) kB", Path("/proc/self/status").read_text(), re.M)
    assert found, "Linux says so"
    return 1024 * int(found[1])


def in_turn(forms: Mapping[str, Callable[[], T]], rounds: int = 1) -> Iterator[tuple[str, T]]:
    """Play each form once a round, in a new order every time: what else the machine does falls on all alike."""
    for _ in range(rounds):
        for name in random.sample(list(forms), len(forms)):
            yield name, forms[name]()


def ratio(mine: Sequence[float], others: Sequence[float]) -> str:
    """The median over the rounds, with the lowest and the highest."""
    found = [a / b for a, b in zip(mine, others, strict=True)]
    return f"{statistics.median(found):.2f} ({min(found):.2f} to {max(found):.2f})"


def episode(env: Any, scenario_id: str, policy: str, seed: int = 0) -> Iterator[Turn]:
    """Play an episode by a policy that the env brings along."""
    observation, info = env.reset(seed=seed, options={"scenario_id": scenario_id})
    player = env.unwrapped.scripted_policies[policy](env.unwrapped, seed=seed)
    yield info["messages"], 0.0, info["metrics"]
    over = False
    while not over:
        action = player.act(observation, info)
        observation, reward, terminated, truncated, info = env.step(action)
        yield [{"role": "assistant", "content": action}, *info["messages"]], reward, info["metrics"]
        over = terminated or truncated

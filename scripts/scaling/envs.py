"""Episodes over an env whose step waits or computes, with envs called in the loop, in threads or in worker processes.

The policy takes its time and no processor (a sleep), so what is measured is the env side: how many steps a second
there are, against what there would be if no episode waited for another and the cores were the only limit.
"""

from __future__ import annotations

import asyncio
import os
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import gymnasium
from gymnasium import spaces

from grpo.envs.pool import EnvPool
from grpo.envs.workers import EnvWorkers
from grpo.machine.hardware import cpu_count
from grpo.settings import EnvWorkersSetting
from grpo.types import Task

ENV = "scaling.envs:Busy-v0"
SEARCH = "email_env:EmailSearch-v0"
ACTIONS = {ENV: "go", SEARCH: '{"name": "search_inbox", "arguments": {"keywords": ["order", "invoice"]}}'}
TURNS = 3


class Busy(gymnasium.Env[str, str]):
    """Every step takes ``ms`` milliseconds: it waits for them, or computes for them."""

    observation_space = spaces.Text(200)
    action_space = spaces.Text(200)

    def __init__(self, ms: float = 0.0, computes: bool = False):
        self.seconds, self.computes = ms / 1000, computes

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[str, dict[str, Any]]:
        """One message."""
        return "", {"messages": [{"role": "user", "content": "Go."}], "tools": [], "metrics": {}}

    def step(self, action: str) -> tuple[str, float, bool, bool, dict[str, Any]]:
        """Take the time."""
        if self.computes:
            began = time.thread_time()
            while time.thread_time() - began < self.seconds:
                pass
        elif self.seconds:
            time.sleep(self.seconds)
        return "", 0.0, False, False, {"messages": [], "metrics": {}}


@dataclass(frozen=True, slots=True)
class EnvLoad:
    """What was found.

    Attributes:
        steps_per_second: Of all episodes.
        share_of_ideal: Of the time that would do, over the time that it took.
        cpu_ms: CPU time of this process a step.
        mib: Memory of this process and its workers, shared pages divided among those that share them.
        threads: Of this process, at most.
    """

    steps_per_second: float
    share_of_ideal: float
    cpu_ms: float
    mib: float
    threads: int


def measure_envs(
    setting: EnvWorkersSetting, episodes: int, ms: float, *, computes: bool = False, policy_seconds: float = 0.5
) -> EnvLoad:
    """Play ``episodes`` of an env whose step takes ``ms`` milliseconds."""
    return _measured(setting, episodes, ENV, {"ms": ms, "computes": computes}, policy_seconds)


def measure_searches(setting: EnvWorkersSetting, episodes: int, policy_seconds: float = 0.5) -> EnvLoad:
    """Play ``episodes`` of EmailSearch-v0, whose every step is a search; the ideal is a search that takes no time."""
    return _measured(setting, episodes, SEARCH, {}, policy_seconds)


def _measured(
    setting: EnvWorkersSetting, episodes: int, env: str, kwargs: dict[str, Any], policy_seconds: float
) -> EnvLoad:
    """All episodes at once, three turns each, after one episode that starts what there is to start."""
    ms, computes = kwargs.get("ms", 0.0), kwargs.get("computes", False)
    with EnvWorkers(setting) as workers, EnvPool(env, kwargs, workers) as pool:
        asyncio.run(_play(pool, min(episodes, cpu_count()), 0.0))
        cpu, began = time.process_time(), time.perf_counter()
        asyncio.run(_play(pool, episodes, policy_seconds))
        seconds, cpu = time.perf_counter() - began, time.process_time() - cpu
        processes = [os.getpid(), *_children()]
        mib, threads = sum(map(_mib, processes)), len(os.listdir("/proc/self/task"))
    steps = episodes * TURNS
    ideal = TURNS * (policy_seconds + ms / 1000)
    if computes:
        ideal = max(ideal, steps * ms / 1000 / cpu_count())
    return EnvLoad(steps / seconds, ideal / seconds, 1000 * cpu / steps, mib, threads)


async def _play(pool: EnvPool, episodes: int, policy_seconds: float) -> None:
    async def episode(number: int) -> None:
        seat = await pool.seat()
        try:
            await seat.reset(Task(number))
            for _ in range(TURNS):
                await asyncio.sleep(policy_seconds)
                await seat.step(ACTIONS[pool.env_id])
        finally:
            pool.leave(seat)

    await asyncio.gather(*(episode(number) for number in range(episodes)))


def _children() -> list[int]:
    path = Path(f"/proc/{os.getpid()}/task")
    return [int(pid) for task in path.iterdir() for pid in (task / "children").read_text().split()]


def _mib(pid: int) -> float:
    for line in Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines():
        if line.startswith("Pss:"):
            return int(line.split()[1]) / 1024
    return 0.0


if "Busy-v0" not in gymnasium.registry:
    gymnasium.register("Busy-v0", entry_point="scaling.envs:Busy")

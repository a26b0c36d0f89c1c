"""Evaluation: the same held-out tasks and sampling seeds for every policy, with 95 % intervals.

Failed episodes (harness faults) are counted apart and never become zeros. Intervals are clustered by scenario.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from grpo.chat import Chat
from grpo.envs import Episode
from grpo.errors import EnvError
from grpo.policy import Policy, SamplingParams
from grpo.rollout import EnvPool, OnTrajectory, Rollout, group_specs
from grpo.rundir import write_json, write_jsonl
from grpo.seeds import derive_seed
from grpo.statistics import mean_interval
from grpo.types import StopReason, Task, Trajectory

SLICE_PREFIX = "difficulty_"
"""Env metrics of this prefix are 0/1 flags that cut an evaluation into slices."""


@dataclass(frozen=True, slots=True)
class EvalSpec:
    """What to evaluate on. ``samples`` episodes of each task; greedy needs only one."""

    label: str
    split: str
    temperature: float
    samples: int
    seed: int


async def evaluate_policy(
    spec: EvalSpec,
    tasks: Sequence[Task],
    *,
    pool: EnvPool,
    chat: Chat,
    policy: Policy,
    max_turn_tokens: int,
    max_tokens: int,
    concurrency: int,
    on_done: OnTrajectory | None = None,
) -> tuple[list[Trajectory], dict[str, Any]]:
    """Run ``tasks`` x ``spec.samples`` episodes and summarise them."""
    sampling = SamplingParams(spec.temperature, max_turn_tokens)
    rollout = Rollout(pool, chat, policy, sampling, max_tokens, concurrency)
    began = time.monotonic()
    trajectories = await rollout.run(group_specs(tasks, spec.samples, "evaluation", spec.seed), on_done)
    return trajectories, summarise(spec, trajectories, policy.version, time.monotonic() - began)


def evaluate_scripted(
    spec: EvalSpec, tasks: Sequence[Task], *, episode: Episode, name: str, on_done: Callable[[Trajectory], None]
) -> tuple[list[Trajectory], dict[str, Any]]:
    """Run one of the env's own policies (for example ``oracle``) on the tasks."""
    began = time.monotonic()
    trajectories: list[Trajectory] = []
    for task in tasks:
        for sample in range(spec.samples):
            trajectories.append(_play_scripted(episode, task, sample, name, derive_seed(spec.seed, task.key, sample)))
            on_done(trajectories[-1])
    return trajectories, summarise(spec, trajectories, name, time.monotonic() - began)


def summarise(spec: EvalSpec, trajectories: Sequence[Trajectory], policy: Any, seconds: float) -> dict[str, Any]:
    """Means with 95 % intervals of the reward and every env metric, and the same by slice.

    Raises:
        EnvError: Every episode failed; the first failure is named.
    """
    whole = [t for t in trajectories if t.stop_reason is not StopReason.FAILED]
    if not whole:
        first = trajectories[0].error if trajectories else "no episode was asked for"
        raise EnvError(f"evaluation {spec.label!r}: all {len(trajectories)} episodes failed; the first: {first}")
    tokens = sum(t.num_sampled_tokens for t in whole)
    slices = sorted({name for t in whole for name in t.metrics if name.startswith(SLICE_PREFIX)})
    return {
        "label": spec.label,
        "split": spec.split,
        "temperature": spec.temperature,
        "seed": spec.seed,
        "policy": policy,
        "episodes": len(whole),
        "failed": len(trajectories) - len(whole),
        "scenarios": len({t.task.key for t in whole}),
        "seconds": round(seconds, 2),
        "sampled_tokens_per_second": round(tokens / seconds, 1) if seconds > 0 else 0.0,
        "metrics": _means(whole),
        "slices": {
            name.removeprefix(SLICE_PREFIX): _means([t for t in whole if t.metrics.get(name)])
            for name in slices
            if any(t.metrics.get(name) for t in whole)
        },
    }


def save_evaluation(path: Path, summary: dict[str, Any], trajectories: Sequence[Trajectory]) -> None:
    """Write ``<label>.jsonl`` and then ``<label>.json``: where the summary exists, all of it does."""
    write_jsonl(path.with_suffix(".jsonl"), [t.to_dict() for t in trajectories])
    write_json(path, summary)


def _means(trajectories: Sequence[Trajectory]) -> dict[str, dict[str, float | None]]:
    clusters = [t.task.key for t in trajectories]
    values: dict[str, list[float]] = {"reward": [t.reward for t in trajectories]}
    for name in trajectories[0].metrics:
        if name != "reward" and not name.startswith(SLICE_PREFIX):
            values[name] = [t.metrics[name] for t in trajectories]
    values["completion_tokens"] = [float(t.num_sampled_tokens) for t in trajectories]
    return {name: mean_interval(column, clusters).to_dict() for name, column in values.items()}


def _play_scripted(episode: Episode, task: Task, sample: int, name: str, seed: int) -> Trajectory:
    trajectory = Trajectory(episode.env_id, task, sample, 0)
    observation = episode.start(task)
    trajectory.messages, trajectory.tools = list(observation.messages), observation.tools
    policy = episode.scripted_policy(name, seed)
    while not (observation.terminated or observation.truncated):
        action = policy.act(observation.text, observation.info)
        observation = episode.step(action)
        trajectory.messages += [{"role": "assistant", "content": action}, *observation.messages]
        trajectory.reward += observation.reward
    trajectory.metrics = observation.metrics
    trajectory.stop_reason = StopReason.TERMINATED if observation.terminated else StopReason.TRUNCATED
    return trajectory

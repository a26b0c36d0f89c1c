"""Evaluation: the same held-out tasks and sampling seeds for every policy, with 95 % intervals.

Failed episodes (harness faults) are counted apart and never become zeros. Intervals are clustered by scenario.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from grpo.chat import Chat
from grpo.errors import EnvError
from grpo.policy import Policy, SamplingParams
from grpo.rollout import EnvPool, OnTrajectory, Rollout, group_specs
from grpo.rundir import write_json, write_jsonl
from grpo.statistics import mean_interval
from grpo.types import StopReason, Task, Trajectory

CONTEXT_FULL = StopReason.CONTEXT_FULL
SLICE_PREFIX = "difficulty_"
"""Env metrics of this prefix are 0/1 flags that cut an evaluation into slices."""
_SLICE_ORDER = {"easy": 0, "medium": 1, "hard": 2}


@dataclass(frozen=True, slots=True)
class EvalSpec:
    """What to evaluate on: ``samples`` episodes of each task; greedy needs only one. ``split`` may be "": none."""

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
    columns = _columns(whole)
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
        "metrics": column_means(*columns),
        "slices": slice_means(*columns),
    }


def save_evaluation(path: Path, summary: dict[str, Any], records: list[dict[str, Any]]) -> None:
    """Write ``<label>.jsonl`` and then ``<label>.json``: where the summary exists, all of it does."""
    write_jsonl(path.with_suffix(".jsonl"), records)
    write_json(path, summary)


def column_means(
    metrics: Sequence[Mapping[str, float]], clusters: Sequence[str], rewards: Sequence[float]
) -> dict[str, dict[str, float | None]]:
    """Mean and interval of the reward and of every env metric, over episodes.

    Args:
        metrics: The env's metrics of each episode. One that some lack is averaged over the others.
        clusters: Scenario of each episode.
        rewards: Reward of each episode.
    """
    means = {"reward": mean_interval(rewards, clusters).to_dict()}
    for name in dict.fromkeys(name for row in metrics for name in row):
        if name == "reward" or name.startswith(SLICE_PREFIX):
            continue
        having = [(row[name], cluster) for row, cluster in zip(metrics, clusters, strict=True) if name in row]
        means[name] = mean_interval([value for value, _ in having], [cluster for _, cluster in having]).to_dict()
    return means


def slice_order(name: str) -> tuple[int, str]:
    """A sort key: easy ones first; slices of other names follow by name."""
    return _SLICE_ORDER.get(name, len(_SLICE_ORDER)), name


def slice_means(
    metrics: Sequence[Mapping[str, float]], clusters: Sequence[str], rewards: Sequence[float]
) -> dict[str, dict[str, dict[str, float | None]]]:
    """``column_means`` of the episodes in each slice: those where a metric ``difficulty_*`` is set."""
    slices: dict[str, dict[str, dict[str, float | None]]] = {}
    for name in sorted({name for row in metrics for name in row if name.startswith(SLICE_PREFIX)}):
        inside = [place for place, row in enumerate(metrics) if row.get(name)]
        if inside:
            slices[name.removeprefix(SLICE_PREFIX)] = column_means(
                [metrics[place] for place in inside],
                [clusters[place] for place in inside],
                [rewards[place] for place in inside],
            )
    return slices


def _columns(trajectories: Sequence[Trajectory]) -> tuple[list[dict[str, float]], list[str], list[float]]:
    metrics = [
        t.metrics
        | {"completion_tokens": float(t.num_sampled_tokens), "context_full": float(t.stop_reason is CONTEXT_FULL)}
        for t in trajectories
    ]
    return metrics, [t.task.key for t in trajectories], [t.reward for t in trajectories]

"""Evaluation of the policy in training on held-out tasks: at temperature 1 and greedy, before and after.

The tasks and the sampling seeds depend on ``eval.seed`` alone, so that before and after pair question by question.
During the training other tasks are played (``eval.selection_split``, or other seeds where the env has no splits): by
them the best checkpoint is chosen, and a score on the tasks that chose it would be too good. A finished evaluation of
the same weights is read back instead of repeated.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Coroutine, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from itertools import zip_longest
from typing import Any

from grpo.chat import Chat
from grpo.chat.sampled_tokens import SampledTokens
from grpo.config import TrainConfig
from grpo.display.metrics import counted
from grpo.display.terminal import Display
from grpo.envs.pool import EnvPool
from grpo.envs.registry import takes_split
from grpo.envs.workers import EnvWorkers
from grpo.episodes.marking import Marker
from grpo.episodes.rollout import Rollout, group_specs
from grpo.episodes.tasks import evaluation_tasks
from grpo.errors import EnvError, JudgeFailure, ServerDiedError
from grpo.files import write_json, write_jsonl
from grpo.runs.directory import RunDirectory
from grpo.runs.evaluations import GREEDY, SAMPLED, is_done, is_final, label_of, planned, summaries, tasks_of
from grpo.seeds import derive_seed
from grpo.serving.policy import Policy, SamplingParams
from grpo.statistics import column_means, slice_means
from grpo.types import StopReason, Task, Trajectory


@dataclass(frozen=True, slots=True)
class EvalSpec:
    """What to evaluate: ``samples`` episodes of each of so many ``tasks``. ``split`` may be "": none."""

    label: str
    split: str
    temperature: float
    tasks: int
    samples: int
    seed: int


class HeldOut:
    """The held-out side of a run."""

    def __init__(
        self,
        config: TrainConfig,
        run: RunDirectory,
        chat: Chat,
        display: Display,
        marker: Marker | None = None,
        workers: EnvWorkers | None = None,
    ):
        self.config = config
        self.run = run
        self.chat = chat
        self.display = display
        self.marker = marker or Marker()
        self.workers = workers
        self.sampled_tokens = SampledTokens(chat)
        self._has_splits = takes_split(config.env)

    async def evaluate(self, when: str, step: int, policy: Policy) -> list[dict[str, Any]]:
        """Summaries of the ``policy`` of ``step``: sampled and, before and after GRPO, greedy."""
        config = self.config
        todo = [spec for spec in self._specs(when) if not is_done(self.run, spec.label, step)]
        if todo:
            split = todo[0].split
            kwargs = {**config.env_kwargs, **({"split": split} if split else {})}
            with EnvPool(config.env, kwargs, self.workers) as pool:
                tasks = {spec: self._tasks(pool, when, spec) for spec in todo}
                if is_final(when):
                    self.display.phase(f"Evaluation {when} GRPO: {_what(tasks, split)}")
                await self._play(tasks, pool, policy)
        return summaries(self.run, config, when)

    def _specs(self, when: str) -> list[EvalSpec]:
        settings = self.config.eval
        split = settings.split if is_final(when) else settings.selection_split
        split = split if self._has_splits else ""
        seed = settings.seed if is_final(when) else derive_seed(settings.seed, "selection")
        temperatures = {SAMPLED: (1.0, settings.samples), GREEDY: (0.0, 1)}
        return [
            EvalSpec(label_of(when, how), split, temperature, tasks_of(self.config, how), samples, seed)
            for how, (temperature, samples) in temperatures.items()
            if how in planned(self.config, when)
        ]

    def _tasks(self, pool: EnvPool, when: str, spec: EvalSpec) -> list[Task]:
        """The first ones are the same for all ``spec`` of a time: those of the seed."""
        ids, count = pool.scenario_ids(), spec.tasks
        if ids is not None and (spec.tasks > self.config.eval.scenarios or not is_final(when)):
            count = min(count, len(ids))
        return evaluation_tasks(ids, count, spec.seed)

    async def _play(self, tasks: dict[EvalSpec, list[Task]], pool: EnvPool, policy: Policy) -> None:
        """Play the episodes of all in one pass; write them and then summaries, which say that all is there.

        One pass, because the last episodes of each keep the server waiting for a few long ones; task by task, because
        the server then has the prompt in its cache. The seconds of the pass are shared by the number of episodes.
        """
        gate = asyncio.Semaphore(self.config.rollout.concurrency)
        began = time.monotonic()
        played: dict[EvalSpec, list[asyncio.Task[list[Trajectory]]]] = {spec: [] for spec in tasks}
        rollouts = {spec: self._rollout(spec, pool, policy, gate) for spec in tasks}
        with ExitStack() as bars:
            players = {spec: self._player(spec, len(own), rollouts[spec], bars) for spec, own in tasks.items()}
            for turn in zip_longest(*tasks.values()):
                for spec, task in zip(tasks, turn, strict=True):
                    if task is not None:
                        played[spec].append(asyncio.create_task(players[spec](task)))
            jobs = [job for own in played.values() for job in own]
            try:
                groups = await asyncio.gather(*jobs)
            finally:
                for job in jobs:
                    job.cancel()
        if lost := next((rollout.lost for rollout in rollouts.values() if rollout.lost), None):
            raise ServerDiedError(
                f"the evaluation is not recorded, because episodes were lost with their server; --resume plays it "
                f"again: {lost}"
            )
        seconds = (time.monotonic() - began) / sum(map(len, groups))
        for spec, own in played.items():
            trajectories = [trajectory for job in own for trajectory in job.result()]
            marked = self._without_unmarked(spec, trajectories)
            summary = summarise(spec, marked, policy.version, seconds * len(marked))
            path = self.run.evaluation(spec.label)
            write_jsonl(path.with_suffix(".jsonl"), self.sampled_tokens.records(marked))
            write_json(path, summary)

    def _rollout(self, spec: EvalSpec, pool: EnvPool, policy: Policy, gate: asyncio.Semaphore) -> Rollout:
        settings = self.config.rollout
        sampling = SamplingParams(spec.temperature, settings.max_turn_tokens)
        return Rollout(pool, self.chat, policy, sampling, settings.max_tokens, marker=self.marker, gate=gate)

    def _player(
        self, spec: EvalSpec, tasks: int, rollout: Rollout, bars: ExitStack
    ) -> Callable[[Task], Coroutine[Any, Any, list[Trajectory]]]:
        """What plays ``spec.samples`` episodes of a task; its bar counts those of all ``tasks``."""
        bar = bars.enter_context(self.display.progress(spec.label, tasks * spec.samples))

        def on_done(trajectory: Trajectory) -> None:
            bar.update(1, reward=trajectory.reward, completion_tokens=trajectory.num_sampled_tokens)

        return lambda task: rollout.run(group_specs([task], spec.samples, "evaluation", spec.seed), on_done)

    def _without_unmarked(self, spec: EvalSpec, trajectories: Sequence[Trajectory]) -> list[Trajectory]:
        """Episodes on whose answers a judge failed count as failed, not as wrong: they are in no mean.

        Raises:
            JudgeFailure: There are too many of them, or the judge's money is spent: what a rule can decide alone would
                be all that is left.
        """
        unmarked = [t.unmarked for t in trajectories if t.unmarked]
        bound = self.config.judge.max_failures
        if len(unmarked) > bound * len(trajectories) or (unmarked and self.marker.is_spent):
            raise JudgeFailure(
                f"evaluation {spec.label!r}: {len(unmarked)} of {len(trajectories)} episodes have no verdict on their "
                f"answers; the last error: {unmarked[-1]}. Mend the judge and go on with --resume"
            )
        return [replace(t, stop_reason=StopReason.FAILED, error=t.unmarked) if t.unmarked else t for t in trajectories]


def _what(tasks: dict[EvalSpec, list[Task]], split: str) -> str:
    """What is evaluated, in the env's terms: scenarios where it names them, else episodes with seeds of their own."""
    first, *others = tasks.values()
    noun = "episode" if first[0].scenario_id is None else "scenario"
    what = counted(len(first), noun) + (f" of the {split} split" if split else "")
    return what + "".join(f", {len(other)} greedily" for other in others if len(other) != len(first))


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


def _columns(trajectories: Sequence[Trajectory]) -> tuple[list[dict[str, float]], list[str], list[float]]:
    metrics = [t.metrics | {"completion_tokens": float(t.num_sampled_tokens)} for t in trajectories]
    for columns, trajectory in zip(metrics, trajectories, strict=True):
        columns["cut_turns"] = trajectory.cut_turns / max(1, trajectory.num_turns)
        columns["context_full"] = float(trajectory.stop_reason is StopReason.CONTEXT_FULL)
    return metrics, [t.task.key for t in trajectories], [t.reward for t in trajectories]

"""How long a run takes, and how many GRPO steps fit in the minutes that it was given.

At first it is estimated: the run's work, in multiplications of the model's weights, over the speed that was measured of
this machine. What was done meanwhile lies in the run directory with its seconds (``warmstart.jsonl``, ``eval/``,
``metrics.jsonl``), and takes the estimate's place: the warm start tells of the updates, the evaluation before of the
rollouts, and after the first step all is measured. So a run that goes on knows its pace, too.
"""

import math
import os
import time
from bisect import bisect_right
from collections.abc import Iterator
from statistics import median
from typing import NamedTuple, Self

from grpo.config import TrainConfig
from grpo.devices.shape import ModelShape
from grpo.display.metrics import counted, short_duration
from grpo.machine.hardware import cpu_seconds_below
from grpo.runs.directory import RunDirectory
from grpo.runs.evaluations import (
    AFTER,
    BASE_MODEL,
    BASELINE,
    BEFORE,
    SAMPLED,
    baseline_of,
    files,
    is_done,
    label_of,
    planned,
    plays_base_model,
    summary_in,
    tasks_of,
)

LEARNER_SHARE = 0.5
"""Of the speed of a bare matrix product that the learner reaches; docs/performance.md has what it is from."""

MOST_THREAD_GFLOPS = 275.0
"""A thread's bare product may be faster (1,120 with AMX); what is between the learner's products then takes most."""

SAMPLER_SHARE, SAMPLER_TOKEN_SECONDS = 1.1, 0.00033
"""Of vLLM: for a token of an episode its products take as long as at so many times the bare product's speed, because
some tokens are in the cache and embeddings are looked up; the seconds are all else, which faster products do not
shorten."""

NEWEST_STEPS = 3
"""So many steps' median is the pace: a machine's load changes."""

MOST_STEPS = 1_000_000
"""No run is given the minutes for as many."""


class Pace(NamedTuple):
    """Seconds of a warm start step, of a held-out episode and of a GRPO step; NaN is what is not known yet."""

    warm_start_step: float = math.nan
    episode: float = math.nan
    step: float = math.nan


class Todo(NamedTuple):
    """What of a run is left: warm start steps, held-out episodes, GRPO steps."""

    warm_start_steps: int
    episodes: int
    steps: int

    def seconds(self, pace: Pace) -> float:
        """How long it takes; NaN where that is not known."""
        return math.fsum(count * seconds for count, seconds in zip(self, pace, strict=True) if count)


class Began(NamedTuple):
    """When a step began: on the clock, and in CPU seconds of this process and of those that it started."""

    seconds: float
    cpu_seconds: float

    @classmethod
    def now(cls) -> Self:
        """Now."""
        return cls(time.monotonic(), time.process_time() + cpu_seconds_below(os.getpid()))


def estimated_pace(config: TrainConfig, shape: ModelShape, gflops: float, tokens: float) -> Pace:
    """The pace of a machine that makes ``gflops`` GFLOP/s, with episodes of ``tokens`` tokens.

    A token that is read or sampled takes 2 operations for each weight, one that is learned from 4: LoRA needs no
    gradient of the weights themselves.
    """
    most = MOST_THREAD_GFLOPS * (config.threads or 2)
    learned_seconds = tokens * 4e-9 * shape.parameters / (min(gflops, most) * LEARNER_SHARE)
    read_seconds = tokens * (2e-9 * shape.parameters / (gflops * SAMPLER_SHARE) + SAMPLER_TOKEN_SECONDS)
    return Pace(config.warm_start.batch * learned_seconds, read_seconds)


def step_seconds(config: TrainConfig, pace: Pace) -> float:
    """Of a GRPO step before one was made: its episodes take as long as those before, and half of them are learned from.

    The others are in groups with equal rewards, or no better than their group where only better ones are learned.
    """
    row_seconds = pace.warm_start_step / config.warm_start.batch
    return config.rollout.groups_per_step * config.rollout.group_size * (pace.episode + row_seconds / 2)


def measured_pace(run: RunDirectory) -> Pace:
    """What the run directory says."""
    warm = [float(step.get("seconds", 0.0)) for step in run.warm_start()]
    undisturbed = warm[len(warm) // 2 :]  # vLLM starts beside the first ones
    steps = [float(step["time/step"]) for step in run.metrics() if "time/step" in step]
    evaluations = list(_evaluations(run))
    episodes = sum(count for _, count in evaluations)
    return Pace(
        warm_start_step=median(undisturbed) if warm else math.nan,
        episode=sum(seconds for seconds, _ in evaluations) / episodes if episodes else math.nan,
        step=median(steps[-NEWEST_STEPS:]) if steps else math.nan,
    )


def recorded_seconds(run: RunDirectory) -> float:
    """How long the work took that the run directory has, by whatever process."""
    return math.fsum(
        [
            *(float(step.get("seconds", 0.0)) for step in run.warm_start()),
            *(seconds for seconds, _ in _evaluations(run)),
            *(float(step.get("time/step", 0.0)) for step in run.metrics()),
        ]
    )


class Clock:
    """The time of one run: what it took so far, what is left, and how many steps fit.

    Args:
        config: Of the run, as it begins.
        run: Its directory.
        estimate: Without it nothing is said before it is measured.
    """

    def __init__(self, config: TrainConfig, run: RunDirectory, estimate: Pace | None = None):
        self._config = config
        self._run = run
        self._estimate = estimate or Pace()
        self._earlier_seconds = recorded_seconds(run)

    @property
    def pace(self) -> Pace:
        """As far as it is known now."""
        measured = measured_pace(self._run)
        pace = self._estimate._replace(
            **{name: value for name, value in measured._asdict().items() if math.isfinite(value)}
        )
        return pace if math.isfinite(pace.step) else pace._replace(step=step_seconds(self._config, pace))

    def left(self, step: int | None, steps: int) -> float:
        """Seconds from a finished ``step`` to the end of ``steps``; None is before the warm start."""
        return self._todo(step, steps).seconds(self.pace)

    def steps(self, step: int | None) -> int | None:
        """How many steps the run has in all, for its ``minutes``; None without such a limit, or before it is known.

        Those that are made stay, and it has one at least.
        """
        pace = self.pace
        if self._config.minutes is None or not math.isfinite(self._todo(step, (step or 0) + 1).seconds(pace)):
            return None
        left = 60 * self._config.minutes - self._earlier_seconds - (time.monotonic() - self._run.opened_at)
        fit = bisect_right(range(MOST_STEPS), left, key=lambda steps: self._todo(step, steps).seconds(pace))
        return max(1, step or 0, fit - 1)

    def describe(self, step: int | None, steps: int) -> str:
        """The whole estimate in a line; "" where it is not known."""
        seconds, pace, todo = self.left(step, steps), self.pace, self._todo(step, steps)
        if not math.isfinite(seconds):
            return ""
        parts = (
            ("warm start", todo.warm_start_steps * pace.warm_start_step),
            (f"{counted(todo.steps, 'step')} of", pace.step if todo.steps else 0.0),
            ("evaluations", todo.episodes * pace.episode),
        )
        named = ", ".join(f"{what} {_about(each)}" for what, each in parts if each > 0)
        return f"about {_about(seconds)}{f' ({named})' if named else ''}"

    def _todo(self, step: int | None, steps: int) -> Todo:
        """Of a run of so many ``steps``; one of none has nothing to evaluate after them."""
        settings = self._config.eval
        episodes = sum(
            tasks_of(self._config, how) * (settings.samples if how == SAMPLED else 1)
            for when in ((BEFORE, AFTER) if steps else (BEFORE,))
            for how in planned(self._config, when)
            if when == AFTER or not (step or is_done(self._run, label_of(BEFORE, how), 0))
        )
        if plays_base_model(self._config) and not (step or is_done(self._run, label_of(BASE_MODEL, BASELINE), 0)):
            episodes += tasks_of(self._config, BASELINE)
        left = max(0, steps - (step or 0))
        if settings.every:  # of checkpoints; the last one's, always
            episodes += max(1, math.ceil(left / settings.every)) * settings.scenarios * settings.samples
        return Todo(self._config.warm_start.steps if step is None else 0, episodes, left)


def _about(seconds: float) -> str:
    """Whole minutes from two to two hundred: an estimate knows no seconds."""
    return f"{round(seconds / 60)} min" if 120 <= seconds < 12_000 else short_duration(seconds)


def _evaluations(run: RunDirectory) -> Iterator[tuple[float, int]]:
    """Seconds and episodes of each evaluation that is done."""
    for label, path in files(run.root, ".json").items():
        if baseline_of(label):  # a script takes no time, and the base model another than the policy
            continue
        if (summary := summary_in(path)) is not None:
            yield float(summary.get("seconds", 0.0)), int(summary.get("episodes", 0)) + int(summary.get("failed", 0))

"""What a run of an arm came to, one JSON file each, and the table of all."""

import json
import math
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pydantic import TypeAdapter, ValidationError

from grpo.config import TrainConfig, dotted, resume_differences
from grpo.episodes.record import read_episodes
from grpo.errors import ConfigError
from grpo.runs.directory import RunDirectory
from grpo.runs.evaluations import AFTER, BEFORE, GREEDY, SAMPLED, label_of
from grpo.runs.retention import checkpoint_name
from judges.common.files import read_jsonl

Reward = tuple[float, float | None, float | None]
"""A mean with its 95 % interval, whose ends may be unknown."""


@dataclass(frozen=True)
class Point:
    """An evaluation on the validation split, and what the steps before it took, evaluations left out.

    ``tokens`` are those of the rollouts, read and sampled, and of the demonstrations that were imitated; ``reward`` is
    the mean at temperature 1 with its 95 % interval, whose ends may be unknown.
    """

    step: int
    minutes: float
    cpu_seconds: float
    tokens: int
    reward: float
    low: float | None
    high: float | None


@dataclass(frozen=True)
class Result:
    """A finished run: its curve, and the rewards on the test split at its end (mean, low, high)."""

    arm: str
    seed: int
    curve: list[Point]
    final: Reward
    greedy: Reward | None
    config: dict[str, Any]

    def reached(self, target: float) -> Point | None:
        """The first evaluation at or above ``target``."""
        return next((point for point in self.curve if point.reward >= target), None)


def of_run(arm: str, seed: int, folder: Path, start: Point | None = None) -> Result:
    """Read a finished run; ``start`` is the warm start's own evaluation, where the run did not make one."""
    run = RunDirectory(folder)
    records = read_jsonl(run.metrics_path)
    curve = [] if start is None else [start]
    for step in range(len(records) + 1):
        path = run.evaluation(label_of(checkpoint_name(step), SAMPLED))
        if path.exists():
            done = records[:step]
            curve.append(
                Point(
                    step,
                    math.fsum(record["time/step"] for record in done) / 60,
                    math.fsum(record["time/cpu"] for record in done),
                    sum(_tokens(run, record) for record in done),
                    *_reward(path),
                )
            )
    at_end = AFTER if records else BEFORE  # without steps there is one
    greedy = run.evaluation(label_of(at_end, GREEDY))
    final = _reward(run.evaluation(label_of(at_end, SAMPLED)))
    return Result(
        arm,
        seed,
        curve,
        final,
        _reward(greedy) if greedy.exists() else None,
        json.loads(run.config_path.read_text(encoding="utf-8")),
    )


def _tokens(run: RunDirectory, record: Mapping[str, Any]) -> int:
    path = run.trajectories(record["step"])
    played = sum(episode.num_tokens for episode in read_episodes(path))
    return played + int(record.get("tokens/imitated", 0))


def _reward(path: Path) -> Reward:
    reward = json.loads(path.read_text(encoding="utf-8"))["metrics"]["reward/mean"]
    return reward["mean"], reward["low"], reward["high"]


def load(path: Path) -> Result:
    """Read a result.

    Raises:
        ConfigError: It is none.
    """
    try:
        return TypeAdapter(Result).validate_json(path.read_bytes())
    except ValidationError as error:
        raise ConfigError(f"{path} is not a result ({error}); remove it, and its run is read again") from error


def check_same(result: Result, config: TrainConfig, path: Path) -> None:
    """Refuse to count a result beside runs of other settings.

    Raises:
        ConfigError: Its settings differ in what changes a result, or in its length.
    """
    measured = {"dtype": "auto", "threads": None}  # where they were not set, the run has them from this machine
    kept = {key: result.config[key] for key, unset in measured.items() if getattr(config, key) == unset}
    config = config.model_copy(update=kept)
    now, before = dotted(config.model_dump(mode="json")), dotted(result.config)
    difference = resume_differences(TrainConfig, before, now)
    lengths = ["minutes"] if config.minutes is not None else ["minutes", "steps"]
    difference += [f"{key}: {before[key]!r} -> {now[key]!r}" for key in lengths if before[key] != now[key]]
    if difference:
        raise ConfigError(
            f"{path} is of other settings:\n  " + "\n  ".join(difference) + "\nChoose another folder, or remove it and "
            "its run to play it again"
        )


def table(results: Sequence[Result], target: float) -> str:
    """A Markdown table with a row for each arm: median and each run. A run that never reached the target has no time;
    in a median it is longer than all others. What a step takes is the mean over the steps of a run.
    """
    lines = [
        f"| arm | reached {target:g} | minutes | tokens, thousands | CPU seconds | minutes a step | "
        "tokens a step, thousands | CPU seconds | reward at the end, test split | greedily |",
        "|---|---|---|---|---|---|---|---|---|---|",
    ]
    for arm in dict.fromkeys(result.arm for result in results):
        runs = sorted((result for result in results if result.arm == arm), key=lambda result: result.seed)
        points, ends = [run.reached(target) for run in runs], [run.curve[-1] for run in runs]
        cells = [
            f"{sum(point is not None for point in points)} of {len(runs)}",
            _cell([None if point is None else point.minutes for point in points], 1),
            _cell([None if point is None else point.tokens / 1000 for point in points], 0),
            _cell([None if point is None else point.cpu_seconds for point in points], 0),
            _cell([_a_step(end, end.minutes) for end in ends], 1),
            _cell([_a_step(end, end.tokens / 1000) for end in ends], 0),
            _cell([end.cpu_seconds for end in ends], 0),
            ", ".join(_interval(run.final) for run in runs),
            ", ".join(_interval(run.greedy) for run in runs),
        ]
        lines.append(f"| {arm} | {' | '.join(cells)} |")
    return "\n".join(lines)


def _a_step(end: Point, value: float) -> float | None:
    return value / end.step if end.step else None


def _cell(values: Sequence[float | None], decimals: int) -> str:
    """``median (each)``."""

    def shown(value: float | None) -> str:
        return "–" if value is None or not math.isfinite(value) else f"{value:,.{decimals}f}"

    median = statistics.median(math.inf if value is None else value for value in values)
    return shown(median) if len(values) == 1 else f"{shown(median)} ({', '.join(map(shown, values))})"


def _interval(reward: Reward | None) -> str:
    if reward is None:
        return "–"
    mean, low, high = reward
    return f"{mean:.3f}" if low is None or high is None else f"{mean:.3f} [{low:.3f}, {high:.3f}]"

"""What a run has left on disk, and what it says: paired changes on held-out tasks and the conclusion in one sentence.

Reading and arithmetic alone; ``training`` makes the page.
"""

import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, fields
from pathlib import Path

from grpo.display.metrics import REWARD, ShownMetric
from grpo.episodes.record import read_episodes
from grpo.errors import ReportError
from grpo.eval.compare import Measure, by_scenario, paired
from grpo.report.transcripts import difficulty_of
from grpo.runs.evaluations import (
    AFTER,
    BEFORE,
    GREEDY,
    SAMPLED,
    baseline_of,
    beside_baselines,
    files,
    is_final,
    label_of,
    summary_in,
)
from grpo.types import Episode
from judges.common.files import Record, read_json, read_jsonl

WHOSE = {AFTER: "the trained policy", BEFORE: "the policy before GRPO (a longer warm start helps)"}


@dataclass(frozen=True, slots=True)
class Run:
    """What lies in a run directory; parts that are not there are empty.

    Of a long run the episodes have no room in memory together: those of the evaluations before and after are read, and
    ``between``, of the evaluations between steps, and ``rollouts`` are files, by label and by step.
    """

    config: Record
    steps: list[Record]
    warm_start: list[Record]
    summaries: dict[str, Record]
    evaluated: dict[str, list[Episode]]
    between: dict[str, Path] = field(default_factory=dict)
    rollouts: dict[int, Path] = field(default_factory=dict)
    damaged: list[str] = field(default_factory=list)
    """What could not be read, and is left out."""


def load_run(run_dir: Path) -> Run:
    """Read what the run has left so far.

    Raises:
        ReportError: The directory holds no part of a run, or its settings or another file can't be read.
    """
    damaged: list[str] = []
    evaluations = files(run_dir, ".jsonl")
    final = {label for label in evaluations if is_final(label.partition("-")[0]) or baseline_of(label)}
    config = run_dir / "config.json"
    with readable(run_dir):
        run = Run(
            config=read_json(config) if config.exists() else {},
            steps=read_jsonl(run_dir / "metrics.jsonl", damaged),
            warm_start=read_jsonl(run_dir / "warmstart.jsonl", damaged),
            summaries={
                label: summary
                for label, path in files(run_dir, ".json").items()
                if (summary := summary_in(path, damaged)) is not None
            },
            evaluated={
                label: list(read_episodes(path, damaged=damaged))
                for label, path in evaluations.items()
                if label in final
            },
            between={label: path for label, path in evaluations.items() if label not in final},
            rollouts={
                int(path.stem.removeprefix("step-")): path
                for path in sorted(run_dir.glob("trajectories/step-*.jsonl"))
                if re.fullmatch(r"step-\d+", path.stem)  # and not a copy that the user made
            },
            damaged=damaged,
        )
    if not any(getattr(run, part.name) for part in fields(run)):
        raise ReportError(
            f"{run_dir} holds no config.json, metrics.jsonl, warmstart.jsonl or eval/; "
            "is it a run directory or an evaluation?"
        )
    return run


def episodes_in(path: Path, damaged: list[str]) -> list[Episode]:
    """The episodes of a step or of an evaluation between steps; ``damaged`` gets a line for each that is none.

    Raises:
        ReportError: The file can't be read.
    """
    with readable(path):
        return list(read_episodes(path, damaged=damaged))


@contextmanager
def readable(path: Path) -> Iterator[None]:
    """Names a file that cannot be read, or is damaged.

    Raises:
        ReportError: It is.
    """
    try:
        yield
    except (OSError, ValueError) as error:
        raise ReportError(f"{path} can't be reported on: {error}; mend or remove that file") from error


def compare(run: Run, how: str, metric: ShownMetric, cut: str = "") -> Measure | None:
    """One metric before and after, paired by scenario.

    Args:
        run: The run.
        how: ``sampled`` or ``greedy``.
        metric: What to compare.
        cut: A slice, for example ``hard``: only episodes that carry its flag.

    Returns:
        The change, or ``None`` where no scenario has the metric on both sides.
    """
    sides = (
        [one for one in run.evaluated.get(label_of(when, how), ()) if not cut or difficulty_of(one) == cut]
        for when in (BEFORE, AFTER)
    )
    return paired(metric, *(by_scenario(metric, side) for side in sides))


def better_scripts(run: Run) -> list[str]:
    """A sentence about each baseline that knows no answers and is better than the policy, beyond chance: than the one
    after GRPO, or before where that is all there is.
    """
    found = beside_baselines(run.evaluated)
    policy, own = next(
        ((what, found[label]) for when, what in WHOSE.items() for label in found if label.startswith(f"{when}-")),
        ("", []),
    )
    said: list[str] = []
    for label, episodes in found.items():
        if (name := baseline_of(label)) and not run.summaries[label].get("knows_answers"):
            change = paired(REWARD, by_scenario(REWARD, own), by_scenario(REWARD, episodes))
            if change is not None and change.difference.direction == "up":
                said.append(f"{name} is better than {policy} on the same tasks: {change.said}.")
    return said


def conclusion(run: Run) -> str:
    """Whether training helped on held-out tasks, from the data alone: a sentence on sampled episodes, one on greedy."""
    ways = ((SAMPLED, "at temperature 1"), (GREEDY, "with greedy decoding"))
    changes = [_sentence(change, how) for way, how in ways if (change := compare(run, way, REWARD))]
    if not changes:
        done, planned = len(run.steps), run.config.get("steps")
        progress = f"{done} of {planned} steps" if planned is not None else f"{done} steps"
        changes = [f"Nothing to compare yet: {progress} done, and no held-out evaluation both before and after."]
    return _nothing_learned(run.steps) + " ".join(changes)


def _sentence(change: Measure, how: str) -> str:
    difference, value = change.difference, change.metric.format
    if difference.low == difference.high == 0.0:
        return f"Held-out reward {how} is the same before and after in all {difference.n} scenarios."
    noise = "did not change beyond noise:" if difference.is_known else "went"
    verb = {"up": "rose", "down": "fell", "noise": noise}[difference.direction]
    return f"Held-out reward {how} {verb} from {value(change.a)} to {value(change.b)}; {change.said}."


def _nothing_learned(steps: list[Record]) -> str:
    """A sentence where no step had a group to learn from: the policy is the one that began."""
    if not steps or any(step.get("groups/used", 1.0) > 0 for step in steps):
        return ""
    which = "the step" if len(steps) == 1 else f"any of the {len(steps)} steps"
    return f"GRPO changed nothing: no group of {which} had rewards that differ. "

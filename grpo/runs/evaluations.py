"""The held-out evaluations of a run: which there are, what they are called, and which are done.

A label says when and how: ``before-sampled``, ``before-greedy``, ``after-sampled``, ``after-greedy``, and during GRPO
``step-0010-sampled``. ``keyword-baseline`` is what a policy of the env's gets on the same tasks, and
``base-model-baseline`` the model without an adapter. ``eval/<label>.json`` is the summary, ``eval/<label>.jsonl`` has
the episodes.
"""

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any, TypeVar

from grpo.config import TrainConfig
from grpo.runs.directory import RunDirectory
from grpo.runs.retention import forget_best_after
from judges.common.files import DamagedFileError, Record, read_json

T = TypeVar("T")

BEFORE, AFTER = "before", "after"
"""GRPO's first step and its last."""

SAMPLED, GREEDY = "sampled", "greedy"
"""At temperature 1, as in training, and at temperature 0."""

BASELINE = "baseline"
"""On the tasks that are played greedily, where any are."""

BASE_MODEL = "base-model"

_LABEL = re.compile(rf"({BEFORE}|{AFTER}|step-\d+)-({SAMPLED}|{GREEDY})|[^/]+-{BASELINE}")


def is_final(when: str) -> bool:
    """Whether it is of the result, before or after GRPO; those between choose the best checkpoint, on other tasks."""
    return when in (BEFORE, AFTER)


def label_of(when: str, how: str) -> str:
    """The name of an evaluation."""
    return f"{when}-{how}"


def planned(config: TrainConfig, when: str) -> list[str]:
    """How a run evaluates then: sampled, and before and after GRPO greedily, too."""
    if config.eval.scenarios == 0:
        return []
    return [SAMPLED, GREEDY] if config.eval.greedy and is_final(when) else [SAMPLED]


def tasks_of(config: TrainConfig, how: str) -> int:
    """How many tasks are evaluated so. Greedy episodes of a task are all the same, so more of them need more tasks."""
    return config.eval.scenarios * (1 if how == SAMPLED else config.eval.greedy or 1)


def plays_base_model(config: TrainConfig) -> bool:
    """Whether the model without an adapter is another policy than that before GRPO, and is played beside it."""
    begins_elsewhere = config.warm_start.steps > 0 or config.init_adapter is not None
    return begins_elsewhere and config.eval.baselines == "all" and config.eval.scenarios > 0


def files(run_dir: Path, suffix: str) -> dict[str, Path]:
    """The files of the run's own evaluations that end so, by label; whatever else lies beside them is not the run's."""
    found = sorted((run_dir / "eval").glob(f"*{suffix}"))
    return {path.stem: path for path in found if _LABEL.fullmatch(path.stem)}


def is_done(run: RunDirectory, label: str, step: int) -> bool:
    """Whether the policy of ``step`` was evaluated."""
    return _policy_of(run.evaluation(label)) == step


def forget_after(run: RunDirectory, step: int) -> None:
    """Remove what was found out of policies after ``step``: a run that goes on from there will have others."""
    forget_best_after(run.checkpoints, step)
    for path in files(run.root, ".json").values():
        if (_policy_of(path) or 0) > step:
            path.unlink()
            path.with_suffix(".jsonl").unlink(missing_ok=True)


def is_finished(run: RunDirectory, config: TrainConfig, step: int) -> bool:
    """Whether nothing is left to evaluate after the last ``step``; without steps, the policy before GRPO is all."""
    when = AFTER if step else BEFORE
    return all(is_done(run, label_of(when, how), step) for how in planned(config, when))


def baseline_of(label: str) -> str:
    """Of whom the baseline of this label is; "" where it is none."""
    name, _, how = label.rpartition("-")
    return name if how == BASELINE else ""


def beside_baselines(found: Mapping[str, T]) -> dict[str, T]:
    """Of what there is by label, the baselines and the policy on their tasks; nothing where there is no baseline."""
    baselines = {label: one for label, one in found.items() if baseline_of(label)}
    how = GREEDY if any(label.endswith(GREEDY) for label in found) else SAMPLED
    own = {label: found[label] for when in (BEFORE, AFTER) if (label := label_of(when, how)) in found}
    return own | baselines if baselines else {}


def summaries(run: RunDirectory, config: TrainConfig, *whens: str) -> list[dict[str, Any]]:
    """The summaries that lie in the run directory, in the order of ``whens``, sampled before greedy."""
    paths = [run.evaluation(label_of(when, how)) for when in whens for how in planned(config, when)]
    return [summary for path in paths if (summary := summary_in(path)) is not None]


def _policy_of(path: Path) -> int | None:
    """After how many steps; None where it cannot be known."""
    return (summary_in(path) or {}).get("policy")


def summary_in(path: Path, damaged: list[str] | None = None) -> Record | None:
    """The summary that a file holds; None where it is missing, or damaged, which is told in ``damaged``: it can be
    found out again.
    """
    try:
        return read_json(path)
    except FileNotFoundError:
        return None
    except (OSError, DamagedFileError) as error:
        if damaged is not None:
            damaged.append(str(error))
        return None

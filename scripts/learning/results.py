"""What a run of an arm came to, read from its folder, and the table of all."""

import math
from collections.abc import Sequence
from pathlib import Path

from grpo.config import TrainConfig, dotted, resume_differences
from grpo.display.metrics import CORRECT, REWARD
from grpo.episodes.record import read_episodes
from grpo.errors import ConfigError
from grpo.eval.compare import by_scenario, paired
from grpo.runs.directory import RunDirectory
from grpo.runs.evaluations import AFTER, BASELINE, BEFORE, GREEDY, SAMPLED, label_of
from grpo.types import Episode
from judges.common.files import read_json, read_jsonl

COLUMNS = (
    *("arm", "seed", "steps", "CPU seconds", "temperature 1", "greedily", "right, greedily"),
    *("gain, greedily", "beyond the script, greedily"),
)


def check_same(run: Path, config: TrainConfig) -> None:
    """Refuse to count a finished run beside runs of other settings.

    Raises:
        ConfigError: Its settings differ in what changes a result, or in its length.
    """
    done = read_json(RunDirectory(run).config_path)
    measured = {"dtype": "auto", "threads": None}  # where they were not set, the run has them from this machine
    kept = {key: done[key] for key, unset in measured.items() if getattr(config, key) == unset}
    now, before = dotted(config.model_copy(update=kept).model_dump(mode="json")), dotted(done)
    difference = resume_differences(TrainConfig, before, now)
    if before["steps"] != now["steps"]:
        difference.append(f"steps: {before['steps']!r} -> {now['steps']!r}")
    if difference:
        raise ConfigError(
            f"{run} is of other settings:\n  " + "\n  ".join(difference) + "\nChoose another folder, or remove it to "
            "play it again"
        )


def table(runs: Sequence[tuple[str, int, Path]], warm: Path) -> str:
    """A Markdown table with a row for each run (arm, seed, folder).

    ``warm`` is the warm starts' folder without its seed. Means are of the test split. Gains are paired differences of
    the greedy reward with their 95 % intervals: to the warm start of that seed, and to the script that it imitates.
    """
    rows = [COLUMNS, ["---"] * len(COLUMNS), *(_row(arm, seed, run, warm_start(warm, seed)) for arm, seed, run in runs)]
    return "\n".join(f"| {' | '.join(cells)} |".replace(" --- ", "---") for cells in rows)


def warm_start(warm: Path, seed: int) -> Path:
    """The run directory of the warm start of a seed."""
    return warm.with_name(f"{warm.name}-seed-{seed}")


def _row(arm: str, seed: int, run: Path, warm: Path) -> list[str]:
    records = read_jsonl(RunDirectory(run).metrics_path)
    script = read_json(RunDirectory(warm).config_path)["warm_start"]["policy"]
    when = AFTER if records else BEFORE  # without steps there is one
    greedy = _episodes(run, label_of(when, GREEDY))
    means = [
        metric.format(math.fsum(values) / len(values) if (values := by_scenario(metric, episodes).values()) else None)
        for metric, episodes in ((REWARD, _episodes(run, label_of(when, SAMPLED))), (REWARD, greedy), (CORRECT, greedy))
    ]
    gains = [
        "–"
        if change is None
        else f"{REWARD.format_difference(change.difference.mean)} {REWARD.format_ends(change.difference)}"
        for label in (label_of(BEFORE, GREEDY), label_of(script, BASELINE))
        for change in [paired(REWARD, by_scenario(REWARD, _episodes(warm, label)), by_scenario(REWARD, greedy))]
    ]
    seconds = math.fsum(record["time/cpu"] for record in records)
    return [arm, str(seed), str(len(records)), f"{seconds:,.0f}", *means, *gains]


def _episodes(run: Path, label: str) -> list[Episode]:
    summary = RunDirectory(run).evaluation(label)
    return list(read_episodes(summary.with_suffix(".jsonl"), transcripts=False))

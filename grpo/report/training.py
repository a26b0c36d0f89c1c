"""The page of a training run: what changed on held-out tasks, curves, steps, episodes."""

import math
from collections.abc import Iterator, Sequence
from typing import Any

from markupsafe import Markup

from grpo.config import dotted
from grpo.display.capture import captured
from grpo.display.meanings import MEANINGS, OF_IMITATION
from grpo.display.metrics import EVALUATION_METRICS, counted, short_duration, short_number, standings
from grpo.display.steps import COLUMNS, cell
from grpo.report.charts import Range, Series, interval_chart, line_chart
from grpo.report.episodes import MAX_EPISODES, Episodes, Source, within_limit
from grpo.report.page import Page, settings
from grpo.report.run import Run, better_scripts, compare, conclusion, episodes_in
from grpo.report.transcripts import Pair, choose_pairs
from grpo.runs.diagnosis import MOVED, diagnose
from grpo.runs.evaluations import AFTER, BEFORE, GREEDY, SAMPLED, baseline_of, beside_baselines, label_of
from grpo.runs.retention import step_of
from grpo.statistics import slice_order
from judges.common.files import Record

EVALUATIONS = ((SAMPLED, "T = 1", "Sampled at temperature 1"), (GREEDY, "greedy", "Greedy decoding"))
"""How a run evaluates, a short title and a long one."""


CURVES: tuple[tuple[str, bool, tuple[tuple[str, str], ...]], ...] = (
    ("Reward of the rollouts", False, (("reward/mean", "mean over the step's episodes"),)),
    (
        "What the rollouts achieve",
        True,
        (
            ("env/success", "success"),
            ("env/found", "found"),
            ("env/read", "read"),
            ("env/valid_call_rate", "valid calls"),
        ),
    ),
    ("Policy loss", False, (("loss/policy", "mean over the step's action tokens"),)),
    ("Gradient norm", False, (("loss/grad_norm", "norm before clipping"),)),
    (
        "Logprob gap",
        False,
        (
            ("gap/mean_abs", "mean |sampler - trainer|, nats a token"),
            ("gap/stale_mean_abs", "the same of an older policy's episodes: with what was learned since"),
        ),
    ),
    ("Entropy", False, (("loss/entropy", "nats a token"),)),
    ("Sampled tokens an episode", False, (("tokens/completion_mean", "mean over the step's episodes"),)),
    (
        "Tokens a second",
        False,
        (("speed/sample_tokens_per_second", "sampling"), ("speed/train_tokens_per_second", "training")),
    ),
    (
        "Seconds a step",
        False,
        (("time/rollout", "rollout"), ("time/train", "training"), ("time/publish", "publishing the adapter")),
    ),
    ("Groups", False, (("groups/used", "used"), ("groups/dropped", "dropped: equal rewards, or no verdict"))),
    (
        "Who marks the answers",
        True,
        (
            ("answer/by_rule", "rule"),
            ("answer/by_judge", "judge"),
            ("answer/undecided", "nobody: undecided"),
            ("answer/audit_disagreement", "of the audited: refused"),
        ),
    ),
    (
        "Judge against env",
        False,
        (("judge/disagreement", "share of pairs ordered the other way; 0.5 is chance"), ("judge/score", "mean score")),
    ),
    ("Trainer memory, GB", False, (("mem/trainer_rss_gb", "resident memory of the process"),)),
)
"""Charts: a title, whether it is of shares, and metrics with their labels."""

SUSPECT = (
    ("Groups without spread", True, (("groups/zero_variance_share", "their members have equal rewards"),)),
    ("Same words", True, (("actions/top_share", "share of turns that say what most say"),)),
    ("Giving up", True, (("episodes/idle_share", "share of episodes"),)),
    ("Cut turns", True, (("turns/cut_share", "for their length"),)),
    ("How far a step moves the policy", False, ((MOVED, "mean |change of a log-probability|, nats a token"),)),
    ("Turns an episode", False, (("tokens/calls_mean", "calls of the policy"),)),
)
"""More of them, drawn where a diagnosis is of their metric."""


PLAYERS = (("with", "model"), ("behind", "agent"))
"""Who plays in a run, for its title, by the settings that name them."""


def training_page(run: Run, name: str) -> Page:
    """The page of a run.

    Args:
        run: What the run has left.
        name: Of its directory.
    """
    changes = [
        (title, change)
        for how, title, _ in EVALUATIONS
        for metric in EVALUATION_METRICS[:2]
        if (change := compare(run, how, metric)) is not None
    ]
    columns = [column for column in COLUMNS if any(column[0] in step for step in run.steps)]
    page = Page(
        kind="Training report",
        name=name,
        title=run.config.get("env", "GRPO run"),
        subtitle=" ".join(f"{how} {run.config[of]}" for how, of in PLAYERS if run.config.get(of)),
        conclusion=conclusion(run),
        tone=changes[0][1].difference.direction if changes else "noise",
        episodes=Episodes(),
        facts=_facts(run),
        sections={
            "changes": changes,
            "evaluations": _evaluation_tables(run),
            "standings": standings(beside.values()) if (beside := beside_baselines(run.summaries)) else [],
            "captured": _captured(run),
            "curves": _curves(run),
            "step_columns": [title for _, title in columns],
            "step_rows": [[str(step.get("step", "")), *(cell(step, key) for key, _ in columns)] for step in run.steps],
        },
        pairs=_pairs(run),
        pairs_note="the same held-out tasks before and after training, chosen by the change of reward",
        config_rows=settings(dotted(run.config)),
    )
    failed = sum(int(summary.get("failed", 0)) for summary in run.summaries.values())
    if failed:
        lost = counted(failed, "episode")
        page.warnings.append(f"{lost} failed in the harness: counted, and left out of every mean.")
    page.warnings += better_scripts(run)
    page.warnings += [f"From step {one.step}, {one.name}: {one.text}." for one in diagnose(run.steps)]
    left_out = _add_episodes(run, page.episodes)
    page.sections["audits"] = page.episodes.audit_section()
    page.warnings += page.episodes.audit_warnings() + left_out + [f"Left out: {what}" for what in run.damaged]
    return page


def _captured(run: Run) -> str:
    """What an agent of the user's asked in the first step."""
    if not run.config.get("agent") or not run.rollouts:
        return ""
    return "\n".join(captured(episodes_in(run.rollouts[min(run.rollouts)], [])))


def _add_episodes(run: Run, episodes: Episodes) -> list[str]:
    """The evaluations before and after, and as many of the steps, and of those between, as there is room for.

    Returns what is left out, in a line.
    """

    def split_of(label: str) -> str:
        return str((run.summaries.get(label) or {}).get("split") or "")

    for how, title, _ in EVALUATIONS:
        for when, partner in ((BEFORE, ""), (AFTER, f"{BEFORE}, {title}")):
            label = label_of(when, how)
            if label in run.evaluated:
                episodes.add(Source(f"{when}, {title}", split_of(label), None, partner), run.evaluated[label])
    has_splits = any(summary.get("split") for summary in run.summaries.values())
    train_split = str(run.config.get("train_split") or "train") if has_splits else ""
    files = {Source(f"step {step}", train_split, step): path for step, path in run.rollouts.items()}
    files |= {Source(label, split_of(label)): path for label, path in run.between.items()}
    counts = {
        source: files[source].read_bytes().count(b"\n")
        for source in sorted(files, key=lambda source: source.step or step_of(source.label.rpartition("-")[0]))
    }
    shown = within_limit(counts, MAX_EPISODES - len(episodes))
    for source in shown:
        episodes.add(source, episodes_in(files[source], run.damaged))
    if len(shown) == len(files):
        return []
    return [
        f"The episodes of {len(files) - len(shown)} of {len(files)} steps and evaluations between them are not on this "
        f"page, which holds up to {MAX_EPISODES:,}; they lie in trajectories/ and eval/."
    ]


def _evaluation_tables(run: Run) -> list[dict[str, Any]]:
    tables: list[dict[str, Any]] = []
    for how, _, title in EVALUATIONS:
        sides = [run.summaries.get(label_of(when, how)) for when in (BEFORE, AFTER)]
        summary = sides[1] or sides[0]
        if summary is None:
            continue
        rows = list(_rows(run, how, sides))
        ranges = [
            Range(row["cut"] or metric.label, bool(row["cut"]), metric.ends(row["before"]), metric.ends(row["after"]))
            for row in rows
            if (metric := row["metric"]).is_share
        ]
        tables.append(
            {
                "title": title,
                "rows": rows,
                "chart": interval_chart(ranges) if ranges else "",
                **{key: summary.get(key) for key in ("episodes", "scenarios", "split")},
            }
        )
    return tables


def _rows(run: Run, how: str, sides: Sequence[Record | None]) -> Iterator[dict[str, Any]]:
    """Every metric over all episodes, and success over each slice of them: means before and after, and the change."""
    means = [{"": side["metrics"], **side["slices"]} if side else {} for side in sides]
    slices = sorted({cut for side in means for cut in side if cut}, key=slice_order)
    for metric in EVALUATION_METRICS:
        for cut in ("", *slices) if metric.name == "env/success" else ("",):
            before, after = (side.get(cut, {}).get(metric.name) for side in means)
            if metric.is_shown(value and value["mean"] for value in (before, after)):
                change = compare(run, how, metric, cut)
                yield {"metric": metric, "cut": cut, "before": before, "after": after, "change": change}


def _curves(run: Run) -> list[tuple[str, str, str, Markup]]:
    """Title, what the metrics mean, last value where there is one curve, and drawing."""
    drawn: list[tuple[str, str, str, Markup]] = []
    found = diagnose(run.steps)
    suspect = [chart for chart in SUSPECT if chart[2][0][0] in {one.metric for one in found}]
    for title, is_share, keys in (*CURVES, *suspect):
        series = [one for key, label in keys if (one := _series(run.steps, key, label)).points]
        if series and keys[0][0] == "reward/mean":
            series += _best_script(run, series[0])
        if series:
            last = "" if len(series) > 1 else short_number(series[0].points[-1][1])
            marks = {float(one.step): one.name for one in found if one.metric in dict(keys)}
            meaning = "\n".join(f"{key}: {MEANINGS[key]}" for key, _ in keys if key in MEANINGS)
            drawn.append((title, meaning, last, line_chart(series, percent=is_share, marks=marks)))
    loss = _series(run.warm_start, "loss", "imitation loss")
    if loss.points:
        last = short_number(loss.points[-1][1])
        drawn.append(("Warm start: imitation loss", OF_IMITATION["loss"], last, line_chart([loss])))
    return drawn


def _best_script(run: Run, curve: Series) -> list[Series]:
    """A line at what the best baseline that does not know the answers gets on the held-out tasks."""
    means = {
        name: float(summary["metrics"]["reward/mean"]["mean"])
        for label, summary in run.summaries.items()
        if (name := baseline_of(label)) and not summary.get("knows_answers")
    }
    if not means:
        return []
    best = max(means, key=lambda name: means[name])
    return [Series(f"{best} on the held-out tasks", [(x, means[best]) for x, _ in curve.points])]


def _series(records: Sequence[Record], key: str, label: str) -> Series:
    points = {
        float(record["step"]): float(value)
        for record in records
        if isinstance(value := record.get(key), int | float) and math.isfinite(value) and "step" in record
    }
    return Series(label, sorted(points.items()))


def _facts(run: Run) -> list[tuple[str, str]]:
    def mean(key: str) -> float | None:
        points = _series(run.steps, key, "").points
        return math.fsum(y for _, y in points) / len(points) if points else None

    seconds = sum(y for _, y in _series(run.steps, "time/step", "").points)
    seconds += sum(y for _, y in _series(run.warm_start, "seconds", "").points)
    seconds += sum(float(summary.get("seconds") or 0) for summary in run.summaries.values())
    planned = run.config.get("steps")
    memory = [y for _, y in _series(run.steps, "mem/trainer_rss_gb", "").points]
    shown: list[tuple[str, str | None]] = [
        ("GRPO steps", f"{len(run.steps)} of {planned}" if planned is not None else str(len(run.steps))),
        ("Warm-start steps", str(len(run.warm_start)) if run.warm_start else None),
        ("Training and evaluation", short_duration(seconds) if seconds else None),
        ("Sampling", _with_unit(mean("speed/sample_tokens_per_second"), "tokens/s")),
        ("Training", _with_unit(mean("speed/train_tokens_per_second"), "tokens/s")),
        ("Publishing an adapter", _with_unit(mean("time/publish"), "s")),
        ("Logprob gap", _with_unit(mean("gap/mean_abs"), "nats")),
        ("Peak trainer memory", _with_unit(max(memory), "GB") if memory else None),
    ]
    return [(label, value) for label, value in shown if value is not None]


def _pairs(run: Run) -> list[Pair]:
    for how, _, _ in EVALUATIONS:
        if pairs := choose_pairs(*(run.evaluated.get(label_of(when, how), []) for when in (BEFORE, AFTER))):
            return pairs
    return []


def _with_unit(value: float | None, unit: str) -> str | None:
    return None if value is None else f"{short_number(value)} {unit}"

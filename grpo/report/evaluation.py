"""The page of an evaluation, or of two: the table, scenarios that went worst, what flipped, episodes."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from markupsafe import Markup

from grpo.display.metrics import CORRECT, REWARD, TOO_FEW, counted
from grpo.episodes.record import with_transcript
from grpo.episodes.store import summary_of
from grpo.eval.compare import Evaluation, compare, load_evaluation
from grpo.eval.output import table_rows
from grpo.report.charts import Range, interval_chart
from grpo.report.episodes import MAX_EPISODES, Episodes, Source
from grpo.report.page import Page, settings
from grpo.report.transcripts import choose_pairs
from grpo.statistics import slice_order
from grpo.types import Episode


def evaluation_page(folders: Sequence[Path], *, anyway: bool = False) -> Page:
    """The page of one evaluation, or of a baseline and another.

    Raises:
        EvaluationError: A folder is no evaluation, a line is damaged, or the two did not ask the same questions.
    """
    evaluations = [load_evaluation(folder) for folder in folders]
    comparison = compare(*evaluations, anyway=anyway) if len(evaluations) == 2 else None
    summaries = [_summary(one) for one in evaluations]
    names = [comparison.a, comparison.b] if comparison else [evaluations[0].name]
    room = MAX_EPISODES // len(evaluations)
    shown = [[with_transcript(episode) for episode in one.episodes[:room]] for one in evaluations]
    last = evaluations[-1]
    split = str(last.config.get("split") or "")
    page = Page(
        kind="Evaluation" if comparison is None else "Comparison",
        name=" against ".join(one.root.absolute().name for one in reversed(evaluations)),
        title=" against ".join(reversed(names)),
        subtitle=f"on {last.config.get('env')}{f', {split} split' if split else ''}",
        conclusion=comparison.conclusion if comparison else _one_said(summaries[0], names[0]),
        tone=comparison.measures[0].difference.direction if comparison else "noise",
        episodes=Episodes(),
        warnings=_warnings(evaluations, summaries, names),
        sections={
            "summary": {
                "names": names if comparison else [],
                "rows": _table(summaries),
                "chart": _chart(summaries, names),
            },
            "worst": [] if comparison else _worst(summaries[0], shown[0]),
            "errors": [(name, entry) for name, one in zip(names, summaries, strict=True) for entry in one["errors"]],
        },
        config_rows=settings(last.config),
    )
    for place, (name, side) in enumerate(zip(names, shown, strict=True)):
        page.episodes.add(Source(name, split, None, names[0] if place else ""), side)
    page.sections["audits"] = page.episodes.audit_section()
    if comparison is not None:
        page.warnings += comparison.warnings
        page.sections["changes"] = [("paired", measure) for measure in comparison.measures]
        page.sections["mcnemar"] = comparison.mcnemar
        page.pairs = choose_pairs(*shown)
        page.pairs_note = f"the same questions, {names[0]} on the left, chosen by the change of reward"
    return page


def _summary(one: Evaluation) -> dict[str, Any]:
    planned = int(one.config.get("limit") or 0) * int(one.config.get("k") or 1)
    return summary_of(one.config, one.episodes, max(planned, len(one.episodes)), 0.0)


def _one_said(summary: Mapping[str, Any], name: str) -> str:
    metric = CORRECT if CORRECT.name in summary["metrics"] else REWARD
    value = summary["metrics"].get(metric.name)
    if value is None:
        return f"No episode of {name} has been played to an end yet."
    mean, _, interval = metric.with_interval(value).partition("  ")
    said = f"{name} is right in {mean} of" if metric is CORRECT else f"{name} has a mean reward of {mean} over"
    where = f"{counted(summary['episodes'], 'episode')} on {counted(summary['scenarios'], 'scenario')}"
    sure = f", {TOO_FEW} more" if TOO_FEW in interval else f", 95 % interval {interval}" if interval else ""
    return f"{said} {where}{sure}."


def _table(summaries: Sequence[Mapping[str, Any]]) -> list[tuple[str, list[str]]]:
    """The rows of ``grpo-eval``'s table, one column for each evaluation."""
    columns = [dict(table_rows(summary)) for summary in summaries]
    labels = dict.fromkeys(label for column in columns for label in column)
    return [(label, [column.get(label, "–") for column in columns]) for label in labels]


def _chart(summaries: Sequence[Mapping[str, Any]], names: Sequence[str]) -> Markup | str:
    """Right answers, whole and by slice, with intervals."""
    cuts = {cut for one in summaries for cut in one["slices"]}
    ranges: list[Range] = []
    for cut in ("", *sorted(cuts, key=slice_order)):
        means = [one["slices"].get(cut, {}) if cut else one["metrics"] for one in summaries]
        *first, last = (CORRECT.ends(mean.get(CORRECT.name)) for mean in means)
        ranges.append(Range(cut or "all", bool(cut), first[0] if first else None, last))
    ranges = [one for one in ranges if one.before or one.after]
    return interval_chart(ranges, (names[0] if len(names) == 2 else "", names[-1])) if ranges else ""


def _worst(summary: Mapping[str, Any], episodes: Sequence[Episode]) -> list[dict[str, Any]]:
    entries: list[dict[str, Any]] = []
    for entry in summary["worst"]:
        samples = [episode for episode in episodes if episode.task.key == entry["scenario_id"]]
        if samples and entry["correct"] < 1:
            right = sum(bool(episode.correct) for episode in samples)
            known = any(episode.correct is not None for episode in samples)
            tries = f"{right} of {len(samples)}" if known else ""
            entries.append(entry | {"episode": samples[0], "right": tries})
    return entries


def _warnings(
    evaluations: Sequence[Evaluation],
    summaries: Sequence[Mapping[str, Any]],
    names: Sequence[str],
) -> list[str]:
    lines: list[str] = []
    for one, summary, name in zip(evaluations, summaries, names, strict=True):
        missing = summary["planned"] - len(one.episodes)
        if missing > 0:
            lines.append(
                f"{name}: {missing} of {summary['planned']} episodes have not been played; --resume plays them."
            )
        if failed := summary["failed"]:
            lines.append(f"{name}: {counted(failed, 'episode')} ended in infrastructure failures, in no mean.")
        if len(one.episodes) > (room := MAX_EPISODES // len(evaluations)):
            lines.append(f"{name}: of {len(one.episodes):,} episodes the first {room:,} are on this page.")
    return lines

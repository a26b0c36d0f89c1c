"""The closing table of an evaluation, as (name, value) rows, and the lines below it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from grpo.evaluate import slice_order
from grpo.metrics import counted, short_duration

_SHARES = (
    ("correct", "Correct"),
    ("no_answer", "No answer"),
    ("dont_know", '"I don\'t know"'),
    ("implicit", "Answer in prose"),
    ("source_precision", "Source precision"),
    ("source_recall", "Source recall"),
)
_NUMBERS = (
    ("reward", "Reward", 3),
    ("turns", "Turns", 2),
    ("tool_calls", "Tool calls", 2),
    ("invalid_calls", "Invalid calls", 2),
    ("model_calls", "Model calls", 2),
    ("prompt_tokens", "Prompt tokens", 0),
    ("completion_tokens", "Completion tokens", 0),
)
_ONLY_WITH_A_MODEL = ("model_calls", "prompt_tokens", "completion_tokens")


def table_rows(summary: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Rows of the table; what an env does not measure has no row."""
    metrics = summary["metrics"]
    failed = summary["infrastructure"]
    rows = [("Episodes", f"{summary['episodes']} of {summary['planned']}, {counted(summary['scenarios'], 'scenario')}")]
    rows += [(label, _with_interval(metrics[name], percent=True)) for name, label in _SHARES if name in metrics]
    k = len(summary["pass_at_k"])
    if k > 1:
        rows.append((f"pass@{k}", f"{100 * summary['pass_at_k'][str(k)]:.1f} %"))
        rows.append((f"pass^{k}", f"{100 * summary['pass_hat_k'][str(k)]:.1f} %"))
    if split := summary["refusal"]:
        rows.append(
            (f"Refusals right ({split['episodes']} unanswerable)", _with_interval(split["correct"], percent=True))
        )
        rows.append(("Hallucination rate", _with_interval(split["hallucination_rate"], percent=True)))
        if split["false_refusal_rate"]:
            rows.append(("False refusal rate", _with_interval(split["false_refusal_rate"], percent=True)))
    for name, label, decimals in _NUMBERS:
        used = name in metrics and not (name in _ONLY_WITH_A_MODEL and metrics["model_calls"]["mean"] == 0)
        if used:
            rows.append((label, _with_interval(metrics[name], decimals=decimals)))
    if "turns" not in metrics and "steps" in metrics:
        rows.append(("Steps", _with_interval(metrics["steps"], decimals=2)))
    if judge := summary["answer_judge"]:
        asked = f"{judge['verdicts']} answers ({judge['by_model']} by {judge['model']}), {judge['accepted']} accepted"
        rows.append(("Answer judge", asked))
    if summary["cost"] is not None:
        rows.append(("Cost", f"${summary['cost']:.4f}"))
    if summary["latency"]:
        rows.append(("Latency p50 / p95", " / ".join(_seconds(summary["latency"][name]) for name in ("p50", "p95"))))
    rows.append(("Ended", ", ".join(f"{name} {count}" for name, count in summary["endings"].items())))
    if summary["error_codes"]:
        codes = sorted(summary["error_codes"].items(), key=lambda item: -item[1])
        rows.append(("Invalid calls by kind", ", ".join(f"{name} {count}" for name, count in codes)))
    for name in sorted(summary["slices"], key=slice_order):
        means = summary["slices"][name]
        if mark := means.get("correct") or means.get("success"):
            rows.append((f"Correct, {name}", _with_interval(mark, percent=True)))
    if failed:
        rows.append(("Infrastructure failures", f"{failed}, in no mean; --resume plays them again"))
    return rows


def closing_lines(summary: Mapping[str, Any]) -> list[str]:
    """What went wrong most often, and the scenarios that went worst."""
    lines = [f"{entry['count']} x {entry['ending']}: {entry['error']}" for entry in summary["errors"][:5]]
    worst = [entry for entry in summary["worst"] if entry["correct"] < 1]
    if worst:
        lines.append("Worst: " + ", ".join(f"{entry['scenario_id']} ({entry['reward']:.2f})" for entry in worst))
    return lines


def _with_interval(value: Mapping[str, float | None], *, percent: bool = False, decimals: int = 1) -> str:
    scale, unit = (100, " %") if percent else (1, "")
    mean, low, high = (None if value[name] is None else value[name] * scale for name in ("mean", "low", "high"))  # type: ignore[operator]
    if mean is None:
        return "–"
    shown = f"{mean:,.{decimals}f}{unit}"
    if low is None or high is None:
        return shown
    if percent:
        low, high = max(0.0, low), min(100.0, high)
    return f"{shown}  [{low:,.{decimals}f}, {high:,.{decimals}f}]"


def _seconds(value: float) -> str:
    return f"{1000 * value:.1f} ms" if value < 1 else short_duration(value)

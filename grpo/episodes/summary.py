"""What an evaluation says: every rate with its interval, every way to end counted, nothing dropped.

A crash, a timeout, a full context and a missing answer count as not correct, and are shown apart as well: where failed
episodes are left out of the mean, as is common, an agent that crashes on hard questions looks good. Only failures of
the env or of a model's server say nothing about the agent: they are in no mean, their number is part of the summary,
and they make the exit status 3.

Intervals are clustered by scenario. pass@k is the chance that one of k tries is right, pass^k that all are, both
estimated without bias from n samples (Chen et al., arXiv:2107.03374, equation 1; Yao et al., arXiv:2406.12045,
section 3).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from math import comb
from statistics import fmean
from typing import Any

from grpo.episodes.ending import Ending
from grpo.episodes.record import Row, key_of
from grpo.statistics import column_means, observed_interval, slice_means

WORST = 5
"""How many scenarios are named as the worst."""

Means = dict[str, dict[str, float | None]]


def summarise_results(config: Mapping[str, Any], rows: Sequence[Row], planned: int, seconds: float) -> dict[str, Any]:
    """The statistics of an evaluation's results.

    Args:
        config: The evaluation's config; its agent, env, split and seed are repeated here.
        rows: Results, one an episode.
        planned: Episodes that were asked for.
        seconds: Wall-clock time of this process's part.
    """
    counted = [row for row in rows if row["ending"] != Ending.INFRASTRUCTURE]
    endings = Counter(str(row["ending"]) for row in rows)
    return {
        **{name: config.get(name) for name in ("agent", "model", "env", "split", "seed", "k")},
        "label": config.get("agent"),
        "planned": planned,
        "episodes": len(counted),
        "infrastructure": len(rows) - len(counted),
        "scenarios": len({row["scenario_id"] for row in counted}),
        "endings": {ending.value: endings[ending.value] for ending in Ending if endings[ending.value]},
        "errors": _errors(rows),
        "error_codes": dict(sum((Counter(row["error_codes"]) for row in counted), Counter())),
        "seconds": round(seconds, 3),
        "episodes_per_second": round(len(rows) / seconds, 2) if seconds > 0 else None,
        "metrics": _metrics(counted),
        "slices": slice_means([_judged_metrics(row) for row in counted], _names(counted), _rewards(counted)),
        **_of_samples(counted),
        "refusal": refusal(counted),
        "latency": _latency(counted),
        "tokens": {
            "prompt": sum(row["prompt_tokens"] for row in rows),
            "completion": sum(row["completion_tokens"] for row in rows),
        },
        "cost": _total([row["cost"] for row in rows]),
        "answer_judge": _answer_judge(config, counted),
        "worst": _worst(counted),
    }


def pass_at_k(n: int, right: int, k: int) -> float:
    """Chance that at least one of ``k`` tries, drawn from ``n`` of which ``right`` were right, is right."""
    return 1.0 - comb(n - right, k) / comb(n, k)


def pass_hat_k(n: int, right: int, k: int) -> float:
    """Chance that all of ``k`` such tries are right."""
    return comb(right, k) / comb(n, k)


def refusal(rows: Sequence[Row]) -> dict[str, Any] | None:
    """How the agent treats questions that cannot be answered; None where the env does not say which those are.

    ``hallucination_rate``: of the questions without an answer, the share that got one that is not "I don't know".
    ``false_refusal_rate``: of those with an answer, the share that got "I don't know".
    """
    known = [row for row in rows if {"answerable", "answered", "dont_know"} <= row["metrics"].keys()]
    without = [row for row in known if not row["metrics"]["answerable"]]
    if not without:
        return None
    answered = [row for row in known if row["metrics"]["answerable"]]
    made_up = [float(row["metrics"]["answered"] > 0 and row["metrics"]["dont_know"] == 0) for row in without]
    given_up = [row["metrics"]["dont_know"] for row in answered]
    return {
        "episodes": len(without),
        "correct": _interval([float(row["correct"] or 0) for row in without], without),
        "hallucination_rate": _interval(made_up, without),
        "false_refusal_rate": _interval(given_up, answered) if answered else None,
    }


def _judged_metrics(row: Row) -> dict[str, float]:
    """The env's metrics, and whether the answer counts as correct, on which an answer judge may have decided."""
    return row["metrics"] if row["correct"] is None else row["metrics"] | {"correct": float(row["correct"])}


def _answer_judge(config: Mapping[str, Any], rows: Sequence[Row]) -> dict[str, Any] | None:
    """How many answers that the env did not take for right were judged; None where there is no judge."""
    if not (model := config["answer_judge"]["model"]):
        return None
    verdicts = [row["verdict"] for row in rows if row.get("verdict")]
    asked = sum(verdict["decided_by"] == "judge" for verdict in verdicts)
    audits = [row["audit"] for row in rows if row.get("audit")]
    return {
        "model": model,
        "verdicts": len(verdicts),
        "by_model": asked,
        "accepted": sum(verdict["accept"] for verdict in verdicts),
        "audited": len(audits),
        "refused": sum(not audit["accept"] for audit in audits),
    }


def _metrics(rows: Sequence[Row]) -> Means:
    if not rows:
        return {}
    means = column_means([row["metrics"] for row in rows], _names(rows), _rewards(rows))
    judged = [row for row in rows if row["correct"] is not None]
    own: dict[str, Callable[[Row], float]] = {
        "steps": lambda row: row["steps"],
        "no_answer": lambda row: row["ending"] not in (Ending.ANSWERED,),
        "implicit": lambda row: row["implicit"],
        "model_calls": lambda row: row["model_calls"],
        "prompt_tokens": lambda row: row["prompt_tokens"],
        "completion_tokens": lambda row: row["completion_tokens"],
        "seconds": lambda row: row["seconds"],
    }
    correct = {"correct": _interval([float(row["correct"]) for row in judged], judged)} if judged else {}
    return (
        correct
        | means
        | {name: _interval([float(value(row)) for row in rows], rows, name) for name, value in own.items()}
    )


def _of_samples(rows: Sequence[Row]) -> dict[str, Any]:
    by_scenario: dict[str, list[bool]] = {}
    for row in rows:
        if row["correct"] is not None:
            by_scenario.setdefault(row["scenario_id"], []).append(row["correct"])
    if not by_scenario:
        return {"pass_at_k": {}, "pass_hat_k": {}}
    most = min(map(len, by_scenario.values()))  # every scenario must have had k tries
    counts = [(len(tries), sum(tries)) for tries in by_scenario.values()]
    return {
        "pass_at_k": {str(k): fmean(pass_at_k(n, right, k) for n, right in counts) for k in range(1, most + 1)},
        "pass_hat_k": {str(k): fmean(pass_hat_k(n, right, k) for n, right in counts) for k in range(1, most + 1)},
    }


def _errors(rows: Sequence[Row]) -> list[dict[str, Any]]:
    """The most frequent error texts of each ending, and the first episode of each."""
    counts = Counter((str(row["ending"]), row["error"]) for row in rows if row["error"])
    first = {(str(row["ending"]), row["error"]): str(key_of(row)) for row in reversed(rows)}
    return [
        {"ending": kind[0], "error": kind[1], "count": count, "first": first[kind]}
        for kind, count in counts.most_common(10)
    ]


def _worst(rows: Sequence[Row]) -> list[dict[str, Any]]:
    by_scenario: dict[str, list[Row]] = {}
    for row in rows:
        by_scenario.setdefault(row["scenario_id"], []).append(row)
    entries = [
        {
            "scenario_id": name,
            "correct": fmean(float(row["correct"] or 0) for row in tries),
            "reward": fmean(row["reward"] for row in tries),
        }
        for name, tries in by_scenario.items()
    ]
    if len({(entry["correct"], entry["reward"]) for entry in entries}) == 1:
        return []  # none is worse than another
    return sorted(entries, key=lambda entry: (entry["correct"], entry["reward"], entry["scenario_id"]))[:WORST]


def _latency(rows: Sequence[Row]) -> dict[str, float] | None:
    if not rows:
        return None
    import numpy as np

    seconds = [row["seconds"] for row in rows]
    p50, p95 = np.quantile(seconds, (0.50, 0.95), method="inverted_cdf").tolist()  # nearest rank
    return {"p50": p50, "p95": p95}


def _interval(values: Sequence[float], rows: Sequence[Row], name: str = "correct") -> dict[str, float | None]:
    return observed_interval(name, values, _names(rows)).to_dict()


def _names(rows: Sequence[Row]) -> list[str]:
    return [row["scenario_id"] for row in rows]


def _rewards(rows: Sequence[Row]) -> list[float]:
    return [row["reward"] for row in rows]


def _total(values: Sequence[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return sum(known) if known else None

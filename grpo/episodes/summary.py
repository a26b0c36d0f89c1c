"""What episodes come to: every mean with its interval, every way to end counted, nothing dropped.

A held-out evaluation of a run and ``grpo-eval`` have the same summary, and its means have the names of a step's in
``metrics.jsonl``. A crash, a timeout, a full context and a missing answer count as not correct, and are shown apart as
well: where failed episodes are left out of the mean, as is common, an agent that crashes on hard questions looks good.
Only failures of the env, of a model's server or of a judge say nothing about the agent: they are in no mean, and their
number is part of the summary.

Intervals are clustered by scenario. pass@k is the chance that one of k tries is right, pass^k that all are, both
estimated without bias from n samples (Chen et al., arXiv:2107.03374, equation 1; Yao et al., arXiv:2406.12045,
section 3).
"""

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from math import comb
from statistics import fmean
from typing import Any

from grpo.ending import Ending
from grpo.episodes.marking import METRICS
from grpo.statistics import column_means, observed_interval, slice_means
from grpo.types import Episode

TOLD = 3
"""How many kinds of failure are told."""
WORST = 5
"""How many scenarios are named as the worst."""

_OF_JUDGES = {"independent_reward": "reward/env", "ruler_score": "judge/score"} | {
    name: name.replace("answer_", "answer/") for name in METRICS
}
"""What judges and marking add to an episode's metrics, by the name of its mean."""


def columns_of(episode: Episode) -> dict[str, float]:
    """The numbers of an episode that counts, by the names of their means in ``metrics.jsonl``."""
    e = episode
    columns = {"reward/mean": e.reward}
    if e.correct is not None:
        columns["answer/correct"] = float(e.correct)
    columns |= {_OF_JUDGES.get(name, f"env/{name}"): value for name, value in e.metrics.items()}
    return columns | {
        "answer/none": float(e.ending is not Ending.ANSWERED),
        "answer/implicit": float(e.implicit),
        "turns/mean": float(e.num_turns),
        "turns/cut_share": e.cut_turns / max(1, e.num_turns),
        "episodes/context_full_share": float(e.ending is Ending.CONTEXT_FULL),
        "tokens/calls_mean": float(len(e.calls)),
        "tokens/prompt_mean": float(e.num_prompt_tokens),
        "tokens/completion_mean": float(e.num_sampled_tokens),
        "time/episode": e.seconds,
    }


def step_means(episodes: Sequence[Episode]) -> dict[str, float]:
    """What a step logs of its episodes: the mean of every column that some of them have, without intervals."""
    values: dict[str, list[float]] = defaultdict(list)
    for episode in episodes:
        for name, value in columns_of(episode).items():
            values[name].append(value)
    return {name: fmean(column) for name, column in values.items()}


def summarise(episodes: Sequence[Episode], seconds: float, **about: Any) -> dict[str, Any]:
    """The statistics of episodes.

    Args:
        episodes: With or without transcripts.
        seconds: Wall-clock time that this process has played.
        **about: What else a reader of the summary wants to know, put first: what was played, and by whom.
    """
    counted = [episode for episode in episodes if episode.ending.counted]
    endings = Counter(episode.ending for episode in episodes)
    rows = [(episode.task.key, columns_of(episode)) for episode in counted]
    tokens = {
        "prompt": sum(episode.num_prompt_tokens for episode in episodes),
        "completion": sum(episode.num_sampled_tokens for episode in episodes),
    }
    return {
        **about,
        "episodes": len(counted),
        "failed": len(episodes) - len(counted),
        "scenarios": len({episode.task.key for episode in counted}),
        "answers": sum(episode.answer is not None for episode in episodes),
        "endings": {ending.value: endings[ending] for ending in Ending if endings[ending]},
        "errors": _errors(episodes),
        "error_codes": dict(Counter(code for episode in counted for code in episode.turn_errors if code)),
        "seconds": round(seconds, 3),
        "episodes_per_second": round(len(episodes) / seconds, 2) if seconds > 0 else None,
        "sampled_tokens_per_second": round(tokens["completion"] / seconds, 1) if seconds > 0 else None,
        "metrics": column_means(rows),
        "slices": slice_means(rows),
        **_of_samples(counted),
        "refusal": refusal(counted),
        "latency": _latency(counted),
        "tokens": tokens,
        "cost": _total([episode.cost for episode in episodes]),
        "answer_judge": _answer_judge(counted),
        "worst": _worst(counted),
    }


def pass_at_k(n: int, right: int, k: int) -> float:
    """Chance that at least one of ``k`` tries, drawn from ``n`` of which ``right`` were right, is right."""
    return 1.0 - comb(n - right, k) / comb(n, k)


def pass_hat_k(n: int, right: int, k: int) -> float:
    """Chance that all of ``k`` such tries are right."""
    return comb(right, k) / comb(n, k)


def refusal(episodes: Sequence[Episode]) -> dict[str, Any] | None:
    """How the agent treats questions that cannot be answered; None where the env does not say which those are.

    ``hallucination_rate``: of the questions without an answer, the share that got one that is not "I don't know".
    ``false_refusal_rate``: of those with an answer, the share that got "I don't know".
    """
    known = [episode for episode in episodes if {"answerable", "answered", "dont_know"} <= episode.metrics.keys()]
    without = [episode for episode in known if not episode.metrics["answerable"]]
    if not without:
        return None
    answered = [episode for episode in known if episode.metrics["answerable"]]
    made_up = [float(e.metrics["answered"] > 0 and e.metrics["dont_know"] == 0) for e in without]
    given_up = [episode.metrics["dont_know"] for episode in answered]
    return {
        "episodes": len(without),
        "correct": _interval([float(episode.correct or 0) for episode in without], without),
        "hallucination_rate": _interval(made_up, without),
        "false_refusal_rate": _interval(given_up, answered) if answered else None,
    }


def _answer_judge(episodes: Sequence[Episode]) -> dict[str, Any] | None:
    """How many answers that the env did not take for right were judged; None where none was."""
    verdicts = [episode.verdict for episode in episodes if episode.verdict]
    audits = [episode.audit for episode in episodes if episode.audit]
    if not verdicts and not audits:
        return None
    return {
        "verdicts": len(verdicts),
        "by_model": sum(verdict["decided_by"] == "judge" for verdict in verdicts),
        "accepted": sum(verdict["accept"] for verdict in verdicts),
        "audited": len(audits),
        "refused": sum(not audit["accept"] for audit in audits),
    }


def _of_samples(episodes: Sequence[Episode]) -> dict[str, Any]:
    by_scenario: dict[str, list[bool]] = defaultdict(list)
    for episode in episodes:
        if episode.correct is not None:
            by_scenario[episode.task.key].append(episode.correct)
    if not by_scenario:
        return {"pass_at_k": {}, "pass_hat_k": {}}
    most = min(map(len, by_scenario.values()))  # every scenario must have had k tries
    counts = [(len(tries), sum(tries)) for tries in by_scenario.values()]
    return {
        "pass_at_k": {str(k): fmean(pass_at_k(n, right, k) for n, right in counts) for k in range(1, most + 1)},
        "pass_hat_k": {str(k): fmean(pass_hat_k(n, right, k) for n, right in counts) for k in range(1, most + 1)},
    }


def _errors(episodes: Sequence[Episode]) -> list[dict[str, Any]]:
    """The most frequent error texts of each ending, and the first episode of each."""
    counts = Counter((episode.ending.value, episode.error) for episode in episodes if episode.error)
    first = {(e.ending.value, e.error): f"{e.task.key}#{e.sample_index}" for e in reversed(episodes)}
    return [
        {"ending": kind[0], "error": kind[1], "count": count, "first": first[kind]}
        for kind, count in counts.most_common(10)
    ]


def failures(episodes: Sequence[Episode]) -> list[str]:
    """What went wrong in episodes, in a line for each of the most frequent kinds; a full context is no failure."""
    return list(map(told, _errors([e for e in episodes if e.ending is not Ending.CONTEXT_FULL])[:TOLD]))


def told(error: Mapping[str, Any]) -> str:
    """One of a summary's ``errors``, in a line."""
    first = "first " if error["count"] > 1 else ""
    return f"{error['count']} x {error['ending']}: {error['error']} [{first}{error['first']}]"


def _worst(episodes: Sequence[Episode]) -> list[dict[str, Any]]:
    by_scenario: dict[str, list[Episode]] = defaultdict(list)
    for episode in episodes:
        by_scenario[episode.task.key].append(episode)
    entries = [
        {
            "scenario_id": name,
            "correct": fmean(float(episode.correct or 0) for episode in tries),
            "reward": fmean(episode.reward for episode in tries),
        }
        for name, tries in by_scenario.items()
    ]
    if len({(entry["correct"], entry["reward"]) for entry in entries}) == 1:
        return []  # none is worse than another
    return sorted(entries, key=lambda entry: (entry["correct"], entry["reward"], entry["scenario_id"]))[:WORST]


def _latency(episodes: Sequence[Episode]) -> dict[str, float] | None:
    if not episodes:
        return None
    import numpy as np

    seconds = [episode.seconds for episode in episodes]
    p50, p95 = np.quantile(seconds, (0.50, 0.95), method="inverted_cdf").tolist()  # nearest rank
    return {"p50": p50, "p95": p95}


def _interval(values: Sequence[float], episodes: Sequence[Episode]) -> dict[str, float | None]:
    return observed_interval("answer/correct", values, [episode.task.key for episode in episodes]).to_dict()


def _total(values: Sequence[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return sum(known) if known else None

"""Two evaluations of the same questions: which agent is better, by how much, and which episodes say so.

Scenarios are paired, not samples: the samples of a scenario are averaged on each side first. ``-k`` may therefore
differ, each scenario counts once, and differences between easy and hard questions drop out. The interval is a bootstrap
over scenarios, not the t interval of the other tables: differences of right and wrong are -1, 0 and 1, mostly 0, and
with few scenarios far from normal. The interval is the number to report; McNemar's exact test stands beside it, and
takes a scenario for right where more than half of its samples are.

Episodes flip one by one: the same scenario and sample on both sides. Infrastructure failures are no observations.
Evaluations of another database or of other questions are not compared unless the caller insists.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from statistics import fmean
from typing import Any

from grpo.chat.transcript import opening_of
from grpo.config import dotted
from grpo.display.metrics import CORRECT, REWARD, ShownMetric, counted
from grpo.episodes.record import with_transcript
from grpo.episodes.store import FILE_NAME, read_config, read_results
from grpo.errors import EvaluationError
from grpo.statistics import MIN_CLUSTERS, Interval, bootstrap_interval, mcnemar_p
from grpo.types import Episode

SAME = ("env", "env_kwargs", "split", "fingerprint", "answer_judge.model")
"""Settings that must be equal for two evaluations to ask the same questions of the same data."""

BOOTSTRAP_SEED = 0

_ADDRESS = re.compile(r"@https?://\S+")


@dataclass(frozen=True, slots=True)
class Evaluation:
    """A folder that ``grpo-eval`` wrote: its config and its episodes, without transcripts."""

    root: Path
    config: dict[str, Any]
    episodes: list[Episode]

    @property
    def name(self) -> str:
        """The agent, with its model where it was given one, without the addresses of servers."""
        agent, model = (_ADDRESS.sub("", str(self.config.get(name) or "")) for name in ("agent", "model"))
        return f"{agent} ({model})" if model else agent

    def whole(self, episode: Episode) -> Episode:
        """An episode with its transcript.

        Raises:
            EvaluationError: Its line is gone or damaged.
        """
        try:
            return with_transcript(episode)
        except ValueError as error:
            raise EvaluationError(str(error)) from error


@dataclass(frozen=True, slots=True)
class Measure:
    """One number on both sides: means over the scenarios they share, and the paired difference B - A."""

    a: float
    b: float
    difference: Interval

    def to_dict(self) -> dict[str, Any]:
        """For JSON."""
        return {"a": self.a, "b": self.b, "difference": self.difference.to_dict()}


@dataclass(frozen=True, slots=True)
class Flip:
    """An episode that is right on one side alone."""

    key: tuple[str, int]
    gained: bool
    reward_change: float
    question: str
    a_answer: str | None
    b_answer: str | None

    def to_dict(self) -> dict[str, Any]:
        """For JSON."""
        return {
            "scenario_id": self.key[0],
            "sample": self.key[1],
            "change": "gained" if self.gained else "lost",
            "reward_change": self.reward_change,
            "question": self.question,
            "a_answer": self.a_answer,
            "b_answer": self.b_answer,
        }


@dataclass(frozen=True, slots=True)
class Comparison:
    """What ``compare`` found.

    Attributes:
        a: Name of the first agent, the baseline.
        b: Name of the second.
        scenarios: How many both have.
        unpaired_a: Scenarios that only the first has a result of.
        unpaired_b: Scenarios that only the second has a result of.
        differences: Settings in which they differ though they should not, as texts; only where that was allowed.
        correct: Share of right answers; None where the env does not say what is right.
        reward: The env's reward.
        gained: Scenarios right in B alone, by majority of their samples.
        lost: Scenarios right in A alone.
        flips: Episodes that flipped, what B gained most first, what it lost most last.
    """

    a: str
    b: str
    scenarios: int
    unpaired_a: list[str]
    unpaired_b: list[str]
    differences: list[str]
    correct: Measure | None
    reward: Measure
    gained: int
    lost: int
    flips: list[Flip] = field(default_factory=list)

    @property
    def p_value(self) -> float | None:
        """McNemar's, exact and two-sided."""
        return None if self.correct is None else mcnemar_p(self.gained, self.lost)

    @property
    def measures(self) -> list[tuple[ShownMetric, Measure]]:
        """What was measured, the most telling first: right answers where the env says what is right, and reward."""
        return [*([(CORRECT, self.correct)] if self.correct else []), (REWARD, self.reward)]

    @property
    def conclusion(self) -> str:
        """One sentence: who is better, or that the data cannot tell."""
        metric, measure = self.measures[0]
        name = "correct answers" if metric is CORRECT else "reward"
        if not measure.difference.is_known:
            return f"Too few scenarios to say which is better: {self.scenarios}; give at least {MIN_CLUSTERS}."
        if not measure.difference.excludes(0.0):
            return f"No difference in {name} beyond noise, over {counted(self.scenarios, 'scenario')}."
        better = "B" if measure.difference.mean > 0 else "A"
        return f"{better} is better: the interval of the difference in {name} leaves out zero."

    def to_dict(self) -> dict[str, Any]:
        """For JSON."""
        return {
            "a": self.a,
            "b": self.b,
            "scenarios": self.scenarios,
            "unpaired": {"a": self.unpaired_a, "b": self.unpaired_b},
            "differences": self.differences,
            "correct": self.correct and self.correct.to_dict(),
            "reward": self.reward.to_dict(),
            "mcnemar": None if self.correct is None else {"gained": self.gained, "lost": self.lost, "p": self.p_value},
            "verdict": self.conclusion,
            "flips": [flip.to_dict() for flip in self.flips],
        }


def load_evaluation(path: Path) -> Evaluation:
    """Read an evaluation.

    Args:
        path: Its folder, or the ``results.jsonl`` in it.

    Raises:
        EvaluationError: That is no evaluation, or a file in it cannot be read.
    """
    root = path.parent if path.name == FILE_NAME else path
    config = read_config(root)
    episodes = read_results(root)
    if "agent" not in config or not episodes:
        raise EvaluationError(f"{root} holds no finished episode of an evaluation; name a folder that grpo-eval wrote")
    return Evaluation(root, config, episodes)


def compare(a: Evaluation, b: Evaluation, *, anyway: bool = False) -> Comparison:
    """Compare ``b`` with the baseline ``a``.

    Args:
        a: The baseline.
        b: The other.
        anyway: Compare even where database, split, questions or env differ.

    Raises:
        EvaluationError: They differ in one of those, or have no scenario in common.
    """
    differences = _differences(a.config, b.config)
    if differences and not anyway:
        shown = "\n".join(f"  {line}" for line in differences)
        raise EvaluationError(
            f"{a.root} and {b.root} did not ask the same questions of the same data:\n{shown}\n"
            "A difference between them is not the agents' alone; --anyway compares the scenarios of the same name"
        )
    sides = [_by_scenario(one.episodes) for one in (a, b)]
    for one, side in zip((a, b), sides, strict=True):
        if not side:
            raise EvaluationError(
                f"all episodes in {one.root} ended in infrastructure failures; grpo-eval --resume plays them again"
            )
    shared = sorted(sides[0].keys() & sides[1].keys())
    if not shared:
        raise EvaluationError(f"{a.root} and {b.root} have no scenario in common; evaluate with the same --seed")
    pairs = [(sides[0][name], sides[1][name]) for name in shared]
    judged = [pair for pair in pairs if all(episode.correct is not None for side in pair for episode in side)]
    majorities = [tuple(_mean(side, "correct") > 0.5 for side in pair) for pair in judged]
    return Comparison(
        a.name,
        b.name,
        len(shared),
        sorted(sides[0].keys() - sides[1].keys()),
        sorted(sides[1].keys() - sides[0].keys()),
        differences,
        _measure(judged, "correct") if judged else None,
        _measure(pairs, "reward"),
        majorities.count((False, True)),
        majorities.count((True, False)),
        _flips(a, b),
    )


def _differences(a: Mapping[str, Any], b: Mapping[str, Any]) -> list[str]:
    lines: list[str] = []
    for name in SAME:
        one, other = dotted(a).get(name), dotted(b).get(name)
        if isinstance(one, dict) and isinstance(other, dict):
            lines += [
                f"{name}.{key}: {_shown(one.get(key))} in A, {_shown(other.get(key))} in B"
                for key in {**one, **other}
                if one.get(key) != other.get(key)
            ]
        elif one != other:
            lines.append(f"{name}: {_shown(one)} in A, {_shown(other)} in B")
    return lines


def _shown(value: Any) -> str:
    text = json.dumps(value)
    return text if len(text) <= 24 else f"{text[:20]}..."


def _by_scenario(episodes: Sequence[Episode]) -> dict[str, list[Episode]]:
    found: dict[str, list[Episode]] = {}
    for episode in episodes:
        if episode.ending.counted:
            found.setdefault(episode.task.key, []).append(episode)
    return found


def _mean(episodes: Sequence[Episode], name: str) -> float:
    return fmean(float(getattr(episode, name)) for episode in episodes)


def _measure(pairs: Sequence[tuple[list[Episode], list[Episode]]], name: str) -> Measure:
    before, after = ([_mean(pair[side], name) for pair in pairs] for side in (0, 1))
    difference = [y - x for x, y in zip(before, after, strict=True)]
    return Measure(fmean(before), fmean(after), bootstrap_interval(difference, seed=BOOTSTRAP_SEED))


def _flips(a: Evaluation, b: Evaluation) -> list[Flip]:
    earlier = {episode.key: episode for episode in a.episodes}
    pairs = [(earlier[episode.key], episode) for episode in b.episodes if episode.key in earlier]
    flips = [
        Flip(
            y.key,
            y.correct,
            y.reward - x.reward,
            opening_of(b.whole(y).messages)[1],
            x.answer and x.answer.text,
            y.answer and y.answer.text,
        )
        for x, y in pairs
        if x.correct is not None and y.correct is not None and x.correct != y.correct
    ]
    return sorted(flips, key=lambda flip: (not flip.gained, -flip.reward_change, flip.key))

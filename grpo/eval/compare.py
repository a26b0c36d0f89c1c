"""Two evaluations of the same questions: which agent is better, by how much, and which episodes say so.

Scenarios are paired, not samples: the samples of a scenario are averaged on each side first. ``-k`` may therefore
differ, each scenario counts once, and differences between easy and hard questions drop out. A run's evaluations before
and after are compared so, too. The interval is the number to report; McNemar's exact test stands beside it, and takes a
scenario for right where more than half of its samples are.

Episodes flip one by one: the same scenario and sample on both sides. Infrastructure failures are no observations.
Evaluations of another database or of other questions are not compared unless the caller insists.
"""

import json
import re
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import fmean
from typing import Any, Literal

from grpo.chat.transcript import opening_of
from grpo.config import dotted
from grpo.display.metrics import CORRECT, REWARD, ShownMetric, counted
from grpo.episodes.record import with_transcript
from grpo.episodes.store import FILE_NAME, read_config, read_results
from grpo.episodes.summary import columns_of
from grpo.errors import EvaluationError
from grpo.statistics import Interval, mcnemar_p, paired_interval
from grpo.types import Episode

SAME = ("env", "env_kwargs", "split", "fingerprint", "answer_judge.model")
"""Settings that must be equal for two evaluations to ask the same questions of the same data."""

SHOWN_SCENARIOS = 5
"""How many scenarios are named of those that one side alone has."""

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


@dataclass(frozen=True, slots=True)
class Measure:
    """One metric on both sides: means over the scenarios that they share, and the paired difference B - A."""

    metric: ShownMetric
    a: float
    b: float
    difference: Interval

    @property
    def tone(self) -> str:
        """The difference's direction, but ``up`` is for the better; ``noise`` where neither way is better."""
        if self.metric.gain >= 0:
            return self.difference.direction if self.metric.gain else "noise"
        return {"up": "down", "down": "up", "noise": "noise"}[self.difference.direction]

    @property
    def said(self) -> str:
        """``difference +0.400, 95 % interval [-0.280, +1.000], paired over 5 scenarios``."""
        difference, ends = self.metric.format_difference(self.difference.mean), self.metric.format_ends(self.difference)
        scenarios = counted(self.difference.n, "scenario")
        return f"difference {difference}, 95 % interval {ends}, paired over {scenarios}"

    def to_dict(self) -> dict[str, Any]:
        """For JSON."""
        return {"a": self.a, "b": self.b, "difference": self.difference.to_dict()}


def by_scenario(metric: ShownMetric, episodes: Iterable[Episode]) -> dict[str, float]:
    """A metric's mean over the samples of each scenario."""
    values: dict[str, list[float]] = defaultdict(list)
    for episode in episodes:
        if episode.ending.counted and (value := columns_of(episode).get(metric.name)) is not None:
            values[episode.task.key].append(value)
    return {name: fmean(samples) for name, samples in values.items()}


def paired(metric: ShownMetric, a: Mapping[str, float], b: Mapping[str, float]) -> Measure | None:
    """A metric over the scenarios that both sides have; None where there is none."""
    shared = sorted(a.keys() & b.keys())
    if not shared:
        return None
    before, after = ([side[name] for name in shared] for side in (a, b))
    return Measure(metric, fmean(before), fmean(after), paired_interval(before, after))


@dataclass(frozen=True, slots=True)
class Flip:
    """An episode that is right on one side alone."""

    scenario_id: str
    sample: int
    change: Literal["gained", "lost"]
    reward_change: float
    question: str
    a_answer: str | None
    b_answer: str | None

    @property
    def key(self) -> tuple[str, int]:
        """Of the episodes."""
        return self.scenario_id, self.sample


@dataclass(frozen=True, slots=True)
class Comparison:
    """What ``compare`` found.

    Attributes:
        a: Name of the first agent, the baseline; of its folder, where both have the same.
        b: Name of the second.
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
    unpaired_a: list[str]
    unpaired_b: list[str]
    differences: list[str]
    correct: Measure | None
    reward: Measure
    gained: int
    lost: int
    flips: list[Flip]

    @property
    def p_value(self) -> float | None:
        """McNemar's, exact and two-sided."""
        return None if self.correct is None else mcnemar_p(self.gained, self.lost)

    @property
    def measures(self) -> list[Measure]:
        """What was measured, the most telling first: right answers where the env says what is right, and reward."""
        return [*([self.correct] if self.correct else []), self.reward]

    @property
    def conclusion(self) -> str:
        """One sentence: who is better, or that the data cannot tell."""
        measure = self.measures[0]
        metric, direction = measure.metric, measure.difference.direction
        what = "success" if metric is CORRECT else "reward"
        said = {
            "up": f"{self.b} has more {what} than {self.a}",
            "down": f"{self.b} has less {what} than {self.a}",
            "noise": f"{self.b} and {self.a} do not differ in {what} beyond noise",
        }[direction]
        if not measure.difference.is_known:
            said = f"Too few scenarios to say whether {self.b} or {self.a} has more {what}"
        return f"{said}: {metric.format(measure.a)} → {metric.format(measure.b)}, {measure.said}."

    @property
    def mcnemar(self) -> str:
        """McNemar's test in words; "" where the env does not say what is right."""
        if self.p_value is None:
            return ""
        return (
            f"{counted(self.gained, 'scenario')} right with {self.b} alone, {self.lost} with {self.a} alone; "
            f"McNemar's exact test: p = {self.p_value:.3g}"
        )

    @property
    def warnings(self) -> list[str]:
        """Where they did not ask the same, and what is in no difference."""
        lines = [f"The two did not ask the same: {difference}." for difference in self.differences]
        for name, unpaired in ((self.a, self.unpaired_a), (self.b, self.unpaired_b)):
            if unpaired:
                first = ", ".join(unpaired[:SHOWN_SCENARIOS]) + (", ..." if len(unpaired) > SHOWN_SCENARIOS else "")
                left_out = f"{counted(len(unpaired), 'scenario')} of {name} alone"
                lines.append(f"Left out of the comparison: {left_out} ({first}).")
        return lines

    def to_dict(self) -> dict[str, Any]:
        """For JSON."""
        return {
            "a": self.a,
            "b": self.b,
            "scenarios": self.reward.difference.n,
            "unpaired": {"a": self.unpaired_a, "b": self.unpaired_b},
            "differences": self.differences,
            "correct": self.correct and self.correct.to_dict(),
            "reward": self.reward.to_dict(),
            "mcnemar": None if self.correct is None else {"gained": self.gained, "lost": self.lost, "p": self.p_value},
            "verdict": self.conclusion,
            "flips": [asdict(flip) for flip in self.flips],
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
    rewards, answers = ([by_scenario(metric, one.episodes) for one in (a, b)] for metric in (REWARD, CORRECT))
    for one, side in zip((a, b), rewards, strict=True):
        if not side:
            raise EvaluationError(
                f"all episodes in {one.root} ended in infrastructure failures; grpo-eval --resume plays them again"
            )
    reward = paired(REWARD, *rewards)
    if reward is None:
        raise EvaluationError(f"{a.root} and {b.root} have no scenario in common; evaluate with the same --seed")
    majorities = [tuple(side[name] > 0.5 for side in answers) for name in answers[0].keys() & answers[1].keys()]
    return Comparison(
        *(one.name if a.name != b.name else one.root.absolute().name for one in (a, b)),
        unpaired_a=sorted(rewards[0].keys() - rewards[1].keys()),
        unpaired_b=sorted(rewards[1].keys() - rewards[0].keys()),
        differences=differences,
        correct=paired(CORRECT, *answers),
        reward=reward,
        gained=majorities.count((False, True)),
        lost=majorities.count((True, False)),
        flips=_flips(a, b),
    )


def telling(flips: Sequence[Flip], count: int) -> list[Flip]:
    """At most so many: half of them gained and half lost, or more of one where there are few of the other.

    The greatest change is first in each half.
    """
    gained = [flip for flip in flips if flip.change == "gained"]
    lost = [flip for flip in reversed(flips) if flip.change == "lost"]
    room = min(len(gained), max(count - len(lost), (count + 1) // 2))
    return gained[:room] + lost[: count - room]


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


def _flips(a: Evaluation, b: Evaluation) -> list[Flip]:
    earlier = {episode.key: episode for episode in a.episodes}
    pairs = [(earlier[episode.key], episode) for episode in b.episodes if episode.key in earlier]
    flips = [
        Flip(
            *y.key,
            "gained" if y.correct else "lost",
            y.reward - x.reward,
            opening_of(with_transcript(y).messages)[1],
            x.answer and x.answer.text,
            y.answer and y.answer.text,
        )
        for x, y in pairs
        if x.correct is not None and y.correct is not None and x.correct != y.correct
    ]
    return sorted(flips, key=lambda flip: (flip.change, -flip.reward_change, flip.scenario_id, flip.sample))

"""The episodes of a page as data for its script: every distinct text once, transcripts as blocks.

Mail that many episodes read, and a question that many answer, are one entry of ``texts``; the script searches each
once.
"""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, TypeVar

from grpo.chat.transcript import opening_of, shortened
from grpo.display.metrics import counted
from grpo.episodes.marking import audit_warning
from grpo.report.transcripts import (
    Pair,
    blocks_of,
    chips_of,
    difficulty_of,
    errors_of,
    explanation_of,
)
from grpo.types import Episode

MAX_EPISODES = 5000
"""More than this a page does not hold; what is left out is said on it."""

MAX_CHARS = 6000
"""Of a message, of a call or of anything else that is said; what is more is left out of the middle."""

MAX_TEXT_CHARS = 100_000_000
"""Of all transcripts together; episodes after that are listed without theirs."""

MAX_AUDITS = 20
"""Refused answers that a page lists; all of them can be found among its episodes."""

K = TypeVar("K")


@dataclass(frozen=True, slots=True)
class Source:
    """Where episodes come from.

    Attributes:
        label: As shown, for example ``after, T = 1`` or ``step 7``.
        split: Of the scenarios, empty where unknown.
        step: Training step; None for an evaluation.
        partner: Label of the source whose episodes answer the same questions: before of after, A of B.
    """

    label: str
    split: str = ""
    step: int | None = None
    partner: str = ""


class Episodes:
    """Collects episodes; ``to_data`` is what the script reads.

    Attributes:
        without_transcript: Episodes whose transcripts found no room.
        audits: What a judge said of answers that a rule took for right, with their source and scenario.
    """

    def __init__(self) -> None:
        """Begin with none."""
        self._sources: list[Source] = []
        self._texts: dict[str, int] = {}
        self._episodes: list[dict[str, Any]] = []
        self._places: dict[int, int] = {}
        self._chars = 0
        self.without_transcript = 0
        self.audits: list[dict[str, Any]] = []

    def __len__(self) -> int:
        """How many there are."""
        return len(self._episodes)

    def add(self, source: Source, episodes: Iterable[Episode]) -> None:
        """Take the episodes of a source."""
        self._sources.append(source)
        for episode in episodes:
            self._places[id(episode)] = len(self._episodes)
            self._episodes.append(self._data(episode, len(self._sources) - 1))
            if episode.audit:
                self.audits.append({**episode.audit, "source": source.label, "scenario_id": episode.task.key})

    def audit_section(self) -> dict[str, Any] | None:
        """What the judge said of the answers that it audited, the last ones first; None where it audited none."""
        if not self.audits:
            return None
        refused = [audit for audit in reversed(self.audits) if not audit["accept"]]
        answers = counted(len(self.audits), "answer")
        said = f"Of {answers} that the rule took for right and the judge saw, too, the judge refuses {len(refused)}."
        return {"said": said, "rows": refused[:MAX_AUDITS]}

    def audit_warnings(self) -> list[str]:
        """A line where the judge refuses too many."""
        warning = audit_warning(sum(not audit["accept"] for audit in self.audits), len(self.audits))
        return [f"{warning[0].upper()}{warning[1:]}."] if warning else []

    def to_data(self, pairs: Sequence[Pair]) -> dict[str, Any]:
        """All of it, JSON-able; ``pairs`` point at episodes that were added."""
        return {
            "texts": list(self._texts),
            "sources": [asdict(source) for source in self._sources],
            "episodes": self._episodes,
            "pairs": [
                {"change": pair.change, "sides": [self._places[id(side)] for side in (pair.before, pair.after)]}
                for pair in pairs
            ],
        }

    def _text(self, text: str) -> int:
        text = shortened(text, MAX_CHARS)
        if text not in self._texts:
            self._texts[text] = len(self._texts)
            self._chars += len(text)
        return self._texts[text]

    def _data(self, episode: Episode, source: int) -> dict[str, Any]:
        system, question = opening_of(episode.messages)
        data: dict[str, Any] = {
            "source": source,
            "scenario": episode.task.key,
            "sample": episode.sample_index,
            "reward": episode.reward if episode.ending.counted and math.isfinite(episode.reward) else None,
            "correct": episode.correct,
            "difficulty": difficulty_of(episode),
            "errors": errors_of(episode),
            "chips": chips_of(episode),
            "system": self._text(system),
            "question": self._text(question),
            "blocks": [],
        }
        if self._chars > MAX_TEXT_CHARS:
            self.without_transcript += 1
            return data | {"left_out": True}
        data["blocks"] = [
            [block.kind, self._text(block.title), self._text(block.body), block.turn] for block in blocks_of(episode)
        ]
        for name, text in (("explanation", explanation_of(episode)), ("error", episode.error)):
            if text:
                data[name] = self._text(text)
        if sampled := [call.sampled for call in episode.calls if call.sampled]:
            data["sampled"] = [
                [value if isinstance(value, str) or _is_number(value) else -999.0 for value in turn] for turn in sampled
            ]
        return data


def _is_number(value: Any) -> bool:
    """A finite one: in JSON others are null."""
    return isinstance(value, int | float) and math.isfinite(value)


def within_limit(counts: Mapping[K, int], room: int) -> list[K]:
    """As many whole steps, or evaluations, as there is room for, evenly spread from the first to the last.

    Args:
        counts: Episodes of each, in order.
        room: How many episodes they may have together.
    """
    steps = list(counts)
    for wanted in range(len(steps), 1, -1):
        chosen = [steps[round(place * (len(steps) - 1) / (wanted - 1))] for place in range(wanted)]
        if sum(counts[step] for step in chosen) <= room:
            return chosen
    return [step for step in steps[:1] if counts[step] <= room]

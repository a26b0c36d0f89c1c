"""Recorded groups that were scored, checked whole: what a judge may be asked again, and what it said."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from judges.errors import JudgeInputError
from judges.llm.record import read_judgements
from judges.scoring.prompt import build_prompts
from judges.scoring.types import Message


@dataclass(frozen=True, slots=True)
class RecordedGroup:
    """One judgement of a record."""

    trajectories: Sequence[Sequence[Message]]
    rubric: str | None
    tools: Sequence[Mapping[str, Any]] | None
    scores: Sequence[float]
    """One per trajectory."""
    labels: Sequence[str]
    """One per trajectory; equal ones have one label."""


def read_recorded(run: str | os.PathLike[str]) -> Iterator[RecordedGroup]:
    """The scored groups of a run directory or record, oldest first. Damaged lines are named and passed over.

    Raises:
        JudgeInputError: There is no record, or no line of it can be used.
    """
    return read_judgements(run, _scored_group)


def _scored_group(record: Mapping[str, Any]) -> RecordedGroup | None:
    """The group; None for another kind of judgement, and for one that failed."""
    if record["kind"] != "ruler" or record.get("scores") == []:
        return None
    try:
        scores = [score["score"] for score in record["scores"]]
        labels = list(record["verdicts"][0]["labels"])
        group = RecordedGroup(record["trajectories"], record.get("rubric"), record.get("tools"), scores, labels)
        build_prompts(group.trajectories, rubric=group.rubric, tools=group.tools)
    except (KeyError, IndexError, TypeError) as error:
        raise JudgeInputError(f"is no whole judgement of a group ({type(error).__name__}: {error})") from None
    if not all(isinstance(score, (int, float)) and 0 <= score <= 1 for score in scores):
        raise JudgeInputError(f"has scores that are no numbers from 0 to 1: {scores!r:.80}")
    if not len(scores) == len(labels) == len(group.trajectories):
        raise JudgeInputError(
            f"has {len(group.trajectories)} trajectories, {len(scores)} scores and {len(labels)} labels"
        )
    return group

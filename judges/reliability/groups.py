"""Groups that a judge is measured on: labelled ones, recorded ones, and how many of them are judged at a time.

A labelled group is one line of a JSONL file. Labels are numbers, higher is better; only their order within a group
counts. ``tools`` and a ``rubric`` of its own are optional. A recorded group has the recorded scores as labels.

    {"trajectories": [[{"role": "user", "content": "2 + 2?"}, {"role": "assistant", "content": "4"}], ...],
     "labels": [1, 0, ...], "tools": [...]}
"""

import asyncio
import os
import sys
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from itertools import islice
from numbers import Real
from typing import Any, TypeVar

from judges.errors import JudgeError, JudgeInputError, SpendLimitReached
from judges.llm.record import read_judgements, read_lines
from judges.llm.session import Session
from judges.scoring.prompt import build_prompts
from judges.scoring.types import FIRST_FAILURES, Message, VerdictCount

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class LabelledGroup:
    """Trajectories with the same goal and one label each.

    Raises:
        JudgeInputError: There are not as many labels as trajectories, or a label is no finite number.
    """

    trajectories: Sequence[Sequence[Message]]
    labels: Sequence[float]
    tools: Sequence[Mapping[str, Any]] | None = None
    rubric: str | None = None
    """By which it is judged where no other rubric is given."""

    def __post_init__(self) -> None:
        if len(self.trajectories) != len(self.labels) or len(self.labels) == 0:
            raise JudgeInputError(
                f"a group needs one label or score per trajectory, got {len(self.trajectories)} trajectories and "
                f"{len(self.labels)} labels"
            )
        for label in self.labels:
            if not isinstance(label, Real) or not abs(label) <= sys.float_info.max:
                raise JudgeInputError(f"a label or score must be a finite number, got {label!r:.80}")


def read_labelled(path: str | os.PathLike[str]) -> list[LabelledGroup]:
    """The groups of a file, in its order; empty lines are passed over, damaged ones named and passed over.

    Raises:
        JudgeInputError: The file cannot be read, or holds no group.
    """
    groups = list(read_lines(path, _labelled_group))
    if not groups:
        raise JudgeInputError(
            f"{os.fspath(path)} holds no group; write one JSON object with trajectories and labels a line"
        )
    return groups


def _labelled_group(value: dict[str, Any]) -> LabelledGroup:
    if not all(isinstance(value.get(key), list) for key in ("trajectories", "labels")):
        raise JudgeInputError('must be an object with the lists "trajectories" and "labels"')
    known = LabelledGroup.__match_args__
    for key in value.keys() - {*known}:
        near = get_close_matches(key, known, n=1)
        raise JudgeInputError(f"has an unknown key {key!r}" + (f"; did you mean {near[0]!r}?" if near else ""))
    return _judgeable(LabelledGroup(**value))


def _judgeable(group: LabelledGroup) -> LabelledGroup:
    """The group; raises where no prompt can be written for it."""
    build_prompts(group.trajectories, tools=group.tools, rubric=group.rubric)
    return group


def read_recorded(run: str | os.PathLike[str]) -> Iterator[LabelledGroup]:
    """The scored groups of a run directory or record, oldest first. Damaged lines are named and passed over.

    Raises:
        JudgeInputError: There is no record, or no line of it can be used.
    """
    return read_judgements(run, _scored_group)


def _scored_group(record: Mapping[str, Any]) -> LabelledGroup | None:
    """The group; None for another kind of judgement, and for one that failed."""
    if record["kind"] != "ruler" or record.get("scores") == []:
        return None
    try:
        scores = [score["score"] for score in record["scores"]]
        group = LabelledGroup(record["trajectories"], scores, record.get("tools"), record.get("rubric"))
        return _judgeable(group)
    except (KeyError, TypeError) as error:
        raise JudgeInputError(f"is no whole judgement of a group ({type(error).__name__}: {error})") from None


async def judge_each(
    groups: Iterable[T],
    judge: Callable[[T], Awaitable[Sequence[JudgeError | None]]],
    session: Session,
    on_progress: Callable[[int, int], None] | None,
) -> SpendLimitReached | None:
    """Judge groups, as many at the same time as the session allows. No more of them are in memory than that.

    It ends where the first groups have no usable verdict (a wrong name, key or address, prompts above its context, or a
    judge that cannot write one, are not tried on thousands of groups), and where the money is spent. The others are
    begun when the first are judged.

    Args:
        groups: What is judged.
        judge: Judges one group, and gives the error of each of its verdicts, or None.
        session: Its limit counts.
        on_progress: Called after each group with the numbers of groups judged and of groups with an error so far.

    Returns:
        The error of the group that there was no money for.
    """
    waiting = iter(groups)
    judged, count = 0, VerdictCount()
    spent: SpendLimitReached | None = None

    async def work(some: Iterator[T]) -> None:
        nonlocal judged, spent
        for group in some:
            if spent or count.is_hopeless:
                return
            errors = await judge(group)
            count.usable += None in errors
            spent = next((error for error in errors if isinstance(error, SpendLimitReached)), spent)
            count.failed += any(errors)
            judged += not any(errors)
            if on_progress is not None:
                on_progress(judged, count.failed)

    for some in (islice(waiting, FIRST_FAILURES), waiting):
        await asyncio.gather(*(work(some) for _ in range(session.max_concurrency)))
    return spent

"""From a judge's raw answer to scores by label, or a `MalformedVerdict` that says all that is wrong with it.

The set of ids must be exact and every score a finite JSON number in [0, 1]; nothing is clipped, guessed or matched by
position. How the JSON is found in the answer is told in `judges.llm.json_answer`.
"""

import json
from collections import Counter
from collections.abc import Collection
from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field

from judges.errors import MalformedVerdict
from judges.llm.json_answer import STRING, exact_object, read_answer, response_format

RESPONSE_FORMAT = response_format(
    "verdict",
    scores={"type": "array", "items": exact_object(trajectory_id=STRING, explanation=STRING, score={"type": "number"})},
)
"""For providers with structured output. It is the same for every group because providers compile a schema once. Not
every provider knows limits of a number, so `Entry` alone checks them."""


class Entry(BaseModel):
    """One trajectory's entry, as the judge wrote it."""

    model_config = ConfigDict(strict=True, frozen=True)

    trajectory_id: str
    explanation: str
    score: Annotated[float, Field(ge=0.0, le=1.0, allow_inf_nan=False)]


class _Verdict(BaseModel):
    model_config = ConfigDict(strict=True, frozen=True)

    scores: list[Entry]


def parse_verdict(content: str, labels: Collection[str]) -> dict[str, Entry]:
    """Read a verdict on exactly the trajectories ``labels``.

    Args:
        content: The judge's answer as it came.
        labels: The labels the judge was shown.

    Returns:
        One entry for each label.

    Raises:
        MalformedVerdict: There is no readable verdict at the end, its ids are not exactly ``labels``, a score cannot be
            used, or another verdict on the same ids has other scores.
    """
    verdict = read_answer(content, _Verdict, lambda verdict: _scores(verdict, labels))
    return {entry.trajectory_id: entry for entry in verdict.scores}


def _scores(verdict: _Verdict, labels: Collection[str]) -> dict[str, float]:
    """The score of each label; raises `MalformedVerdict` where one of them has not exactly one entry."""
    counts = Counter(entry.trajectory_id for entry in verdict.scores)
    missing = sorted(set(labels) - set(counts))
    unknown = [json.dumps(label) for label in sorted(set(counts) - set(labels))]
    repeated = sorted(label for label in counts if counts[label] > 1)
    problems = {
        "no entry for the ids": missing,
        "entries for ids that do not exist": unknown,
        "more than one entry for the ids": repeated,
    }
    if wrong := [f"{problem}: {', '.join(ids)}" for problem, ids in problems.items() if ids]:
        raise MalformedVerdict("; ".join(wrong))
    return {entry.trajectory_id: entry.score for entry in verdict.scores}

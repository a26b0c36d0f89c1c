"""From a judge's raw answer to scores by label, or a `MalformedVerdict` that says all that is wrong with it.

Fences, prose around the JSON and a reasoning block before it are accepted. The set of ids must be exact and every score
a finite JSON number in [0, 1]; nothing is clipped, guessed or matched by position.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Collection, Sequence
from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from judges.errors import MalformedVerdict
from judges.tokens import count_message_tokens

RESPONSE_FORMAT: dict[str, Any] = {
    "type": "json_schema",
    "json_schema": {
        "name": "verdict",
        "strict": True,
        "schema": {
            "type": "object",
            "properties": {
                "scores": {
                    "type": "array",
                    "items": {
                        "type": "object",
                        "properties": {
                            "trajectory_id": {"type": "string"},
                            "explanation": {"type": "string"},
                            "score": {"type": "number"},
                        },
                        "required": ["trajectory_id", "explanation", "score"],
                        "additionalProperties": False,
                    },
                }
            },
            "required": ["scores"],
            "additionalProperties": False,
        },
    },
}
"""For providers with structured output. The same for every group: providers compile a schema once. Limits of a number
are not in every provider's dialect, so they are checked here alone."""

MAX_QUOTED_CHARS = 4_000
"""How much of a malformed answer is shown back to the judge."""
MAX_PROBLEM_CHARS = 400
"""How much of what is wrong with it."""

_END_OF_REASONING = re.compile(r"</(?:think|thinking|reasoning)>", re.IGNORECASE)


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
        MalformedVerdict: There is no readable verdict, its ids are not exactly ``labels``, or a score cannot be used.
    """
    found = last_object(content, "scores")
    try:
        entries = _Verdict.model_validate(found).scores
    except ValidationError as error:
        raise MalformedVerdict("; ".join(_describe(problem, found) for problem in error.errors())) from None
    counts = Counter(entry.trajectory_id for entry in entries)
    problems = [
        f"{what}: {', '.join(ids)}"
        for what, ids in (
            ("no entry for the ids", sorted(set(labels) - set(counts))),
            ("entries for ids that do not exist", [json.dumps(label) for label in sorted(set(counts) - set(labels))]),
            ("more than one entry for the ids", sorted(label for label in counts if counts[label] > 1)),
        )
        if ids
    ]
    if problems:
        raise MalformedVerdict("; ".join(problems))
    return {entry.trajectory_id: entry for entry in entries}


def repair_turn(
    content: str, problem: MalformedVerdict, labels: Sequence[str], max_tokens: int | None = None
) -> list[dict[str, str]]:
    """The messages that show a judge its malformed answer and ask once more.

    Args:
        content: The malformed answer; its beginning is quoted.
        problem: What is wrong with it.
        labels: The ids that must be scored.
        max_tokens: What the two messages may take by `judges.tokens`; less is quoted to keep it.
    """
    request = {
        "role": "user",
        "content": f"That answer cannot be used: {str(problem)[:MAX_PROBLEM_CHARS]}. Answer again with the whole JSON "
        f"object and nothing else: one entry for each of the ids {', '.join(labels)}, each score a number from 0 to 1.",
    }
    chars = MAX_QUOTED_CHARS
    while True:
        turn = [{"role": "assistant", "content": content[:chars].strip() or "(empty)"}, request]
        if max_tokens is None or chars == 0 or count_message_tokens(turn) <= max_tokens:
            return turn
        chars //= 2


def last_object(content: str, key: str) -> dict[str, Any]:
    """The last JSON object with ``key`` that stands after any reasoning.

    Raises:
        MalformedVerdict: There is none.
    """
    if not content.strip():
        raise MalformedVerdict("the answer is empty")
    objects = _json_objects(content)
    reasoning_end = max(
        (
            match.end()
            for match in _END_OF_REASONING.finditer(content)
            if not any(start <= match.start() < end for start, end, _ in objects)
        ),
        default=0,
    )
    found = [value for start, _, value in objects if start >= reasoning_end and key in value]
    if not found:
        raise MalformedVerdict(f"there is no complete JSON object with the key {json.dumps(key)} in the answer")
    return found[-1]


def _json_objects(text: str) -> list[tuple[int, int, dict[str, Any]]]:
    """Every outermost JSON object in a text, with its start and end."""
    decoder = json.JSONDecoder()
    objects: list[tuple[int, int, dict[str, Any]]] = []
    start = text.find("{")
    while start >= 0:
        try:
            value, end = decoder.raw_decode(text, start)
        except ValueError:
            end = start + 1
        except RecursionError:
            raise MalformedVerdict("the JSON of the answer is nested too deeply") from None
        else:
            objects.append((start, end, value))
        start = text.find("{", end)
    return objects


def _describe(problem: Any, found: dict[str, Any]) -> str:
    """One of pydantic's errors in words that a judge can act on."""
    where: tuple[Any, ...] = problem["loc"]
    entries = found.get("scores")
    if len(where) < 2 or not isinstance(entries, list):
        return '"scores" must be a list of objects'
    entry = entries[where[1]]
    label = entry.get("trajectory_id") if isinstance(entry, dict) else None
    name = f"the entry for {json.dumps(label)}" if isinstance(label, str) else f"entry {where[1] + 1}"
    if len(where) < 3:
        return f"{name} must be an object"
    key = where[2]
    if problem["type"] == "missing":
        return f'{name} has no "{key}"'
    wanted = "a finite number from 0 to 1" if key == "score" else "a string"
    return f'the "{key}" of {name} must be {wanted}, not {json.dumps(problem["input"])[:80]}'

"""A scenario: one question about one person's mailbox, with its answer and its evidence.

`Scenario.from_dict` reads our own JSON form and the form of the public Enron question sets (`id`, `inbox_address`,
message ids in angle brackets); `to_dict` writes our own. Nothing here looks into a database: whether the evidence
exists is checked in `email_env.scenarios.misfits`.
"""

import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from datetime import date
from functools import lru_cache
from math import isfinite
from typing import Any, Self

from email_env.errors import ScenarioError, check_choice
from email_env.search.query import bare_message_id
from judges.common.files import json_object
from judges.common.text import is_utf8

SPLITS = ("train", "validation", "test")
DIFFICULTIES = ("easy", "medium", "hard", "")
DONT_KNOW = "I don't know"
"""The right answer where the mailbox does not hold one."""

_ALIASES = {"id": "scenario_id", "inbox_address": "inbox"}
_IGNORED = frozenset({"how_realistic"})
_ISO_DATE = re.compile(r"(\d{4}-\d{2}-\d{2})(?:[T ].*)?", re.ASCII)

Plan = tuple[tuple[str, tuple[str, ...]], ...]


@dataclass(frozen=True, slots=True)
class Scenario:
    """One question for the agent.

    Attributes:
        scenario_id: unique within its set.
        question: what the agent is asked.
        answer: the reference answer.
        accepted: other forms of the answer that count as right.
        message_ids: the evidence, without angle brackets; empty means that the mailbox does not hold the answer.
        inbox: lower-case address whose mail the agent may see.
        query_date: ISO date, inclusive: the agent sees no mail sent after this day.
        split: "train", "validation" or "test".
        difficulty: "easy", "medium", "hard", or "" where it is not graded.
        kind: any label that groups questions, "" where there is none.
        plan: an expert's steps before the final answer, as (tool, arguments), for example
            `(("search", ("falcon", "budget")), ("read", ("m4821",)))`.
    """

    scenario_id: str
    question: str
    answer: str
    accepted: tuple[str, ...]
    message_ids: tuple[str, ...]
    inbox: str
    query_date: str
    split: str
    difficulty: str = ""
    kind: str = ""
    plan: Plan = ()

    @property
    def answerable(self) -> bool:
        """Whether the mailbox holds the answer."""
        return bool(self.message_ids)

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Self:
        """Reads our own form or that of the public Enron question sets.

        Raises:
            ScenarioError: a key is missing or unknown, or a value is of the wrong kind.
        """
        fields: dict[str, Any] = {}
        for key, value in data.items():
            if key not in _IGNORED:
                check_choice("a key of a scenario", key, (*cls.__dataclass_fields__, *_ALIASES), ScenarioError)
                fields[_ALIASES.get(key, key)] = value
        missing = [name for name in ("scenario_id", "question", "answer", "inbox", "query_date") if name not in fields]
        if missing:
            present = ", ".join(map(str, data)) or "no keys"
            raise ScenarioError(f"A scenario lacks {', '.join(missing)}; it has {present}.")
        return cls(
            scenario_id=_text(fields, "scenario_id", required=True),
            question=_text(fields, "question", required=True),
            answer=_text(fields, "answer"),
            accepted=_texts(fields.get("accepted"), "accepted"),
            message_ids=tuple(bare_message_id(i) for i in _texts(fields.get("message_ids"), "message_ids")),
            inbox=_text(fields, "inbox", required=True).strip().lower(),
            query_date=_iso_date(fields["query_date"]),
            split=check_choice("split of a scenario", fields.get("split") or "train", SPLITS, ScenarioError),
            difficulty=check_choice("difficulty", fields.get("difficulty") or "", DIFFICULTIES, ScenarioError),
            kind=_text(fields, "kind"),
            plan=_plan(fields.get("plan")),
        )

    def to_dict(self) -> dict[str, Any]:
        """The JSON form; `from_dict(to_dict())` is the same scenario."""
        return asdict(self)


@lru_cache(maxsize=1 << 16)
def read_scenario(text: str) -> Scenario:
    """A scenario from its JSON. Equal texts give one object, which the envs of a process share.

    Raises:
        ScenarioError: the text is no JSON object, or no scenario.
    """
    try:
        data = json_object(text)
    except ValueError as error:
        raise ScenarioError(f"{text.strip()[:60]!r} {error}.") from error
    return Scenario.from_dict(data)


def _text(fields: Mapping[str, Any], name: str, *, required: bool = False) -> str:
    value = fields.get(name)
    if (isinstance(value, int) and not isinstance(value, bool)) or (isinstance(value, float) and isfinite(value)):
        value = str(value)
    text = "" if value is None else value
    if not isinstance(text, str) or (required and not text.strip()):
        raise ScenarioError(f"{name} of a scenario must be {'a non-empty' if required else 'a'} string, got {value!r}.")
    return _encodable(text, name)


def _texts(value: Any, name: str) -> tuple[str, ...]:
    if value is None:
        return ()
    if not isinstance(value, list | tuple) or not all(isinstance(item, str) for item in value):
        raise ScenarioError(f"{name} of a scenario must be a list of strings, got {value!r}.")
    return tuple(_encodable(item, name) for item in value)


def _encodable(text: str, name: str) -> str:
    """The text; JSON may hold half a surrogate pair (`\\ud83d`), which no database takes."""
    if not is_utf8(text):
        raise ScenarioError(f"{name} of a scenario holds half a character, which is no text: {text!r}.")
    return text


def _iso_date(value: Any) -> str:
    match = _ISO_DATE.fullmatch(str(value).strip())
    try:
        return date.fromisoformat(match[1] if match else "").isoformat()
    except ValueError:
        raise ScenarioError(f"query_date of a scenario must look like 2001-05-14, got {value!r}.") from None


def _plan(value: Any) -> Plan:
    if value is None:
        return ()
    steps: list[tuple[str, tuple[str, ...]]] = []
    for step in value if isinstance(value, list | tuple) else [value]:
        if not isinstance(step, list | tuple) or len(step) != 2 or not isinstance(step[0], str):
            raise ScenarioError(f"A step of a scenario's plan must be [tool, [arguments]], got {step!r}.")
        steps.append((step[0], _texts(step[1], "plan")))
    return tuple(steps)

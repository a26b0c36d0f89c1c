"""What a Gymnasium env's docstring says of it: what it is about, its goal, the names of its actions and observations.

Gymnasium's own envs and many others keep to one form: a first paragraph, and sections ``## Action Space`` and
``## Observation Space`` with a list (``- 0: Move left``) or a table (``| 0 | Cart Position | -4.8 | 4.8 |``). Where a
docstring has another form there is simply less to say.
"""

from __future__ import annotations

import inspect
import re
from dataclasses import dataclass, field
from typing import Any

MAX_CHARS = 300
"""Of a paragraph; prompts are paid for at every turn."""

_GOAL = re.compile(r"\b(goals?|aims?|objectives?|your task|you (must|have to|should|win))\b", re.I)
_SENTENCES = re.compile(r"(?<=[.!?])\s+(?=[A-Z\"'`])")
_ITEM = re.compile(r"^[-*]\s*(\d+)\s*[:=]\s*(.+)$", re.M)
_ROW = re.compile(r"^\|\s*(\d+)\s*\|\s*([^|]+?)\s*\|", re.M)
_MARKUP = re.compile(r"!\[[^\]]*\]\([^)]*\)|<[^>]+>|\[<|>\]|\*\*|`")
_LINK = re.compile(r"\[([^\]\[]*)\]\([^)]*\)")


@dataclass(frozen=True, slots=True)
class EnvDocs:
    """Parts of an env's docstring; empty where it does not say. The ``goal`` is empty where the summary names it."""

    summary: str = ""
    goal: str = ""
    actions: dict[int, str] = field(default_factory=dict)
    observation: str = ""
    observations: dict[int, str] = field(default_factory=dict)


def read_docs(env_class: type) -> EnvDocs:
    """Read the docstring of an env's class (not an inherited one)."""
    doc = inspect.cleandoc(env_class.__dict__.get("__doc__") or "")
    actions, observations = _section(doc, "Action Space"), _section(doc, "Observation Space")
    summary = _paragraph(doc)
    return EnvDocs(
        summary=summary,
        goal="" if _GOAL.search(summary) else _goal(doc),
        actions=_names(actions),
        observation=_paragraph(observations),
        observations=_names(observations),
    )


def _section(doc: str, title: str) -> str:
    found = re.search(rf"^\s*#+\s*{title}\s*$(.*?)(?=^\s*#+\s|\Z)", doc, re.M | re.S)
    return inspect.cleandoc(found.group(1)) if found else ""


def _goal(doc: str) -> str:
    """The first sentence that says what the goal is, of what stands before the sections on the spaces."""
    for block in re.split(r"\n\s*\n|^\s*#.*$", doc.partition("# Action Space")[0], flags=re.M):
        sentences = _SENTENCES.split(_plain(" ".join(line for line in block.splitlines() if line.lstrip()[:1] != "|")))
        if found := next(filter(_GOAL.search, sentences), ""):
            return _cut(found)
    return ""


def _names(section: str) -> dict[int, str]:
    pairs: list[Any] = _ITEM.findall(section) or _ROW.findall(section)
    return {int(number): _plain(name) for number, name in pairs}


def _paragraph(text: str) -> str:
    """The first paragraph that is neither heading nor table, in whole sentences up to ``MAX_CHARS``."""
    for block in re.split(r"\n\s*\n", text):
        kept = [line for line in block.splitlines() if not line.lstrip().startswith(("#", "|", "!["))]
        if paragraph := _plain(" ".join(kept)):
            return _cut(paragraph)
    return ""


def _cut(text: str) -> str:
    if len(text) <= MAX_CHARS:
        return text
    end = text.rfind(". ", 0, MAX_CHARS)
    return text[: end + 1] if end > 0 else text[: MAX_CHARS - 3] + "..."


def _plain(text: str) -> str:
    return " ".join(_MARKUP.sub("", _LINK.sub(r"\1", text)).split())

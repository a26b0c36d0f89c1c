"""What a Gymnasium env's docstring says of it: what it is about, its goal, the names of its actions and observations.

Gymnasium's own envs and many others keep to one form: a first paragraph, and sections ``## Action Space`` and
``## Observation Space`` with a list (``- 0: Move left``) or a table (``| 0 | Cart Position | -4.8 | 4.8 |``). Where a
docstring has another form there is simply less to say.
"""

from __future__ import annotations

import inspect
import itertools
import re
from dataclasses import dataclass, field
from typing import Any

import gymnasium

MAX_CHARS = 300
"""Of the summary, the goal, a paragraph; prompts are paid for at every turn."""

_GOAL = re.compile(r"\b(goals?|aims?|objectives?|your task|you (must|have to|should|win))\b", re.I)
_SENTENCES = re.compile(r"(?<=[.!?])\s+(?=[A-Z\"'`])")
_ITEM = re.compile(r"^[-*]\s*(\d+)\s*[:=]\s*(.+)$", re.M)
_ROW = re.compile(r"^\|\s*(\d+)\s*\|\s*([^|]+?)\s*\|", re.M)
_MARKUP = re.compile(r"!\[[^\]]*\]\([^)]*\)|<[^>]+>|\[<|>\]|\*\*|`")
_NO_PROSE = re.compile(r"[-*#|>`!]|\d+[.)]|\.\. |\w[\w ]*:\s*$", re.M)
"""How a heading, a list, a table, an example or a section as ``Args:`` begins."""
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
    """Read the docstring of an env's class, or of the nearest env that it is made from and that has one."""
    envs = (base for base in env_class.__mro__ if issubclass(base, gymnasium.Env) and base is not gymnasium.Env)
    doc = inspect.cleandoc(next(filter(None, (base.__dict__.get("__doc__") for base in envs)), ""))
    actions, observations = _section(doc, "Action Space"), _section(doc, "Observation Space")
    summary = _summary(doc)
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


def _summary(doc: str) -> str:
    """The first paragraph; where that is one line, which may be a title alone, the prose that follows, too."""
    blocks = list(itertools.dropwhile(lambda block: not _paragraph(block), re.split(r"\n\s*\n", doc)))
    if not blocks or "\n" in blocks[0]:
        return _paragraph(doc)
    prose = [blocks[0], *itertools.takewhile(lambda block: not _NO_PROSE.match(block), blocks[1:])]
    said = [_plain(block) for block in prose]
    return _cut(" ".join(text if text[-1] in ".!?:" else f"{text}." for text in said))


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

"""What a Gymnasium env's docstring says of it: what it is about, what its actions and observations are called.

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

_ITEM = re.compile(r"^[-*]\s*(\d+)\s*[:=]\s*(.+)$", re.M)
_ROW = re.compile(r"^\|\s*(\d+)\s*\|\s*([^|]+?)\s*\|", re.M)
_MARKUP = re.compile(r"!\[[^\]]*\]\([^)]*\)|<[^>]+>|\[<|>\]|\*\*|`")
_LINK = re.compile(r"\[([^\]\[]*)\]\([^)]*\)")


@dataclass(frozen=True, slots=True)
class EnvDocs:
    """Parts of an env's docstring; empty where it does not say."""

    summary: str = ""
    actions: dict[int, str] = field(default_factory=dict)
    observation: str = ""
    observations: dict[int, str] = field(default_factory=dict)


def read_docs(env_class: type) -> EnvDocs:
    """Read the docstring of an env's class (not an inherited one)."""
    doc = inspect.cleandoc(env_class.__dict__.get("__doc__") or "")
    actions, observations = _section(doc, "Action Space"), _section(doc, "Observation Space")
    return EnvDocs(
        summary=_paragraph(doc),
        actions=_names(actions),
        observation=_paragraph(observations),
        observations=_names(observations),
    )


def _section(doc: str, title: str) -> str:
    found = re.search(rf"^\s*#+\s*{title}\s*$(.*?)(?=^\s*#+\s|\Z)", doc, re.M | re.S)
    return inspect.cleandoc(found.group(1)) if found else ""


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

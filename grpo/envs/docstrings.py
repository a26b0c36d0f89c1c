"""What a Gymnasium env's docstring says of it: what it is about, the names of its actions and observations.

Gymnasium's own envs and many others keep to one form: prose, then sections ``## Action Space`` and
``## Observation Space`` with a list (``- 0: Move left``) or a table (``| 0 | Cart Position | -4.8 | 4.8 |``). Where a
docstring has another form there is simply less to say.
"""

import inspect
import re
from dataclasses import dataclass, field
from typing import Any

import gymnasium

MAX_CHARS = 550
"""Of what is said about an env, or of its observations; prompts are paid for at every turn."""

_END_OF_PROSE = re.compile(r"^ *#+ *(?:Action|Observation) Space|^[A-Z][\w ]*:\s*$|^>>>", re.M)
"""How the sections on the spaces, a list, a section as ``Args:`` or an example begins."""
_NO_PROSE = re.compile(r"[-*|!`]|\.\. |\d+[.)]")
"""How a list, a table, a picture or a block of code begins."""
_ITEM = re.compile(r"^[-*]\s*(\d+)\s*[:=]\s*(.+)$", re.M)
_ROW = re.compile(r"^\|\s*(\d+)\s*\|\s*([^|]+?)\s*\|", re.M)
_MARKUP = re.compile(r"!\[[^\]]*\]\([^)]*\)|\s*\[<[^\]]*>\]|<[^>]+>|\*\*|`")
_LINK = re.compile(r"\[([^\]\[]*)\]\([^)]*\)")


@dataclass(frozen=True, slots=True)
class EnvDocs:
    """Parts of an env's docstring; empty where it does not say."""

    about: str = ""
    actions: dict[int, str] = field(default_factory=dict)
    observation: str = ""
    observations: dict[int, str] = field(default_factory=dict)


def docstring_of(env_class: type) -> str:
    """The docstring of an env's class, or of the nearest env that it is made from and that has one."""
    envs = (base for base in env_class.__mro__ if issubclass(base, gymnasium.Env) and base is not gymnasium.Env)
    return inspect.cleandoc(next(filter(None, (base.__dict__.get("__doc__") for base in envs)), ""))


def read_docs(env_class: type) -> EnvDocs:
    """Read the `docstring_of` an env's class."""
    doc = docstring_of(env_class)
    actions, observations = _section(doc, "Action Space"), _section(doc, "Observation Space")
    return EnvDocs(_prose(doc), _names(actions), _prose(observations), _names(observations))


def _section(doc: str, title: str) -> str:
    found = re.search(rf"^\s*#+\s*{title}\s*$(.*?)(?=^\s*#+\s|\Z)", doc, re.M | re.S)
    return inspect.cleandoc(found.group(1)) if found else ""


def _names(section: str) -> dict[int, str]:
    pairs: list[Any] = _ITEM.findall(section) or _ROW.findall(section)
    return {int(number): _plain(name) for number, name in pairs}


def _prose(text: str) -> str:
    """The first sentences, up to `MAX_CHARS`."""
    text = re.sub(r"^ *#.*$", "\n", _END_OF_PROSE.split(text)[0], flags=re.M)
    blocks = [block.strip() for block in re.split(r"\n\s*\n", text)]
    paragraphs = [plain for block in blocks if not _NO_PROSE.match(block) and (plain := _plain(block))]
    said = " ".join(text if text[-1] in ".!?:" else f"{text}." for text in paragraphs)  # a title has no full stop
    if len(said) <= MAX_CHARS:
        return said
    end = said.rfind(". ", 0, MAX_CHARS)
    return said[: end + 1] if end > 0 else said[: MAX_CHARS - 3] + "..."


def _plain(text: str) -> str:
    return " ".join(_MARKUP.sub("", _LINK.sub(r"\1", text)).split())

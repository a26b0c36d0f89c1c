"""What the actions of a Discrete space are called: by the env's docstring, or by an enum or a table that it has.

A docstring that keeps Gymnasium's form is read by `docstrings`, and may name some actions alone. What is found here
names each of them, in their order: a list of another length is of something else.
"""

import enum
import inspect
import re
import sys
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import gymnasium
from gymnasium import spaces

from grpo.envs.docstrings import EnvDocs, docstring_of

_WORD = re.compile(r"\bactions?\b", re.I)
_BLANK_LINE = re.compile(r"\n\s*\n")
_OTHER = re.compile(r"^\W*(?:observation|state|reward|return|arg)", re.I | re.M)
"""How a line begins that speaks of something else."""
_PAIR = re.compile(r"(?<![\w.(-])(\d+)(?:\s*(?:[:=|]|->|=>)|[.)]\s|[ \t]{2,})[ \t'\"`]*([^\W\d][^\n,;|()'\"`.]*)")
_SENTENCE = re.compile(r"\bactions?\b[^.:\n]*(?:\bare\b|:)\s*([^.:]+)", re.I)
_COMMA = re.compile(r",\s*(?:(?:and|or)\s+)?")
_FEWEST = 3
"""Of the words of a sentence that are a list: two may be what the actions are like."""


def action_names(env: gymnasium.Env[Any, Any], docs: EnvDocs) -> dict[int, str]:
    """The names of the actions by their values; empty where nothing gives them."""
    space = env.action_space
    if docs.actions or not isinstance(space, spaces.Discrete):
        return docs.actions
    values = range(int(space.start), int(space.start + space.n))
    doc = docstring_of(type(env.unwrapped))
    tables = (*_listed(doc, len(values)), *_tables(env.unwrapped))
    return next(filter(None, (_names(table, values) for table in tables)), {})


def _listed(doc: str, count: int) -> Iterator[Any]:
    """The lists in what a docstring says of actions: numbered ones, and words with commas."""
    paragraphs = _BLANK_LINE.split(doc)
    for paragraph, following in zip(paragraphs, [*paragraphs[1:], ""], strict=True):
        if found := _WORD.search(paragraph):
            more = following if re.match(r"\W*\d", following) else ""
            pairs: list[Any] = _PAIR.findall(_OTHER.split(f"{paragraph[found.start() :]}\n{more}")[0])
            if len(pairs) <= count or int(pairs[count][0]) != int(pairs[count - 1][0]) + 1:  # else it goes on
                yield {int(number): name.strip() for number, name in pairs[:count]}
    if count >= _FEWEST:
        yield from ([word.strip() for word in _COMMA.split(listed)] for listed in _SENTENCE.findall(doc))


def _tables(env: Any) -> Iterator[Any]:
    """What the env, its ``action_type`` and its module keep under a name with "action" in it."""
    for owner in (env, getattr(env, "action_type", None), sys.modules.get(type(env).__module__)):
        if callable(meanings := getattr(owner, "get_action_meanings", None)):
            yield meanings()
        yield from (inspect.getattr_static(owner, name, None) for name in dir(owner) if "action" in name.casefold())


def _names(table: Any, values: Sequence[int]) -> dict[int, str]:
    """A table as names of all these values; empty where it is none."""
    if inspect.isclass(table) and issubclass(table, enum.Enum):
        table = {member.value: name for name, member in table.__members__.items()}
    elif isinstance(table, list | tuple) and len(table) == len(values):
        table = dict(zip(values, table, strict=True))
    if not isinstance(table, Mapping):
        return {}
    if all(isinstance(key, str) for key in table):
        table = {value: key for key, value in table.items() if isinstance(value, int)}
    names = {
        getattr(value, "value", value): getattr(name, "name", name)
        for value, name in table.items()
        if isinstance(value, int | enum.Enum)
    }
    complete = sorted(names, key=str) == sorted(values, key=str) and all(
        isinstance(n, str) and n for n in names.values()
    )
    return {value: names[value] for value in values} if complete else {}

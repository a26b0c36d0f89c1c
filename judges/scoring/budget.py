"""Trajectories are cut to fit a prompt: first the middle of long tool outputs, then the middle of other long texts.

All texts of a kind get the same limit, so no trajectory is cut harder than another, and equal ones are cut alike. The
structure (messages, roles, calls) is never cut. A word that no text can know marks each cut. `judges.scoring.prompt`
takes the mildest limits with which a prompt fits.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

MIN_TOOL_CHARS = 200
"""Tool outputs keep this much as long as the other texts are whole."""
MIN_CHARS = 50
"""No text is cut below this; if that does not suffice, the prompt is refused."""

_STEP = 0.75
_WORTH_CUTTING_CHARS = 60
"""A text is left whole where the mark would take about as much as the cut saves."""
_TOOL_ROLES = frozenset({"tool", "function"})


@dataclass(frozen=True, slots=True)
class Limits:
    """How many characters a text may keep."""

    tool_chars: int
    other_chars: int


def falling_limits(trajectories: Sequence[Sequence[Mapping[str, Any]]]) -> list[Limits]:
    """Limits for the messages of trajectories, from the mildest cut to the hardest, in steps of a quarter."""
    messages = [message for trajectory in trajectories for message in trajectory]
    longest_tool = max((len(text) for m in messages if m["role"] in _TOOL_ROLES for text in _texts(m)), default=0)
    longest = max((len(text) for m in messages for text in _texts(m)), default=0)
    levels = [Limits(chars, longest) for chars in _falling(longest_tool, MIN_TOOL_CHARS)]
    return levels + [Limits(min(chars, MIN_TOOL_CHARS), chars) for chars in _falling(longest, MIN_CHARS)]


def cut_message(message: Mapping[str, Any], limits: Limits, mark: str) -> dict[str, Any]:
    """A message whose texts keep at most so many characters (and the mark); role and call ids stay as they are."""
    chars = limits.tool_chars if message["role"] in _TOOL_ROLES else limits.other_chars
    fixed = ("role", "tool_call_id")
    return {key: value if key in fixed else _cut(value, chars, mark) for key, value in message.items()}


def cut_text(text: str, chars: int, mark: str) -> str:
    """The first and the last half of ``chars`` characters, with the mark and the number left out between them."""
    if len(text) <= chars + _WORTH_CUTTING_CHARS:
        return text
    head = (chars + 1) // 2
    return f"{text[:head]} [{mark}: {len(text) - chars} characters left out] {text[len(text) - (chars - head) :]}"


def _cut(value: Any, chars: int, mark: str) -> Any:
    if isinstance(value, str):
        return cut_text(value, chars, mark)
    if isinstance(value, Mapping):
        return {key: _cut(item, chars, mark) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_cut(item, chars, mark) for item in value]
    return value


def _texts(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, Mapping):
        for item in value.values():
            yield from _texts(item)
    elif isinstance(value, (list, tuple)):
        for item in value:
            yield from _texts(item)


def _falling(longest: int, least: int) -> Iterator[int]:
    """Limits from just under the longest text down to ``least``."""
    chars = int(longest * _STEP)
    while chars > least:
        yield chars
        chars = int(chars * _STEP)
    yield least

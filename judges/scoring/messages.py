"""The messages of one trajectory, checked and without what tells equal trajectories apart by chance.

A judge sees what a chat format gives a model to read: role, name, content, reasoning, calls and what they came to. All
else in a message (its id, time, metadata, log-probabilities) says nothing of the attempt.
"""

import hashlib
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from judges.errors import JudgeInputError
from judges.llm.prompt_text import as_plain
from judges.scoring.types import Message

_SAID = frozenset(
    {"content", "refusal", "reasoning", "reasoning_content", "thinking", "tool_calls", "function_call", "error"}
)
_SHOWN = _SAID | {"role", "name", "tool_call_id", "tool_name", "function"}
"""Fields of a message that a judge sees."""
_IDS = frozenset({"id", "tool_call_id", "tool_use_id", "call_id"})
"""Fields of a call or a part of the content that say which call it is."""
_ASIDE = frozenset({"metadata", "index", "signature", "extra_content", "cache_control", "logprobs"})
"""Fields of them that providers keep there for themselves."""

_DATA_URL = re.compile(r"data:[^,\s]{0,200};base64,", re.IGNORECASE)
_BASE64 = re.compile(r"(?:[ \t]*[\w+/=-]+[ \t]*(?:\r?\n|\Z))+", re.ASCII)
"""In one line or in many, as mail and PEM write it."""
_MIN_DATA_CHARS = 200


def as_mappings(messages: Any) -> Any:
    """The messages of one trajectory as a list of mappings; what is neither is left to `plain_messages`.

    An iterator is read, and objects of the openai package become what they stand for: a ``ChatCompletionMessage``
    itself, a ``Choice`` its message.
    """
    if isinstance(messages, (str, bytes, Mapping)) or not isinstance(messages, Iterable):
        return messages
    return [message if isinstance(message, Mapping) else _dumped(message) for message in messages]


def _dumped(message: Any) -> Any:
    message = getattr(message, "message", message)
    return as_plain(message) if hasattr(message, "model_dump") else message


def plain_messages(messages: Sequence[Message], place: int) -> tuple[dict[str, Any], ...]:
    """What the messages of one trajectory say, without unset fields and data of files, and with numbered call ids.

    Args:
        messages: The trajectory.
        place: Its place in the group, counted from 1, for error messages.

    Raises:
        JudgeInputError: The trajectory is empty, or something in it is no message.
    """
    messages = as_mappings(messages)
    if not isinstance(messages, list) or not messages:
        hint = "leave out rollouts that never began"
        if isinstance(messages, Mapping):
            hint = "message_lists is a list of trajectories, each of them a list of messages"
        raise JudgeInputError(f"trajectory {place} must be a non-empty list of messages, got {messages!r:.80}; {hint}")
    numbers: dict[str, str] = {}
    plain: list[dict[str, Any]] = []
    for number, message in enumerate(messages, start=1):
        if not isinstance(message, Mapping) or not isinstance(message.get("role"), str):
            raise JudgeInputError(
                f'message {number} of trajectory {place} must be a dict with a string "role", got {message!r:.80}'
            )
        try:
            plain.append(_without_data(_with_numbered_calls(_said(message), numbers)))
        except RecursionError:
            raise JudgeInputError(f"message {number} of trajectory {place} is nested too deeply") from None
    return tuple(plain)


def _said(message: Message) -> dict[str, Any]:
    """The fields that a judge sees, as far as they are set; all, where none of them says anything."""
    shown = _SHOWN if _SAID & message.keys() else message.keys()
    return {key: value for key, value in message.items() if key in shown and value not in (None, [])}


def _with_numbered_calls(plain: dict[str, Any], numbers: dict[str, str]) -> dict[str, Any]:
    """The message with its random call ids as ``call_1``, ``call_2``, ... in the order in which they appear.

    ``numbers`` holds the ids of the messages before, and takes up the new ones.
    """

    def numbered(value: Any) -> Any:
        value = as_plain(value) if hasattr(value, "model_dump") else value
        if not isinstance(value, Mapping):
            return value
        named = {key: item for key, item in value.items() if key not in _ASIDE and item not in (None, [])}
        ids = sorted(_IDS & named.keys())
        return {**named, **{key: numbers.setdefault(str(named[key]), f"call_{len(numbers) + 1}") for key in ids}}

    for name in ("tool_calls", "content"):
        if isinstance(parts := plain.get(name), Sequence) and not isinstance(parts, str):
            plain[name] = [numbered(part) for part in parts]
    return numbered(plain)


def _without_data(value: Any, name: str = "") -> Any:
    """The value with a note for each picture, sound or file in it: a judge reads text, and base64 says nothing to it.

    The note has the data's hash, so different pictures stay different. ``name`` is the key of the value.
    """
    if isinstance(value, Mapping):
        return {key: _without_data(item, key) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_without_data(item) for item in value]
    if not isinstance(value, str) or len(value) < _MIN_DATA_CHARS:
        return value
    url = _DATA_URL.match(value)
    if not url and not (name in ("data", "file_data") and _BASE64.fullmatch(value)):
        return value
    digest = hashlib.sha256("".join(value.split()).encode("utf-8", "surrogatepass")).hexdigest()
    return f"{url.group() if url else ''}({len(value)} characters, not shown; SHA-256 {digest[:12]})"

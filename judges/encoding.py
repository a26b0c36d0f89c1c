"""Messages as the JSON that a judge reads: equal for equal messages, and unable to leave the tag it stands in."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from typing import Any

from judges.errors import JudgeInputError
from judges.types import Message

_JSON = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"))
_SURROGATE = re.compile("[\ud800-\udfff]")


def plain_messages(messages: Sequence[Message], place: int) -> tuple[dict[str, Any], ...]:
    """The messages of one trajectory without unset fields and with numbered tool-call ids.

    Args:
        messages: The trajectory.
        place: Its place in the group from 1, for errors.

    Raises:
        JudgeInputError: It is empty, or something in it is no message.
    """
    if isinstance(messages, (str, bytes, Mapping)) or not messages:
        raise JudgeInputError(
            f"trajectory {place} must be a non-empty list of messages, got {_short(messages)}; "
            "leave out rollouts that never began"
        )
    call_ids: dict[Any, str] = {}
    plain: list[dict[str, Any]] = []
    for number, message in enumerate(messages, start=1):
        if not isinstance(message, Mapping) or not isinstance(message.get("role"), str):
            raise JudgeInputError(
                f'message {number} of trajectory {place} must be a dict with a string "role", got {_short(message)}'
            )
        plain.append(_renumber_calls(message, call_ids))
    return tuple(plain)


def encode(value: object, name: str) -> str:
    """Compact JSON that holds no ``<`` and no lone surrogate; keys are sorted, with ``role`` and ``name`` first.

    Raises:
        JudgeInputError: ``value``, called ``name`` in the message, is not plain JSON.
    """
    try:
        text = _JSON.encode(as_plain(value))
    except (TypeError, ValueError, RecursionError) as error:
        raise JudgeInputError(
            f"{name} is not plain JSON ({error}); hand in dicts, lists, strings and numbers"
        ) from error
    text = text.replace("<", "\\u003c")
    return text if text.isascii() else _SURROGATE.sub(lambda match: f"\\u{ord(match.group()):04x}", text)


def _renumber_calls(message: Message, call_ids: dict[Any, str]) -> dict[str, Any]:
    """The message without unset fields; random tool-call ids become ``call_1``, ``call_2``, ... as they appear."""

    def number(call_id: object) -> str:
        return call_ids.setdefault(str(call_id), f"call_{len(call_ids) + 1}")

    plain = {key: value for key, value in message.items() if value is not None}
    calls = plain.get("tool_calls")
    if isinstance(calls, Sequence) and not isinstance(calls, str):
        plain["tool_calls"] = [
            {**call, "id": number(call["id"])} if isinstance(call, Mapping) and call.get("id") is not None else call
            for call in calls
        ]
    if "tool_call_id" in plain:
        plain["tool_call_id"] = number(plain["tool_call_id"])
    return plain


def as_plain(value: Any) -> Any:
    """Dicts and lists for mappings and sequences of any kind, keys sorted with ``role`` and ``name`` first."""
    if isinstance(value, str):
        return value
    if isinstance(value, (dict, Mapping)):
        keys = sorted(value, key=lambda key: (key != "role", key != "name", key))
        return {key: as_plain(value[key]) for key in keys}
    if isinstance(value, (list, tuple)):
        return [as_plain(item) for item in value]
    return value


def _short(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 80 else text[:77] + "..."

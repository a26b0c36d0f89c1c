"""The messages of one trajectory, checked and without what tells equal trajectories apart by chance."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from judges.errors import JudgeInputError
from judges.scoring.types import Message


def plain_messages(messages: Sequence[Message], place: int) -> tuple[dict[str, Any], ...]:
    """The messages of one trajectory without unset fields and with numbered tool-call ids.

    Args:
        messages: The trajectory.
        place: Its place in the group, counted from 1, for error messages.

    Raises:
        JudgeInputError: The trajectory is empty, or something in it is no message.
    """
    if isinstance(messages, (str, bytes, Mapping)) or not messages:
        raise JudgeInputError(
            f"trajectory {place} must be a non-empty list of messages, got {_short(messages)}; "
            "leave out rollouts that never began"
        )
    numbers: dict[str, str] = {}
    plain: list[dict[str, Any]] = []
    for number, message in enumerate(messages, start=1):
        if not isinstance(message, Mapping) or not isinstance(message.get("role"), str):
            raise JudgeInputError(
                f'message {number} of trajectory {place} must be a dict with a string "role", got {_short(message)}'
            )
        plain.append(_with_numbered_calls(message, numbers))
    return tuple(plain)


def _with_numbered_calls(message: Message, numbers: dict[str, str]) -> dict[str, Any]:
    """The message without unset fields; its random tool-call ids become ``call_1``, ``call_2``, ... as they appear.

    ``numbers`` holds the ids of the messages before, and takes up the new ones.
    """

    def numbered(call_id: object) -> str:
        return numbers.setdefault(str(call_id), f"call_{len(numbers) + 1}")

    plain = {key: value for key, value in message.items() if value is not None}
    calls = plain.get("tool_calls")
    if isinstance(calls, Sequence) and not isinstance(calls, str):
        plain["tool_calls"] = [
            {**call, "id": numbered(call["id"])} if isinstance(call, Mapping) and call.get("id") is not None else call
            for call in calls
        ]
    if "tool_call_id" in plain:
        plain["tool_call_id"] = numbered(plain["tool_call_id"])
    return plain


def _short(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 80 else text[:77] + "..."

"""The messages of one trajectory, checked and without what tells equal trajectories apart by chance."""

import hashlib
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from judges.errors import JudgeInputError
from judges.llm.prompt_text import as_plain
from judges.scoring.types import Message

_DATA_URL = re.compile(r"data:[\w.+-]+/[\w.+-]+(?:;[\w.=+-]+)*;base64,")
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
    """The messages of one trajectory without unset fields and data of files, and with numbered tool-call ids.

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
            plain.append(_without_data(_with_numbered_calls(message, numbers)))
        except RecursionError:
            raise JudgeInputError(f"message {number} of trajectory {place} is nested too deeply") from None
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
        calls = [as_plain(call) if hasattr(call, "model_dump") else call for call in calls]
        plain["tool_calls"] = [
            {**call, "id": numbered(call["id"])} if isinstance(call, Mapping) and call.get("id") is not None else call
            for call in calls
        ]
    if "tool_call_id" in plain:
        plain["tool_call_id"] = numbered(plain["tool_call_id"])
    return plain


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
    if not url and not (name in ("data", "file_data") and re.fullmatch(r"[\w+/=-]+", value, re.ASCII)):
        return value
    digest = hashlib.sha256(value.encode("utf-8", "surrogatepass")).hexdigest()
    return f"{url.group() if url else ''}({len(value)} characters, not shown; SHA-256 {digest[:12]})"

"""Reads an assistant turn: which tools does it call, and with which arguments?

It understands `<tool_call>` tags (the closing tag may be missing), bare JSON, JSON in a code fence, and an OpenAI
assistant message as JSON. A call is `{"name": ..., "arguments": {...}}`; the arguments may be a JSON string, as OpenAI
writes them. A turn of plain prose is an answer. Text that tries to be a call and is none becomes a `CallFault`. Nothing
here raises, whatever the model writes. Whether the tool and its arguments exist is checked by the toolbox.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from email_env.search.query import shown

TOOL_NAMES = ("search_inbox", "read_email", "return_final_answer")
MAX_ACTION_CHARS = 32_768

_MAX_JSON_STARTS = 20  # a bound on the work that a turn full of braces can make
_DECODER = json.JSONDecoder(strict=False)
_OPEN = re.compile(r"<tool_call>\s*")
_CLOSE = re.compile(r"\s*</tool_call>")
_END_OF_TURN = ("<|im_end|>", "<|endoftext|>", "<|eot_id|>", "</s>")
_THOUGHT = re.compile(r"\s*<think>.*?(?:</think>|$)", re.DOTALL)
_CALL_LIKE = re.compile(rf"[{{}}]|</?[\w|]*(?:tool|function)|{'|'.join(TOOL_NAMES)}", re.IGNORECASE)
_FORM = 'Write <tool_call>{"name": ..., "arguments": {...}}</tool_call>'


class ErrorCode(StrEnum):
    """What was wrong with an action."""

    NONE = ""
    """Nothing."""
    BAD_JSON = "bad_json"
    """It tries to be a call but is not JSON of the right form."""
    UNKNOWN_TOOL = "unknown_tool"
    """It calls a tool that does not exist."""
    BAD_ARGS = "bad_args"
    """An argument is unknown, missing or cannot be used."""
    NO_TOOL_CALL = "no_tool_call"
    """It is empty, or speaks of tools without calling one."""


@dataclass(frozen=True, slots=True)
class ToolCall:
    """One call, not yet checked. `call_id` is the OpenAI id, "" where there is none."""

    name: str
    arguments: dict[str, Any]
    call_id: str = ""


@dataclass(frozen=True, slots=True)
class CallFault:
    """Text that should have been a call. `message` is written for the model."""

    code: ErrorCode
    message: str
    call_id: str = ""


@dataclass(frozen=True, slots=True)
class Action:
    """An assistant turn: calls and faults in the order written, or `prose` where it has none."""

    calls: tuple[ToolCall | CallFault, ...] = ()
    prose: str = ""


def parse_action(text: object) -> Action:
    """The calls of an assistant turn, or its prose; never raises."""
    if not isinstance(text, str):
        fault = f"an action must be text, got {type(text).__name__}. {_FORM}."
        return Action((CallFault(ErrorCode.NO_TOOL_CALL, fault),))
    return _parse(text, may_unwrap=True)


def _parse(text: str, *, may_unwrap: bool) -> Action:
    text = _without_thought(_without_end_of_turn(text)).strip()
    if not text:
        return _fault(ErrorCode.NO_TOOL_CALL, "the turn is empty. Call a tool, or give the answer.")
    if text[0] in "{[" and (value := _decode_whole(text)) is not None:
        if may_unwrap and isinstance(value, dict) and "content" in value and not _holds_calls(value):
            return _parse(value["content"] if isinstance(value["content"], str) else "", may_unwrap=False)
        return Action(tuple(_calls_in(value)))
    if _OPEN.search(text):
        return Action(tuple(_tagged_calls(text)))
    if calls := tuple(_embedded_calls(text)):
        return Action(calls)
    if "{" in text or "}" in text:
        return _fault(ErrorCode.BAD_JSON, f"the tool call is not valid JSON: {shown(text)}. {_FORM}.")
    if _CALL_LIKE.search(text):
        return _fault(ErrorCode.NO_TOOL_CALL, f"no tool was called: {shown(text)}. {_FORM}.")
    return Action(prose=text)


def _fault(code: ErrorCode, message: str) -> Action:
    return Action((CallFault(code, message),))


def _without_end_of_turn(text: str) -> str:
    """The text without the end-of-turn tokens that some servers leave in."""
    text = text.rstrip()
    while text.endswith(_END_OF_TURN):
        text = text[: max(map(text.rfind, _END_OF_TURN))].rstrip()
    return text


def _without_thought(text: str) -> str:
    """The text after a reasoning block, whose opening tag may have been part of the prompt."""
    if thought := _THOUGHT.match(text):
        return text[thought.end() :]
    before, closed, after = text.partition("</think>")
    said = closed and "<tool_call>" not in before and _decode_whole(text.strip()) is None  # else it is in a string
    return after if said else text


def _decode(text: str, start: int) -> tuple[Any, int] | None:
    """The JSON value at `start` and where it ends, or None."""
    try:
        return _DECODER.raw_decode(text, start)
    except (ValueError, RecursionError):  # RecursionError: a thousand brackets
        return None


def _decode_whole(text: str) -> Any | None:
    decoded = _decode(text, 0)
    return decoded[0] if decoded and not text[decoded[1] :].strip() else None


def _tagged_calls(text: str) -> Iterator[ToolCall | CallFault]:
    """What stands in `<tool_call>` tags. Reading goes on behind each JSON value, so a tag inside a string is no tag."""
    position = 0
    while opening := _OPEN.search(text, position):
        decoded = _decode(text, opening.end())
        position = opening.end()
        if decoded is None:
            inside = re.split("</?tool_call>", text[position:], maxsplit=1)[0].strip()
            yield CallFault(ErrorCode.BAD_JSON, f"the tool call is not valid JSON: {shown(inside)}. {_FORM}.")
            continue
        yield from _calls_in(decoded[0])
        position = decoded[1]
        # A tag may hold several values, one after the other.
        while not _CLOSE.match(text, position) and (decoded := _decode(text, _skip_blanks(text, position))) is not None:
            yield from _calls_in(decoded[0])
            position = decoded[1]


def _skip_blanks(text: str, position: int) -> int:
    while position < len(text) and text[position].isspace():
        position += 1
    return position


def _embedded_calls(text: str) -> Iterator[ToolCall | CallFault]:
    """Calls as JSON objects amid other text, e.g. in a code fence."""
    position = -1
    for _ in range(_MAX_JSON_STARTS):
        position = text.find("{", position + 1)
        if position < 0:
            return
        if decoded := _decode(text, position):
            value, end = decoded
            if _holds_calls(value):
                yield from _calls_in(value)
            position = end - 1


def _is_call(value: Any) -> bool:
    return isinstance(value, dict) and ("name" in value or isinstance(value.get("function"), dict))


def _holds_calls(value: dict[str, Any]) -> bool:
    return _is_call(value) or bool(value.get("tool_calls"))


def _calls_in(value: Any) -> Iterator[ToolCall | CallFault]:
    """The calls of a decoded JSON value: one call, a list of them, or an OpenAI assistant message."""
    if isinstance(value, dict) and not _is_call(value) and isinstance(value.get("tool_calls"), list):
        value = value["tool_calls"]
    if isinstance(value, list) and value:
        for item in value:
            yield _call(item)
    else:
        yield _call(value)


def _call(value: Any) -> ToolCall | CallFault:
    call_id = value.get("id") if isinstance(value, dict) else None
    call_id = call_id if isinstance(call_id, str) else ""
    if isinstance(value, dict) and isinstance(value.get("function"), dict):
        value = value["function"]
    name = value.get("name") if isinstance(value, dict) else None
    if not isinstance(name, str):
        return CallFault(ErrorCode.BAD_JSON, f'a tool call needs "name" and "arguments", got {shown(value)}.', call_id)
    arguments = value.get("arguments", value.get("parameters"))
    if isinstance(arguments, str):
        text = arguments.strip()
        arguments = _decode_whole(text) if text else {}
        if arguments is None and text != "null":
            return CallFault(ErrorCode.BAD_JSON, f"the arguments of {name} are not valid JSON: {shown(text)}.", call_id)
    if arguments is None:
        arguments = {}
    if not isinstance(arguments, dict):
        return CallFault(
            ErrorCode.BAD_ARGS, f"the arguments of {name} must be an object, got {shown(arguments)}.", call_id
        )
    return ToolCall(name, arguments, call_id)

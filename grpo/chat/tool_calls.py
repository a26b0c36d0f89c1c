"""Which tools does an assistant turn call, with what? Text in, calls or one fault out; never an exception.

Understood are ``<tool_call>`` tags (a missing closing tag is forgiven), bare JSON, JSON amid prose or in a code fence,
and an OpenAI assistant message. A turn without anything of the kind has no calls: what it means is the env's question,
and so is whether the tool and its arguments exist.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from typing import Any

ANSWER_TOOL = "return_final_answer"
"""An env's tool of this name takes the final answer: ``answer`` and ``sources``."""

_MAX_JSON_STARTS = 20  # a bound on the work that a turn full of braces can make
_DECODER = json.JSONDecoder(strict=False)
_OPEN = re.compile(r"<tool_call>\s*")
_END_OF_TURN = re.compile(r"(?:\s|<\|im_end\|>|<\|endoftext\|>|<\|eot_id\|>|<\|eom_id\|>|</s>)+$")
_THOUGHT = re.compile(r"^\s*(?:<think>.*?(?:</think>|\Z)|(?:(?!<tool_call>).)*?</think>)", re.DOTALL)
"""A thought may speak of tags; where its opening tag was part of the prompt, a call ends the search for its end."""


@dataclass(frozen=True, slots=True)
class Call:
    """One call, not yet checked. ``call_id`` is OpenAI's, "" where there is none."""

    name: str
    arguments: Any
    call_id: str = ""


@dataclass(frozen=True, slots=True)
class Turn:
    """An assistant turn: its calls in order; or ``text``, where it calls nothing; or a ``fault``, with why."""

    calls: tuple[Call, ...] = ()
    text: str = ""
    fault: str = ""


def parse_turn(text: str) -> Turn:
    """Read an assistant turn."""
    text = _END_OF_TURN.sub("", text).strip()
    value = _whole(text)
    if value is None:  # else a tag of a thought stands in a string
        text = without_thought(text)
        value = _whole(text)
    if isinstance(value, dict) and isinstance(value.get("content"), str) and not _is_call_like(value):
        text = value["content"].strip()
        value = _whole(text)
    if _is_call_like(value):
        return _turn([value])
    if _OPEN.search(text):
        tagged = _tagged(text)
        return Turn(fault=f"the tool call is not valid JSON: {shown(text)}") if tagged is None else _turn(tagged)
    if value is None and (found := _embedded(text)):
        return _turn(found)
    return Turn(text=text)


def without_thought(text: str) -> str:
    """An assistant turn without the reasoning before it, which some servers leave in; empty where it is not closed."""
    return _THOUGHT.sub("", text).strip()


def final_answer(text: str) -> tuple[str, list[str], bool] | None:
    """What an assistant turn that ended its episode answers: the answer, its sources, and whether it is prose.

    None where it calls something else than the answer tool.
    """
    turn = parse_turn(text)
    if not turn.calls:
        return None if turn.fault else (turn.text, [], True)
    for call in turn.calls:
        if call.name == ANSWER_TOOL and isinstance(call.arguments, dict):
            sources = call.arguments.get("sources") or []
            listed = sources if isinstance(sources, list) else [sources]
            return str(call.arguments.get("answer", "")), [*map(str, listed)], False
    return None


def shown(value: Any, limit: int = 120) -> str:
    """A value as a message may quote it: one line, cut to ``limit`` characters."""
    text = value if isinstance(value, str) else json.dumps(value, default=str)
    text = " ".join(text.split())
    return repr(text if len(text) <= limit else text[: limit - 3] + "...")


def _decode(text: str, start: int) -> tuple[Any, int] | None:
    """The JSON value at ``start`` and where it ends, or None."""
    try:
        return _DECODER.raw_decode(text, start)
    except (ValueError, RecursionError):  # RecursionError: a thousand brackets
        return None


def _tagged(text: str) -> list[Any] | None:
    """The JSON value behind each opening tag, or None where one is none; a tag inside a value's strings is text."""
    found: list[Any] = []
    position = 0
    while opened := _OPEN.search(text, position):
        decoded = _decode(text, opened.end())
        if decoded is None:
            return None
        value, position = decoded
        found.append(value)
    return found


def _whole(text: str) -> Any:
    decoded = _decode(text, 0)
    return decoded[0] if decoded and not text[decoded[1] :].strip() else None


def _embedded(text: str) -> list[Any]:
    """JSON objects amid other text that are calls."""
    found: list[Any] = []
    position = -1
    for _ in range(_MAX_JSON_STARTS):
        position = text.find("{", position + 1)
        if position < 0:
            break
        if decoded := _decode(text, position):
            found += [decoded[0]] if _is_call_like(decoded[0]) else []
            position = decoded[1] - 1
    return found


def _is_call_like(value: Any) -> bool:
    if isinstance(value, list):
        return bool(value) and all(_is_call_like(item) for item in value)
    return isinstance(value, dict) and ("name" in value or bool(value.keys() & {"function", "tool_calls"}))


def _turn(values: list[Any]) -> Turn:
    calls: list[Call] = []
    for value in values:
        if isinstance(value, dict) and isinstance(value.get("tool_calls"), list):
            value = value["tool_calls"]
        for item in value if isinstance(value, list) else [value]:
            call = _call(item)
            if call is None:
                return Turn(fault=f'a tool call needs "name" and "arguments", got {shown(item)}')
            calls.append(call)
    return Turn(tuple(calls))


def _call(value: Any) -> Call | None:
    if not isinstance(value, dict):
        return None
    call_id = value.get("id")
    function = value.get("function")
    body: dict[str, Any] = function if isinstance(function, dict) else value
    name, arguments = body.get("name"), body.get("arguments", body.get("parameters"))
    if isinstance(arguments, str):
        arguments = _whole(arguments)
    if not isinstance(name, str):
        return None
    return Call(name, arguments, call_id if isinstance(call_id, str) else "")

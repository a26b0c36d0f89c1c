"""Reads an assistant turn: which tools does it call, and with which arguments? It also writes a call.

It understands `<tool_call>` tags (the closing tag may be missing), bare JSON, JSON amid prose or in a code fence, and
an OpenAI assistant message as JSON. A call is `{"name": ..., "arguments": {...}}`; the arguments may be a JSON string,
as OpenAI writes them. It also understands calls as Qwen3.5 (`<function=...>` in the tags) and LFM2 write them (Python
in tags of its own). Text that tries to be a call and is none becomes a `Fault`. A turn without anything of the kind
is its text: what it means is the env's question, and so is whether the tool and its arguments exist. Nothing here
raises, whatever the model writes.
"""

import ast
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from functools import lru_cache
from typing import Any

from judges.common.text import shown

_MAX_JSON_STARTS = 20  # a bound on the work that a turn full of braces can make
_DECODER = json.JSONDecoder(strict=False)
_OPEN = re.compile(r"<tool_call>\s*")
_REST = re.compile(r"\s*(</tool_call>)?")
_FUNCTION = re.compile(r"<function=([^>\n]*)>")
_PARAMETER = re.compile(r"\s*<parameter=([^>\n]*)>\n?(.*?)\n?</parameter>", re.DOTALL)
_END_OF_FUNCTION = re.compile(r"\s*</function>")
_PYTHON_CALLS = re.compile(r"<\|tool_call_start\|>(.*?)(?:<\|tool_call_end\|>|\Z)", re.DOTALL)
_OWN_FORM = re.compile(r"<tool_call>\s*<function=|<\|tool_call_start\|>")
_KINDS = {
    "integer": (int,),
    "number": (int, float),
    "boolean": (bool,),
    "array": (list,),
    "object": (dict,),
    "null": (type(None),),
}
_JSON_WORDS = {"true": True, "false": False, "null": None}
_END_OF_TURN = ("<|im_end|>", "<|endoftext|>", "<|eot_id|>", "<|eom_id|>", "</s>")
_THOUGHT = re.compile(r"\s*(?:<think>.*?(?:</think>|\Z)|(?:(?!<tool_call>).)*?</think>)", re.DOTALL)
"""A thought may speak of tags; where its opening tag was part of the prompt, a call ends the search for its end."""


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
class Call:
    """One call, not yet checked. `call_id` is the OpenAI id, "" where there is none."""

    name: str
    arguments: dict[str, Any]
    call_id: str = ""


@dataclass(frozen=True, slots=True)
class Fault:
    """Text that should have been a call. `message` is written for the model, without a full stop."""

    code: ErrorCode
    message: str
    call_id: str = ""


@dataclass(frozen=True, slots=True)
class ParsedTurn:
    """An assistant turn: calls and faults in the order written, or `text` where it has none."""

    items: tuple[Call | Fault, ...] = ()
    text: str = ""

    @property
    def fault(self) -> Fault | None:
        """The first fault."""
        return next((item for item in self.items if isinstance(item, Fault)), None)

    @property
    def calls(self) -> tuple[Call, ...]:
        """The calls of a turn without a fault."""
        return () if self.fault else tuple(item for item in self.items if isinstance(item, Call))


@lru_cache(maxsize=16)  # the env reads a turn, and whoever keeps the answer of its episode reads it again
def parse_turn(text: str) -> ParsedTurn:
    """Reads an assistant turn; arguments of calls are not to be changed."""
    text = _without_end_of_turn(text)
    value = whole_json(text)
    if value is None:  # else a tag of a thought stands in a string
        text = without_thought(text)
        value = whole_json(text)
    if isinstance(value, dict) and "content" in value and not _is_call_like(value):
        content = value["content"] if isinstance(value["content"], str) else ""
        text = without_thought(_without_end_of_turn(content))
        value = whole_json(text)
    if _is_call_like(value):
        return ParsedTurn(tuple(_calls_in(value)))
    if isinstance(value, dict | list):  # a tag in a string of it is no tag
        return ParsedTurn(text=text)
    python = _PYTHON_CALLS.search(text)
    read = _python_calls if python else _tagged_calls if _OPEN.search(text) else _embedded_calls
    items = tuple(read(text))
    return ParsedTurn(items) if items else ParsedTurn(text=text)


def without_thought(text: str) -> str:
    """An assistant turn without the reasoning before it, which some servers leave in; empty where it is not closed."""
    return split_thought(text)[1]


def split_thought(text: str) -> tuple[str, str]:
    """The reasoning before an assistant turn, and the turn; the latter is empty where the former is not closed."""
    thought = _THOUGHT.match(text)
    if thought is None:
        return "", text.strip()
    return re.sub("</?think>", "", thought[0]).strip(), text[thought.end() :].strip()


def in_json(text: str, tools: Sequence[Mapping[str, Any]]) -> str:
    """A turn whose calls are in a model's own form, with its calls as `format_call` writes them; any other as it is.

    Values are what the schema of the tool says, as far as they can be: a form without quotes does not tell `"1"` from
    `1`. So an env reads calls in JSON alone.

    Args:
        text: An assistant turn.
        tools: OpenAI function schemas.
    """
    own = _OWN_FORM.search(text)
    calls = parse_turn(text).calls if own else ()
    if own is None or not calls:
        return text
    schemas = {tool["function"]["name"]: tool["function"].get("parameters") or {} for tool in tools}
    written = []
    for call in calls:
        properties = schemas.get(call.name, {}).get("properties") or {}
        arguments = {name: _typed(value, properties.get(name) or {}) for name, value in call.arguments.items()}
        written.append(format_call(call.name, arguments))
    return "\n".join([*filter(None, [text[: own.start()].strip()]), *written])


def _typed(value: Any, schema: Mapping[str, Any]) -> Any:
    kinds = {kind for part in (schema, *schema.get("anyOf", ())) for kind in _listed(part.get("type"))}
    if isinstance(value, str) and kinds and "string" not in kinds:
        return {"True": True, "False": False, "None": None}.get(value, value)
    is_meant = not kinds or isinstance(value, str) or any(isinstance(value, _KINDS.get(kind, ())) for kind in kinds)
    return value if is_meant or "string" not in kinds else json.dumps(value, ensure_ascii=False)


def _listed(value: Any) -> list[Any]:
    return value if isinstance(value, list) else [value] if value else []


def format_call(name: str, arguments: Any) -> str:
    """A tool call in the canonical form, `<tool_call>` tags around one JSON object."""
    call = json.dumps({"name": name, "arguments": arguments}, ensure_ascii=False)
    return f"<tool_call>\n{call}\n</tool_call>"


def mcp_tools(schemas: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """OpenAI function schemas as MCP writes tools."""
    functions = [{"description": "", "parameters": {"type": "object"}, **schema["function"]} for schema in schemas]
    return [{"name": f["name"], "description": f["description"], "inputSchema": f["parameters"]} for f in functions]


def call_action(name: str, arguments: Any) -> str:
    """A call that came by an API as the turn of an assistant, whatever its arguments are."""
    return json.dumps({"name": name, "arguments": arguments}, ensure_ascii=False, default=str)


def message_action(message: Mapping[str, Any]) -> str:
    """An OpenAI assistant message as a turn: its text, or where it has ``tool_calls`` the message as JSON."""
    if not message.get("tool_calls"):
        return message.get("content") or ""
    said = {"role": "assistant", "content": message.get("content"), "tool_calls": message["tool_calls"]}
    return json.dumps(said, ensure_ascii=False)


def answer_every_call(calls: list[dict[str, Any]], messages: list[dict[str, Any]], start: int) -> None:
    """Give the env's replies from ``start`` on the ids of the calls they answer, and add what APIs insist on.

    An env that answers under ids has not run what it does not answer. Of another one, nobody knows what it ran.
    """
    answered = {message["tool_call_id"] for message in messages[start:] if message.get("tool_call_id")}
    open_ids = [call["id"] for call in calls if call.get("id") and call["id"] not in answered]
    said = "Not run." if answered else "The next message answers all calls of this turn."
    for message in messages[start:]:
        if message["role"] == "tool" and not message.get("tool_call_id") and open_ids:
            message["tool_call_id"] = open_ids.pop(0)
    place = start
    for call_id in open_ids:
        messages.insert(place, {"role": "tool", "tool_call_id": call_id, "content": said})
        place += 1


def whole_json(text: str) -> Any:
    """The JSON value that a text is; None where it is none, or null."""
    decoded = _decode(text, 0)
    return decoded[0] if decoded and not text[decoded[1] :].strip() else None


def _decode(text: str, start: int) -> tuple[Any, int] | None:
    """The JSON value at `start` and where it ends, or None."""
    try:
        return _DECODER.raw_decode(text, start)
    except (ValueError, RecursionError):  # RecursionError: a thousand brackets
        return None


def _without_end_of_turn(text: str) -> str:
    """The text without blanks around it and the end-of-turn tokens that some servers leave in."""
    text = text.strip()
    while text.endswith(_END_OF_TURN):
        text = text[: text.rfind("<")].rstrip()
    return text


def _tagged_calls(text: str) -> Iterator[Call | Fault]:
    """What stands in `<tool_call>` tags. Reading goes on behind each JSON value, so a tag inside a string is no tag."""
    position = 0
    while opening := _OPEN.search(text, position):
        position = opening.end()
        if function := _FUNCTION.match(text, position):
            call, position = _function_call(text, function)
            yield call
            continue
        decoded = _decode(text, position)
        if decoded is None:
            inside = re.split("</?tool_call>", text[position:], maxsplit=1)[0].strip()
            yield Fault(ErrorCode.BAD_JSON, f"the tool call is not valid JSON: {shown(inside)}")
        while decoded is not None:  # a tag may hold several values, one after the other
            value, position = decoded
            yield from _calls_in(value)
            rest = _REST.match(text, position)
            assert rest, "it matches anywhere"
            decoded = None if rest[1] else _decode(text, rest.end())


def _function_call(text: str, function: re.Match[str]) -> tuple[Call | Fault, int]:
    """A call of the form `<function=NAME><parameter=NAME>value</parameter></function>`, and where it ends.

    A value ends with the first closing tag. It is JSON where it can be nothing but text otherwise: the env's schema
    tells which is meant.
    """
    arguments: dict[str, Any] = {}
    position = function.end()
    while parameter := _PARAMETER.match(text, position):
        arguments[parameter[1].strip()] = _untyped(parameter[2])
        position = parameter.end()
    if end := _END_OF_FUNCTION.match(text, position):
        return Call(function[1].strip(), arguments), end.end()
    message = f"the tool call does not end with </parameter> and </function>: {shown(text[position:].strip())}"
    return Fault(ErrorCode.BAD_JSON, message), len(text)


def _untyped(text: str) -> Any:
    """What a value without quotes is: JSON, if it is an object, a list, or spelled as JSON spells it; else text."""
    value = whole_json(text)
    is_spelled = isinstance(value, dict | list) or (not isinstance(value, str) and json.dumps(value) == text)
    return value if is_spelled else text


def _python_calls(text: str) -> Iterator[Call | Fault]:
    """Calls as a list of Python's, `[name(key="value")]`; words of JSON's are values, too."""
    for block in _PYTHON_CALLS.findall(text):
        try:
            listed: Any = ast.parse(block.strip(), mode="eval").body
            yield from [_python_call(call) for call in listed.elts]
        except (SyntaxError, ValueError, TypeError, RecursionError, MemoryError, AttributeError):
            yield Fault(ErrorCode.BAD_JSON, f"the tool calls are no list of calls: {shown(block.strip())}")


def _python_call(call: Any) -> Call:
    if call.args:
        raise ValueError("an argument has no name")
    words = _JsonWords()
    arguments = {keyword.arg: ast.literal_eval(words.visit(keyword.value)) for keyword in call.keywords}
    return Call(ast.unparse(call.func), json.loads(json.dumps(arguments)))


class _JsonWords(ast.NodeTransformer):
    """Takes `true`, `false` and `null` for values."""

    def visit_Name(self, node: ast.Name) -> ast.AST:
        return ast.Constant(_JSON_WORDS[node.id]) if node.id in _JSON_WORDS else node


def _embedded_calls(text: str) -> Iterator[Call | Fault]:
    """Calls as JSON objects amid other text, e.g. in a code fence."""
    position = -1
    for _ in range(_MAX_JSON_STARTS):
        position = text.find("{", position + 1)
        if position < 0:
            return
        if decoded := _decode(text, position):
            value, end = decoded
            if _is_call_like(value):
                yield from _calls_in(value)
            position = end - 1


def _is_call_like(value: Any) -> bool:
    """Whether a JSON value is a call, a list with one, or an OpenAI message with some."""
    return any(
        isinstance(item, dict)
        and ("name" in item or isinstance(item.get("function"), dict) or bool(item.get("tool_calls")))
        for item in (value if isinstance(value, list) else [value])
    )


def _calls_in(value: Any) -> Iterator[Call | Fault]:
    if isinstance(value, dict) and isinstance(value.get("tool_calls"), list) and value["tool_calls"]:
        value = value["tool_calls"]
    for item in value if isinstance(value, list) else [value]:
        yield _call(item)


def _call(value: Any) -> Call | Fault:
    call_id = value.get("id") if isinstance(value, dict) else None
    call_id = call_id if isinstance(call_id, str) else ""
    if isinstance(value, dict) and isinstance(value.get("function"), dict):
        value = value["function"]
    name = value.get("name") if isinstance(value, dict) else None
    if not isinstance(name, str):
        return Fault(ErrorCode.BAD_JSON, no_call(value), call_id)
    arguments = value.get("arguments", value.get("parameters"))
    if isinstance(arguments, str):
        text = arguments.strip()
        arguments = whole_json(text) if text else {}
        if arguments is None and text != "null":
            return Fault(ErrorCode.BAD_JSON, f"the arguments of {name} are not valid JSON: {shown(text)}", call_id)
    if arguments is None:
        arguments = {}
    if not isinstance(arguments, dict):
        return Fault(ErrorCode.BAD_ARGS, f"the arguments of {name} must be an object, got {shown(arguments)}", call_id)
    return Call(name, arguments, call_id)


def no_call(value: Any) -> str:
    """What to tell a model that wrote JSON which is no call."""
    return f'a tool call needs "name" and "arguments", got {shown(value)}'

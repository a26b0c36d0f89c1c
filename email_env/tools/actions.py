"""What an assistant turn means here: its calls, or, where it is plain prose, the answer.

`judges.common.tool_calls` reads the turn. Text without a call is an answer only if nothing in it tries to be one.
"""

import re
from dataclasses import replace

from judges.common.text import shown
from judges.common.tool_calls import Call, ErrorCode, Fault, ParsedTurn, no_call, parse_turn, whole_json

TOOL_NAMES = ("search_inbox", "read_email", "return_final_answer")
MAX_ACTION_CHARS = 32_768

_CALL_LIKE = re.compile(rf"</?[\w|]*(?:tool|function)|{'|'.join(TOOL_NAMES)}", re.IGNORECASE)
_FORM = '. Write <tool_call>{"name": ..., "arguments": {...}}</tool_call>.'


def parse_action(action: object) -> ParsedTurn:
    """The calls of an assistant turn, or its prose; never raises."""
    if not isinstance(action, str):
        return _fault(ErrorCode.NO_TOOL_CALL, f"an action must be text, got {type(action).__name__}{_FORM}")
    if len(action) > MAX_ACTION_CHARS:
        return _fault(ErrorCode.NO_TOOL_CALL, f"a turn may have {MAX_ACTION_CHARS} characters, got {len(action)}.")
    turn = parse_turn(action)
    if turn.items:
        return ParsedTurn(tuple(map(_worded, turn.items)))
    text = turn.text
    if not text:
        return _fault(ErrorCode.NO_TOOL_CALL, "the turn is empty. Call a tool, or give the answer.")
    if text[0] in "{[" and (value := whole_json(text)) is not None:
        return _fault(ErrorCode.BAD_JSON, f"{no_call(value)}{_FORM}")
    if "{" in text or "}" in text:
        return _fault(ErrorCode.BAD_JSON, f"the tool call is not valid JSON: {shown(text)}{_FORM}")
    if _CALL_LIKE.search(text):
        return _fault(ErrorCode.NO_TOOL_CALL, f"no tool was called: {shown(text)}{_FORM}")
    return turn


def _worded(call: Call | Fault) -> Call | Fault:
    """A fault with how it is done right; a call under an id came by an API, which has a form of its own."""
    if isinstance(call, Call):
        return call
    is_written = call.code is ErrorCode.BAD_JSON and not call.call_id
    return replace(call, message=f"{call.message}{_FORM if is_written else '.'}")


def _fault(code: ErrorCode, message: str) -> ParsedTurn:
    return ParsedTurn((Fault(code, message),))

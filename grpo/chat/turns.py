"""Assistant turns that were not sampled, demonstrations above all, as the text that a model would have sampled.

An OpenAI message keeps its calls apart; a policy writes them into its turn, each model in a form of its own.
"""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any

from grpo.calls import parse_turn
from grpo.types import Message

if TYPE_CHECKING:
    from grpo.chat.base import Chat

_CALL_IN_TAGS = re.compile(r"<tool_call>.*?</tool_call>", re.DOTALL)


def hermes_turn(message: Message) -> str:
    """The text of an assistant message, its ``tool_calls`` in the tags of Hermes 2 Pro and Qwen.

    Args:
        message: As OpenAI has it; a call's arguments are JSON or an object.

    Raises:
        ValueError: The arguments of a call are no JSON.
        KeyError: A call has no name.
    """
    parts = [message["content"]] if message.get("content") else []
    bodies = [json.dumps(call["function"], ensure_ascii=False) for call in calls_of(message)]
    return "\n".join([*parts, *(f"<tool_call>\n{body}\n</tool_call>" for body in bodies)])


def calls_of(message: Message) -> list[dict[str, Any]]:
    """The ``tool_calls`` of an assistant message as templates take them: wrapped, arguments as an object."""
    calls: list[dict[str, Any]] = []
    for call in message.get("tool_calls") or ():
        function = call.get("function", call)
        arguments = function.get("arguments", {})
        arguments = json.loads(arguments) if isinstance(arguments, str) else arguments
        calls.append({"type": "function", "function": {"name": function["name"], "arguments": arguments}})
    return calls


def own_form(chat: Chat, text: str, tools: list[dict[str, Any]]) -> str:
    """A turn of nothing but calls in ``<tool_call>`` tags, as the model itself writes calls; any other as it is."""
    calls = [{"name": call.name, "arguments": call.arguments} for call in parse_turn(text).calls]
    if not calls or _CALL_IN_TAGS.sub("", text).strip() or not all(isinstance(c["arguments"], dict) for c in calls):
        return text
    own = chat.turn_text({"role": "assistant", "tool_calls": calls}, tools)
    return text if own.startswith("<tool_call>") else own

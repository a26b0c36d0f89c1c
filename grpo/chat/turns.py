"""OpenAI assistant messages as the text that a model would have sampled; demonstrations need it above all.

An OpenAI message keeps its calls apart. A policy writes them into its turn, and each model has a form of its own.
"""

from __future__ import annotations

import json
from typing import Any

from grpo.types import Message


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
    """The ``tool_calls`` of an assistant message as templates take them: wrapped, arguments as an object, ids kept."""
    calls: list[dict[str, Any]] = []
    for call in message.get("tool_calls") or ():
        function = call.get("function", call)
        arguments = function.get("arguments", {})
        arguments = json.loads(arguments) if isinstance(arguments, str) else arguments
        own = {"id": call["id"]} if call.get("id") else {}
        calls.append({**own, "type": "function", "function": {"name": function["name"], "arguments": arguments}})
    return calls

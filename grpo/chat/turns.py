"""Assistant turns as text: what an OpenAI message would have been when it was sampled, and what a last turn answers.

An OpenAI message keeps its calls apart. A policy writes them into its turn, and each model has a form of its own.
"""

import json
from typing import Any

from grpo.types import Message
from judges.common.tool_calls import format_call, parse_turn

ANSWER_TOOL = "return_final_answer"
"""An env's tool of this name takes the final answer: ``answer`` and ``sources``."""


def hermes_turn(message: Message) -> str:
    """The text of an assistant message, its ``tool_calls`` in the tags of Hermes 2 Pro and Qwen.

    Args:
        message: As OpenAI has it; a call's arguments are JSON or an object.

    Raises:
        ValueError: The arguments of a call are no JSON.
        KeyError: A call has no name.
    """
    parts = [message["content"]] if message.get("content") else []
    return "\n".join([*parts, *(format_call(**call["function"]) for call in calls_of(message))])


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


def final_answer(text: str) -> tuple[str, list[str], bool] | None:
    """What an assistant turn that ended its episode answers: the answer, its sources, and whether it is prose.

    None where it calls something else than the answer tool.
    """
    turn = parse_turn(text)
    if not turn.items:
        return turn.text, [], True
    for call in turn.calls:
        if call.name == ANSWER_TOOL:
            sources = call.arguments.get("sources") or []
            listed = sources if isinstance(sources, list) else [sources]
            return str(call.arguments.get("answer", "")), [*map(str, listed)], False
    return None

"""ChatML with tools in the system message, for models whose own template has none.

The layout of calls is the one of Hermes 2 Pro and Qwen2.5: JSON in ``<tool_call>`` tags. Nothing is ever rewritten.
"""

from __future__ import annotations

from typing import Any

from grpo.chat.base import BaseChat
from grpo.types import Message

CALL_FORMAT = '<tool_call>\n{"name": NAME, "arguments": {...}}\n</tool_call>'


class HermesChat(BaseChat):
    """ChatML with ``<tool_call>`` turns for models whose template has no tools."""

    def __init__(self, tokenizer: Any):
        super().__init__(tokenizer, "<|im_end|>")

    def prompt_ids(self, messages: list[Message], tools: list[dict[str, Any]]) -> list[int]:
        """The messages as ChatML, the tools described in the system message."""
        described = describe_tools(tools)
        messages = self._without_control(messages)
        if described and messages[:1] and messages[0]["role"] == "system":
            messages[0] = {**messages[0], "content": f"{messages[0]['content']}\n{described}"}
        elif described:
            messages = [{"role": "system", "content": described}, *messages]
        text = "".join(f"<|im_start|>{m['role']}\n{m['content']}<|im_end|>\n" for m in messages)
        return self.encode(text + "<|im_start|>assistant\n")

    def delta_ids(self, history: list[Message], new: list[Message], tools: list[dict[str, Any]]) -> list[int]:
        """The newline that ends the assistant's turn, the messages, and the head of the next turn."""
        text = "".join(f"\n<|im_start|>{m['role']}\n{m['content']}<|im_end|>" for m in self._without_control(new))
        return self._encode_after_turn(text + "\n<|im_start|>assistant\n")

    def rewritten_ids(
        self, history: list[Message], new: list[Message], tools: list[dict[str, Any]]
    ) -> list[int] | None:
        """None: what was said stays."""
        return None


def describe_tools(tools: list[dict[str, Any]]) -> str:
    """Tool schemas as one signature a line (``name(required, optional?)``) and the call format; short on purpose."""
    if not tools:
        return ""
    lines = ["Tools:"]
    for tool in tools:
        function = tool.get("function", tool)
        parameters = function.get("parameters", {})
        required = set(parameters.get("required", ()))
        names = [name if name in required else f"{name}?" for name in parameters.get("properties", {})]
        lines.append(f"{function['name']}({', '.join(names)})")
    return "\n".join([*lines, "Call one tool per turn:", CALL_FORMAT])

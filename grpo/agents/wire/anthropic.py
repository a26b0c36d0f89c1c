"""Anthropic's messages (POST /v1/messages)."""

import json
from collections.abc import Iterator
from typing import Any

from grpo.agents.wire.form import Asked, Form, Said, function_tool, joined, listed, rest_of
from grpo.types import Message

COUNT_TOKENS = "messages/count_tokens"
"""Where the tokens of a request are counted, and nothing is asked."""


class Messages(Form):
    """See the module."""

    path = "messages"

    def read(self, body: dict[str, Any]) -> Asked:
        """See `Form`."""
        system = joined(body.get("system"))
        messages: list[Message] = [{"role": "system", "content": system}] if system else []
        for message in listed(body, "messages"):
            messages += _messages(message)
        tools = listed(body, "tools")
        if other := sorted({str(tool["type"]) for tool in tools if tool.get("type") not in (None, "custom")}):
            raise ValueError(f"tools of the kind {', '.join(other)} are run by nobody here; offer tools with a schema")
        return Asked(
            messages,
            [function_tool(tool.get("name"), tool.get("description"), tool.get("input_schema")) for tool in tools],
            body.get("max_tokens"),
            bool(body.get("stream")),
            rest_of(body, "messages", "system", "tools", "max_tokens"),
        )

    def whole(self, said: Said, model: str) -> dict[str, Any]:
        """See `Form`."""
        stop = "tool_use" if said.calls else "max_tokens" if said.finish_reason == "length" else "end_turn"
        return {
            "id": f"msg_{said.id}",
            "type": "message",
            "role": "assistant",
            "model": model,
            "content": _blocks(said),
            "stop_reason": stop,
            "stop_sequence": None,
            "usage": {"input_tokens": said.prompt_tokens, "output_tokens": said.completion_tokens},
        }

    def events(self, said: Said, model: str, asked: Asked) -> Iterator[dict[str, Any]]:
        """See `Form`."""
        whole = self.whole(said, model)
        begun = whole | {"content": [], "stop_reason": None, "usage": whole["usage"] | {"output_tokens": 0}}
        yield {"type": "message_start", "message": begun}
        for index, block in enumerate(whole["content"]):
            if block["type"] == "tool_use":
                empty, delta = {"input": {}}, {"type": "input_json_delta", "partial_json": json.dumps(block["input"])}
            elif block["type"] == "thinking":
                empty, delta = {"thinking": ""}, {"type": "thinking_delta", "thinking": block["thinking"]}
            else:
                empty, delta = {"text": ""}, {"type": "text_delta", "text": block["text"]}
            yield {"type": "content_block_start", "index": index, "content_block": block | empty}
            yield {"type": "content_block_delta", "index": index, "delta": delta}
            yield {"type": "content_block_stop", "index": index}
        ended = {"stop_reason": whole["stop_reason"], "stop_sequence": None}
        yield {"type": "message_delta", "delta": ended, "usage": {"output_tokens": said.completion_tokens}}
        yield {"type": "message_stop"}


def _messages(message: dict[str, Any]) -> Iterator[Message]:
    """A message of Anthropic's as OpenAI's: results of tools stand in messages of their own there."""
    content, role = message.get("content"), message.get("role", "user")
    blocks = [{"type": "text", "text": content}] if isinstance(content, str) else listed(message, "content")
    texts = [block for block in blocks if block.get("type") not in ("tool_use", "tool_result", "thinking")]
    calls: list[dict[str, Any]] = []
    for block in blocks:
        if block.get("type") == "tool_result":
            said = joined(block.get("content"))
            yield {"role": "tool", "tool_call_id": block.get("tool_use_id"), "content": said}
        elif block.get("type") == "tool_use":
            function = {"name": block.get("name"), "arguments": json.dumps(block.get("input"), ensure_ascii=False)}
            calls.append({"id": block.get("id"), "type": "function", "function": function})
    if texts or calls or not blocks:
        yield {"role": role, "content": joined(texts)} | ({"tool_calls": calls} if calls else {})


def _blocks(said: Said) -> list[dict[str, Any]]:
    blocks: list[dict[str, Any]] = []
    if said.thought:
        blocks.append({"type": "thinking", "thinking": said.thought, "signature": ""})
    if said.text or not said.calls:
        blocks.append({"type": "text", "text": said.text})
    for call in said.calls:
        blocks.append({"type": "tool_use", "id": call.id, "name": call.name, "input": json.loads(call.arguments)})
    return blocks

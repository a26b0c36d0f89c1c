"""OpenAI's responses (POST /v1/responses). Nothing is stored: each request brings its whole history."""

import time
from collections.abc import Iterator
from typing import Any

from grpo.agents.wire.form import Asked, Said, Spoken, function_tool, joined, listed, rest_of
from grpo.types import Message


class Responses(Spoken):
    """See the module."""

    path = "responses"

    def read(self, body: dict[str, Any]) -> Asked:
        """See `Form`."""
        for name in ("previous_response_id", "conversation", "prompt"):
            if body.get(name):
                raise ValueError(f"{name}: replies are not stored here; send the whole history as input")
        tools = listed(body, "tools")
        if other := sorted({str(tool.get("type")) for tool in tools if tool.get("type") != "function"}):
            raise ValueError(f"tools of the kind {', '.join(other)} are run by nobody here; offer functions")
        given = body.get("input") or []
        items = [{"role": "user", "content": given}] if isinstance(given, str) else listed(body, "input")
        opening = [{"role": "system", "content": body["instructions"]}] if body.get("instructions") else []
        return Asked(
            [*opening, *_messages(items)],
            [function_tool(tool.get("name"), tool.get("description"), tool.get("parameters")) for tool in tools],
            body.get("max_output_tokens"),
            bool(body.get("stream")),
            rest_of(body, "input", "instructions", "tools", "max_output_tokens"),
        )

    def choices(self, body: dict[str, Any]) -> list[tuple[Message, str]]:
        """See `Spoken`; what a provider's own tools say is left out."""
        items = [item for item in body.get("output") or () if item.get("type") in ("message", "function_call")]
        turn = next(_messages(items), {"role": "assistant", "content": ""})
        thoughts = [part.get("text") or "" for item in body.get("output") or () for part in item.get("summary") or ()]
        turn |= {"reasoning_content": "".join(thoughts)} if thoughts else {}
        return [(turn, "length" if body.get("status") == "incomplete" else "stop")]

    def whole(self, said: Said, model: str) -> dict[str, Any]:
        """See `Form`."""
        is_cut = said.finish_reason == "length" and not said.calls
        return {
            "id": f"resp_{said.id}",
            "object": "response",
            "created_at": int(time.time()),
            "model": model,
            "status": "incomplete" if is_cut else "completed",
            "incomplete_details": {"reason": "max_output_tokens"} if is_cut else None,
            "error": None,
            "output": _output(said),
            "parallel_tool_calls": True,
            "tool_choice": "auto",
            "tools": [],
            "usage": {
                "input_tokens": said.prompt_tokens,
                "input_tokens_details": {"cached_tokens": 0},
                "output_tokens": said.completion_tokens,
                "output_tokens_details": {"reasoning_tokens": 0},
                "total_tokens": said.prompt_tokens + said.completion_tokens,
            },
        }

    def events(self, said: Said, model: str, asked: Asked) -> Iterator[dict[str, Any]]:
        """See `Form`."""
        whole = self.whole(said, model)
        pieces = [("response.created", {"response": whole | {"status": "in_progress", "output": []}})]
        for place, item in enumerate(whole["output"]):
            pieces += _item_events(place, item)
        end = "response.incomplete" if whole["status"] == "incomplete" else "response.completed"
        pieces.append((end, {"response": whole}))
        for number, (kind, piece) in enumerate(pieces):
            yield {"type": kind, "sequence_number": number, **piece}


def _messages(items: list[dict[str, Any]]) -> Iterator[Message]:
    """Items as messages: text and calls of one turn become one message again."""
    turn: Message | None = None
    for item in items:
        kind = item.get("type", "message")
        is_turn = kind in ("reasoning", "function_call") or item.get("role") == "assistant"
        if turn is not None and not is_turn:
            yield turn
            turn = None
        if is_turn:
            turn = turn or {"role": "assistant", "content": ""}
            if kind == "function_call":
                function = {"name": item.get("name"), "arguments": item.get("arguments")}
                call = {"id": item.get("call_id"), "type": "function", "function": function}
                turn["tool_calls"] = [*turn.get("tool_calls", ()), call]
            elif kind == "message":
                turn["content"] += joined(item.get("content"))
        elif kind == "function_call_output":
            yield {"role": "tool", "tool_call_id": item.get("call_id"), "content": joined(item.get("output"))}
        elif kind == "message":
            yield {"role": item.get("role", "user"), "content": joined(item.get("content"))}
        else:
            raise ValueError(f"input has an item of the kind {kind!r}; it is read by nobody here")
    if turn is not None:
        yield turn


def _output(said: Said) -> list[dict[str, Any]]:
    output: list[dict[str, Any]] = []
    if said.thought:
        summary = [{"type": "summary_text", "text": said.thought}]
        output.append({"type": "reasoning", "id": f"rs_{said.id}", "summary": summary})
    if said.text or not said.calls:
        content = [{"type": "output_text", "text": said.text, "annotations": []}]
        message = {"type": "message", "id": f"msg_{said.id}", "role": "assistant", "status": "completed"}
        output.append(message | {"content": content})
    for call in said.calls:
        names = {"type": "function_call", "id": f"fc_{call.id}", "call_id": call.id, "name": call.name}
        output.append(names | {"arguments": call.arguments, "status": "completed"})
    return output


def _item_events(place: int, item: dict[str, Any]) -> list[tuple[str, dict[str, Any]]]:
    where: dict[str, Any] = {"output_index": place, "item_id": item["id"]}
    empty, pieces = {"summary": []}, list[tuple[str, dict[str, Any]]]()
    if item["type"] == "message":
        part, inside = item["content"][0], where | {"content_index": 0}
        empty = {"content": [], "status": "in_progress"}
        pieces = [
            ("response.content_part.added", inside | {"part": part | {"text": ""}}),
            ("response.output_text.delta", inside | {"delta": part["text"], "logprobs": []}),
            ("response.output_text.done", inside | {"text": part["text"], "logprobs": []}),
            ("response.content_part.done", inside | {"part": part}),
        ]
    elif item["type"] == "function_call":
        empty = {"arguments": "", "status": "in_progress"}
        pieces = [
            ("response.function_call_arguments.delta", where | {"delta": item["arguments"]}),
            ("response.function_call_arguments.done", where | {"arguments": item["arguments"], "name": item["name"]}),
        ]
    added, done = {"output_index": place, "item": item | empty}, {"output_index": place, "item": item}
    return [("response.output_item.added", added), *pieces, ("response.output_item.done", done)]

"""A scripted model: an OpenAI-compatible server on a real socket that plays a tool loop, whole or streamed.

    with ModelServer(play) as server: ...    # play(messages, tools) -> {"content": ...} or {"calls": [(name, arguments)]}

It speaks `/chat/completions` and `/responses`. `play` sees chat messages in both cases. An int is the status of an error,
an exception closes the connection, {"raw": JSON} is sent as it is and {"events": [JSON, ...]} as a stream. `server.requests` holds what arrived.
"""

import itertools
import json
from collections.abc import Callable, Iterable
from typing import Any

from tests.support.http_stub import HttpStub, Request, Response

Message = dict[str, Any]
Play = Callable[[list[Message], list[dict[str, Any]]], dict[str, Any] | int]

PROMPT_TOKENS, COMPLETION_TOKENS = 100, 10


def in_order(*turns: dict[str, Any] | int) -> Play:
    """Plays one turn after the other, and the last one again and again."""
    left = list(turns)
    return lambda _messages, _tools: left.pop(0) if len(left) > 1 else left[0]


def sums(messages, tools):
    """Calls `double` on the number that is asked for, then says the result."""
    if messages[-1]["role"] == "tool":
        return {"content": messages[-1]["content"]}
    number = int(messages[-1]["content"].split("What is ")[1].split()[0])
    return {"calls": [("double", {"number": number})]}


class ModelServer(HttpStub):
    """Serves while the `with` block lasts."""

    def __init__(self, play: Play, delay_seconds: float = 0.0) -> None:
        super().__init__()
        self.play = play
        self.delay_seconds = delay_seconds
        self.call_ids = (f"call_{number}" for number in itertools.count())

    @property
    def url(self) -> str:
        return f"{super().url}/v1"

    def answer(self, request: Request) -> Response:
        self.wait(self.delay_seconds)
        body, is_chat = request.body, request.path.endswith("/chat/completions")
        turn = self.play(_messages(body, is_chat), body.get("tools") or [])
        if isinstance(turn, int):
            return Response({"error": {"message": f"scripted status {turn}", "code": turn}}, turn)
        if "raw" in turn:
            return Response(turn["raw"], turn.get("status", 200))
        if "events" in turn:
            return _stream(turn["events"], done=True)
        if "error" in turn:
            return Response({"error": turn["error"]}, turn.get("status", 400), turn.get("headers", {}))
        return self._chat(turn, body) if is_chat else self._responses(turn, body)

    def _chat(self, turn: dict[str, Any], body: dict[str, Any]) -> Response:
        calls = [
            {
                "id": next(self.call_ids),
                "type": "function",
                "function": {"name": name, "arguments": json.dumps(arguments)},
            }
            for name, arguments in turn.get("calls", ())
        ]
        message = {"role": "assistant", "content": turn.get("content"), **({"tool_calls": calls} if calls else {})}
        common = {"id": "c1", "created": 1, "model": body["model"]}
        usage = {"prompt_tokens": PROMPT_TOKENS, "completion_tokens": COMPLETION_TOKENS, "total_tokens": 110}
        finish = "tool_calls" if calls else "stop"
        if not body.get("stream"):
            choice = {"index": 0, "finish_reason": finish, "message": message}
            return Response({**common, "object": "chat.completion", "choices": [choice], "usage": usage})
        deltas: list[dict[str, Any]] = [{"role": "assistant", "content": ""}]
        text = turn.get("content") or ""
        deltas += [{"content": text[i : i + 5]} for i in range(0, len(text), 5)]
        for index, call in enumerate(calls):
            arguments = call["function"]["arguments"]
            head = {**call, "index": index, "function": {"name": call["function"]["name"], "arguments": ""}}
            deltas.append({"tool_calls": [head]})
            pieces = [arguments[i : i + 7] for i in range(0, len(arguments), 7)]
            deltas += [{"tool_calls": [{"index": index, "function": {"arguments": piece}}]} for piece in pieces]
        chunks = [{"index": 0, "delta": delta, "finish_reason": None} for delta in deltas]
        chunks.append({"index": 0, "delta": {}, "finish_reason": finish})
        events: list[dict[str, Any]] = [{**common, "object": "chat.completion.chunk", "choices": [c]} for c in chunks]
        if (body.get("stream_options") or {}).get("include_usage"):
            events.append({**common, "object": "chat.completion.chunk", "choices": [], "usage": usage})
        return _stream(events, done=True)

    def _responses(self, turn: dict[str, Any], body: dict[str, Any]) -> Response:
        output: list[dict[str, Any]] = [
            {
                "type": "function_call",
                "id": f"fc_{index}",
                "call_id": next(self.call_ids),
                "name": name,
                "arguments": json.dumps(arguments),
                "status": "completed",
            }
            for index, (name, arguments) in enumerate(turn.get("calls", ()))
        ]
        if turn.get("content"):
            part = {"type": "output_text", "text": turn["content"], "annotations": []}
            output.append(
                {"type": "message", "id": "m1", "role": "assistant", "status": "completed", "content": [part]}
            )
        details = {"input_tokens_details": {"cached_tokens": 0}, "output_tokens_details": {"reasoning_tokens": 0}}
        response = {
            "id": "r1",
            "object": "response",
            "created_at": 1,
            "status": "completed",
            "model": body["model"],
            "output": output,
            "parallel_tool_calls": True,
            "tool_choice": "auto",
            "tools": body.get("tools") or [],
            "usage": {
                "input_tokens": PROMPT_TOKENS,
                "output_tokens": COMPLETION_TOKENS,
                "total_tokens": 110,
                **details,
            },
        }
        if not body.get("stream"):
            return Response(response)
        started = {**response, "status": "in_progress", "output": [], "usage": None}
        events = [{"type": "response.created", "response": started}]
        for index, item in enumerate(output):
            common = {"output_index": index, "item": item}
            events += [
                {"type": "response.output_item.added", **common},
                {"type": "response.output_item.done", **common},
            ]
            if item["type"] == "message":
                where = {"output_index": index, "item_id": "m1", "content_index": 0, "logprobs": []}
                delta = {"type": "response.output_text.delta", "delta": turn["content"], **where}
                events.insert(-1, delta)
        events.append({"type": "response.completed", "response": response})
        return _stream([{**event, "sequence_number": number} for number, event in enumerate(events)], done=False)


def _stream(events: Iterable[dict[str, Any]], *, done: bool) -> Response:
    kinds = (f"event: {event['type']}\n" if "type" in event else "" for event in events)
    parts = [f"{kind}data: {json.dumps(event)}\n\n".encode() for kind, event in zip(kinds, events, strict=True)]
    stream = [*parts, b"data: [DONE]\n\n"] if done else parts
    return Response(headers={"Content-Type": "text/event-stream"}, stream=stream)


def _messages(body: dict[str, Any], is_chat: bool) -> list[Message]:
    """The conversation as chat messages with plain text, whichever way it was sent."""
    if is_chat:
        return [{**message, "content": _text(message.get("content"))} for message in body["messages"]]
    items = body["input"] if isinstance(body["input"], list) else [{"role": "user", "content": body["input"]}]
    messages: list[Message] = []
    if body.get("instructions"):
        messages.append({"role": "system", "content": body["instructions"]})
    for item in items:
        if item.get("type") == "function_call_output":
            messages.append({"role": "tool", "tool_call_id": item["call_id"], "content": _text(item["output"])})
        elif item.get("type") == "function_call":
            function = {"name": item["name"], "arguments": item["arguments"]}
            messages.append({"role": "assistant", "tool_calls": [{"id": item["call_id"], "function": function}]})
        elif "role" in item:
            messages.append({"role": item["role"], "content": _text(item["content"])})
    return messages


def _text(content: Any) -> str:
    if isinstance(content, list):
        return "".join(part.get("text", "") for part in content if isinstance(part, dict))
    return content or ""

"""OpenAI's chat completions (POST /v1/chat/completions)."""

import time
from collections.abc import Iterator
from typing import Any

from grpo.agents.wire.form import Asked, Said, Spoken, joined, listed, rest_of
from grpo.types import Message


class Chat(Spoken):
    """See the module."""

    path = "chat/completions"

    def read(self, body: dict[str, Any]) -> Asked:
        """See `Form`."""
        if body.get("n") not in (None, 1):
            raise ValueError(f"n={body['n']}: one reply is given to a request; ask again for another")
        limit = body.get("max_completion_tokens") or body.get("max_tokens")
        options = rest_of(body, "messages", "tools", "max_tokens", "max_completion_tokens", "n")
        messages = [message | {"content": joined(message.get("content"))} for message in listed(body, "messages")]
        return Asked(messages, listed(body, "tools"), limit, bool(body.get("stream")), options)

    def choices(self, body: dict[str, Any]) -> list[tuple[Message, str]]:
        """See `Spoken`."""
        found = [(one.get("message"), one.get("finish_reason") or "") for one in body.get("choices") or ()]
        return found or [({}, "")]

    def whole(self, said: Said, model: str) -> dict[str, Any]:
        """See `Form`."""
        choice = {"index": 0, "message": said.message, "finish_reason": _finish(said)}
        return _base(said, model, "chat.completion") | {"choices": [choice], "usage": _usage(said)}

    def events(self, said: Said, model: str, asked: Asked) -> Iterator[dict[str, Any]]:
        """See `Form`; every call has an index of its own, and the end comes behind all of them."""
        base = _base(said, model, "chat.completion.chunk")

        def piece(delta: dict[str, Any], finish: str | None = None) -> dict[str, Any]:
            return base | {"choices": [{"index": 0, "delta": delta, "finish_reason": finish}]}

        message = said.message
        yield piece({"role": "assistant", "content": ""})
        if said.thought:
            yield piece({"reasoning_content": said.thought})
        if said.text:
            yield piece({"content": said.text})
        for index, call in enumerate(message.get("tool_calls", ())):
            yield piece({"tool_calls": [{"index": index, **call}]})
        yield piece({}, _finish(said))
        if (asked.options.get("stream_options") or {}).get("include_usage"):
            yield base | {"choices": [], "usage": _usage(said)}


def _base(said: Said, model: str, kind: str) -> dict[str, Any]:
    return {"id": f"chatcmpl-{said.id}", "object": kind, "created": int(time.time()), "model": model}


def _finish(said: Said) -> str:
    return "tool_calls" if said.calls else said.finish_reason


def _usage(said: Said) -> dict[str, int]:
    total = said.prompt_tokens + said.completion_tokens
    counts = {"prompt_tokens": said.prompt_tokens, "completion_tokens": said.completion_tokens}
    return counts | {"total_tokens": total}

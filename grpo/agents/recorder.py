"""Keeps what an episode asked of a model and what it got: messages, tokens, cost, latency; whole or streamed."""

import time
from typing import Any

from grpo.agents.upstream import ABORTED, Upstream, UpstreamFailed, said_of
from grpo.agents.wire import Said
from grpo.episodes.play import Play
from grpo.types import ModelCall
from judges.llm.client import dollars

_ENDS = ("response.completed", "response.incomplete", "response.failed")
"""Last events of a streamed reply of the Responses API; they hold it whole."""


class CallRecorder:
    """Fills one `ModelCall` while its reply arrives.

    Args:
        play: Where it belongs.
        messages: The history that the request holds.
        upstream: The model that is really asked.
        is_chat: Whether the reply has the form of chat completions; else that of responses.
    """

    def __init__(self, play: Play, messages: Any, upstream: Upstream, *, is_chat: bool = True):
        self._began = time.perf_counter()
        self._is_chat = is_chat
        self._pieces: dict[int, dict[str, Any]] = {}
        self._text: list[str] = []
        self._refusal: list[str] = []
        self._where = upstream.where
        listed = messages if isinstance(messages, list) else [messages]
        before = play.last_request
        shared = len(before) if listed[: len(before)] == before else 0
        play.last_request = listed
        self.call = ModelCall(upstream.model, shared=shared, messages=listed[shared:])
        play.episode.calls.append(self.call)

    def failed(self, error: str, status: int = 0) -> None:
        """No reply, or an error."""
        self.call.status, self.call.error = status, error
        self._ended()

    def refused(self, error: UpstreamFailed) -> None:
        """The upstream gave none."""
        self.call.is_context_full = error.is_context_full
        self.failed(str(error), error.status)

    def whole(self, body: dict[str, Any], cost: float | None) -> None:
        """A reply in one piece."""
        self.call.status = 200
        if self._is_chat:
            choices = body.get("choices") or [{}]
            self.call.reply = choices[0].get("message")
        else:
            self.call.reply = body.get("output")
        self._usage(body.get("usage"))
        self.call.cost = cost if cost is not None else self.call.cost
        self._ended()

    def said(self, said: Said) -> None:
        """A turn that was asked for in a form which the upstream does not speak."""
        self.call.status, self.call.reply = 200, said.message
        self.call.prompt_tokens, self.call.completion_tokens = said.prompt_tokens, said.completion_tokens
        self._ended()

    def event(self, event: dict[str, Any]) -> None:
        """A piece of a streamed reply.

        Raises:
            UpstreamFailed: It is none, or says that the reply was broken off.
        """
        if self.call.first_token_seconds is None:
            self.call.first_token_seconds = time.perf_counter() - self._began
        if (broken := _broken(event)) is not None:
            self.failed(f"{self._where} sent an error in its stream: {said_of(broken)}", 502)
        if not self._is_chat:
            if event.get("type") in _ENDS and isinstance(response := event.get("response"), dict):
                self.call.reply = response.get("output")
                self._usage(response.get("usage"))
            return
        self._usage(event.get("usage"))
        try:
            self._chat_pieces(event)
        except (TypeError, AttributeError) as error:
            raise UpstreamFailed(f"{self._where} sent a piece of a reply that cannot be read ({error})", 502) from error

    def _chat_pieces(self, event: dict[str, Any]) -> None:
        for choice in event.get("choices") or ():
            if (end := choice.get("finish_reason")) in ABORTED:
                raise UpstreamFailed(f"{self._where} broke off its reply ({end})", 502)
            delta = choice.get("delta") or {}
            if isinstance(delta.get("content"), str):
                self._text.append(delta["content"])
            if isinstance(delta.get("refusal"), str):
                self._refusal.append(delta["refusal"])
            for piece in delta.get("tool_calls") or ():
                self._tool_piece(piece)

    def streamed(self) -> None:
        """The last piece was there; one of them may have been an error."""
        if not self.call.error:
            self.call.status = 200
        if self._is_chat:
            calls = [self._pieces[index] for index in sorted(self._pieces)]
            reply: dict[str, Any] = {"role": "assistant", "content": "".join(self._text) or None}
            reply |= {"refusal": "".join(self._refusal)} if self._refusal else {}
            self.call.reply = reply | ({"tool_calls": calls} if calls else {})
        self._ended()

    def _tool_piece(self, piece: dict[str, Any]) -> None:
        call = self._pieces.setdefault(
            piece.get("index", 0), {"id": "", "type": "function", "function": {"name": "", "arguments": ""}}
        )
        call["id"] = piece.get("id") or call["id"]
        function = piece.get("function") or {}
        call["function"]["name"] += function.get("name") or ""
        call["function"]["arguments"] += function.get("arguments") or ""

    def _usage(self, usage: Any) -> None:
        if not isinstance(usage, dict):
            return
        self.call.prompt_tokens = _whole(usage.get("prompt_tokens", usage.get("input_tokens")))
        self.call.completion_tokens = _whole(usage.get("completion_tokens", usage.get("output_tokens")))
        self.call.cost = dollars(usage.get("cost"))

    def _ended(self) -> None:
        self.call.seconds = round(time.perf_counter() - self._began, 6)


def _broken(event: dict[str, Any]) -> dict[str, Any] | None:
    """What holds the words of an error in a stream; None where the event is none."""
    if event.get("type") == "response.failed" and isinstance(response := event.get("response"), dict):
        return response
    return event if event.get("error") or event.get("type") == "error" else None


def _whole(value: Any) -> int:
    return value if isinstance(value, int) and value > 0 else 0

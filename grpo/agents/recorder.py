"""Keeps what an episode asked of a model and what it got: messages, tools, options, tokens, cost, times.

The record has the form of OpenAI's chat, whatever form was asked (`grpo.agents.wire`).
"""

import time
from typing import Any

from grpo.agents.upstream import ABORTED, Upstream, UpstreamFailed, said_of
from grpo.agents.wire import CHAT, SPOKEN, Asked, Said
from grpo.episodes.play import Play
from grpo.types import Message, ModelCall
from judges.llm.client import dollars

_ENDS = ("response.completed", "response.incomplete", "response.failed")
"""Last events of a streamed reply of the Responses API; they hold it whole."""


class CallRecorder:
    """Fills one `ModelCall` while its reply arrives.

    Args:
        play: Where it belongs.
        asked: The request.
        upstream: The model that is really asked.
        path: Of the form in which it replies.
    """

    def __init__(self, play: Play, asked: Asked, upstream: Upstream, path: str = CHAT):
        self._began = time.perf_counter()
        self._form = SPOKEN[path]
        self._choices: dict[int, _Pieces] = {}
        self._where = upstream.where
        self._play, self._before = play, play.last_request
        shared = len(self._before) if asked.messages[: len(self._before)] == self._before else 0
        play.last_request = asked.messages
        self.call = ModelCall(upstream.model, shared=shared, messages=asked.messages[shared:], tools=asked.tools)
        self.call.asked = asked.options | ({"max_tokens": asked.max_tokens} if asked.max_tokens else {})
        self.call.began = round(self._began - play.began, 6)
        play.episode.calls.append(self.call)

    def forget(self) -> None:
        """Keep nothing: it is asked in another way."""
        del self._play.episode.calls[self._play.episode.number_of(self.call)]
        self._play.last_request = self._before

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
        self._replied(body)
        self.call.cost = cost if cost is not None else self.call.cost
        self._ended()

    def said(self, said: Said) -> None:
        """A turn that was asked for in a form which the upstream does not speak."""
        self.call.status, self.call.reply, self.call.finish_reason = 200, said.message, said.finish_reason
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
        if "choices" not in event:
            if event.get("type") in _ENDS and isinstance(response := event.get("response"), dict):
                self._replied(response)
            return
        self._usage(event.get("usage"))
        try:
            for choice in event["choices"] or ():
                if (end := choice.get("finish_reason")) in ABORTED:
                    raise UpstreamFailed(f"{self._where} broke off its reply ({end})", 502)
                self._choices.setdefault(choice.get("index") or 0, _Pieces()).add(choice)
        except (TypeError, AttributeError) as error:
            raise UpstreamFailed(f"{self._where} sent a piece of a reply that cannot be read ({error})", 502) from error

    def streamed(self) -> None:
        """The last piece was there; one of them may have been an error."""
        if not self.call.error:
            self.call.status = 200
        if self._choices:
            choices = [choice for _, choice in sorted(self._choices.items())]
            self._replied({"choices": [{"message": c.message(), "finish_reason": c.finish_reason} for c in choices]})
        self._ended()

    def _replied(self, body: dict[str, Any]) -> None:
        (self.call.reply, self.call.finish_reason), *others = self._form.choices(body)
        self.call.other_replies = [message for message, _ in others]
        self._usage(body.get("usage"))

    def _usage(self, usage: Any) -> None:
        if not isinstance(usage, dict):
            return
        self.call.prompt_tokens = _whole(usage.get("prompt_tokens", usage.get("input_tokens")))
        self.call.completion_tokens = _whole(usage.get("completion_tokens", usage.get("output_tokens")))
        self.call.cost = dollars(usage.get("cost"))

    def _ended(self) -> None:
        self.call.seconds = round(time.perf_counter() - self._began, 6)


class _Pieces:
    """A streamed choice, as far as it has come."""

    def __init__(self) -> None:
        self.finish_reason = ""
        self._texts: dict[str, str] = {"content": ""}
        self._calls: dict[int, dict[str, Any]] = {}

    def add(self, choice: dict[str, Any]) -> None:
        """Take what came next."""
        self.finish_reason = choice.get("finish_reason") or self.finish_reason
        delta = choice.get("delta") or {}
        for name in ("content", "refusal", "reasoning_content", "reasoning"):
            if isinstance(delta.get(name), str):
                self._texts[name] = self._texts.get(name, "") + delta[name]
        for piece in delta.get("tool_calls") or ():
            empty = {"id": "", "type": "function", "function": {"name": "", "arguments": ""}}
            call = self._calls.setdefault(piece.get("index", 0), empty)
            call["id"] = piece.get("id") or call["id"]
            for name in ("name", "arguments"):
                call["function"][name] += (piece.get("function") or {}).get(name) or ""

    def message(self) -> Message:
        """All of it."""
        message = {"role": "assistant", **self._texts, "content": self._texts["content"] or None}
        calls = [call for _, call in sorted(self._calls.items())]
        return message | ({"tool_calls": calls} if calls else {})


def _broken(event: dict[str, Any]) -> dict[str, Any] | None:
    """What holds the words of an error in a stream; None where the event is none."""
    if event.get("type") == "response.failed" and isinstance(response := event.get("response"), dict):
        return response
    return event if event.get("error") or event.get("type") == "error" else None


def _whole(value: Any) -> int:
    return value if isinstance(value, int) and value > 0 else 0

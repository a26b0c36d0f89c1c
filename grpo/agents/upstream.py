"""The model behind an agent: an OpenAI-compatible URL, or any model that litellm knows.

    openai:MODEL@URL    for example openai:gpt-5@https://api.openai.com/v1; the key comes from OPENAI_API_KEY
    litellm:NAME        for example litellm:anthropic/claude-sonnet-4; keys as litellm wants them

Requests and replies are those of OpenAI's API as dicts and bytes; this module neither retries nor records.
Forms that an upstream does not speak itself are asked as chat completions.
"""

import json
import os
import re
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from typing import Any, ClassVar, cast

import httpx

from grpo.agents.wire import CHAT, SPOKEN, Asked, Said, SaidCall
from grpo.display.streams import said_if_slow
from grpo.episodes.play import Play
from grpo.errors import EvaluationError
from grpo.serving.server import showing
from grpo.types import ModelCall
from grpo.watch import Part, Waiting
from judges.common.loopback import is_loopback
from judges.common.secrets import blank_secrets, without_users
from judges.errors import JudgeCallError
from judges.llm.client import dollars, is_server_url, load_litellm
from judges.llm.loop import in_one_loop

ABORTED = ("abort", "error")
"""By which a server ends a reply that was broken off, for example to load other weights, or behind a gateway."""

_CONTEXT_FULL = (
    "context_length_exceeded",  # code of OpenAI and those who speak like it
    "input_tokens",  # param of vLLM
    "input_text",
    "exceed_context_size_error",  # type of llama.cpp
    "ContextWindowExceededError",  # litellm's class
)

_AT_URL = re.compile(r"@(?=https?://)")  # a URL may have an @ too, after user and password


@dataclass(slots=True)
class Reply:
    """What a model said.

    Attributes:
        body: The decoded JSON of a whole reply; empty while it streams.
        events: The pieces of a streamed reply, as decoded JSON.
        cost: Of a whole reply in US dollars, where known.
    """

    body: dict[str, Any] = field(default_factory=dict)
    events: AsyncIterator[dict[str, Any]] | None = None
    cost: float | None = None


class UpstreamFailed(Exception):
    """No model said anything: the server did not answer, or it refused.

    Args:
        message: For people: who answered with which status, and what was said.
        status: Of HTTP; 0 where no answer came.
        body: What the server answered, for who asked; by default the message in OpenAI's form.
        kind: What that form calls the error.
    """

    def __init__(
        self, message: str, status: int = 0, body: dict[str, Any] | None = None, *, kind: str = "upstream"
    ) -> None:
        super().__init__(blank_secrets(message))
        self.status = status
        self.body = body or {"error": {"message": str(self), "type": kind, "code": status or 502}}

    @property
    def is_context_full(self) -> bool:
        """Whether the prompt is longer than the model takes; by a field, since words differ."""
        error = self.body.get("error")
        return isinstance(error, dict) and any(error.get(name) in _CONTEXT_FULL for name in ("code", "type", "param"))


@dataclass(slots=True)
class Upstream:
    """Where requests go.

    Attributes:
        model: What to ask for.
        spoken: Paths of the forms that `ask` takes; others go through `said`.
    """

    spoken: ClassVar[tuple[str, ...]] = tuple(SPOKEN)

    model: str

    @property
    def where(self) -> str:
        """Who is asked, for people: the name, or an address."""
        return self.model

    async def ask(self, path: str, body: dict[str, Any]) -> Reply:
        """Send a request to one of the paths that are ``spoken``; streamed where ``body["stream"]`` is true.

        Raises:
            UpstreamFailed: No answer came, or another than a reply.
        """
        with Waiting(Part.MODEL, f"a request to {self.where}"):
            return await self._ask(path, body)

    async def _ask(self, path: str, body: dict[str, Any]) -> Reply:
        raise NotImplementedError

    async def said(self, asked: Asked, play: Play, call: ModelCall) -> Said:
        """The turn after a request in any form.

        Args:
            asked: The request.
            play: The episode that asks.
            call: Its record of this call.

        Raises:
            UpstreamFailed: As in `ask`.
        """
        body: dict[str, Any] = {"messages": asked.messages}
        body |= {"tools": asked.tools} if asked.tools else {}
        body |= {"max_tokens": asked.max_tokens} if asked.max_tokens else {}
        body |= {name: asked.options[name] for name in ("temperature", "top_p") if name in asked.options}
        reply = await self.ask(CHAT, body)
        call.cost = reply.cost
        choice, usage = reply.body["choices"][0], reply.body.get("usage") or {}
        functions = [(one.get("id"), one.get("function") or {}) for one in choice["message"].get("tool_calls") or ()]
        return Said(
            str(reply.body.get("id", "")),
            str(choice["message"].get("content") or ""),
            str(choice["message"].get("reasoning_content") or ""),
            tuple(SaidCall(str(name), str(f.get("name")), str(f.get("arguments") or "{}")) for name, f in functions),
            "length" if choice.get("finish_reason") == "length" else "stop",
            int(usage.get("prompt_tokens") or 0),
            int(usage.get("completion_tokens") or 0),
        )

    def count(self, asked: Asked, play: Play) -> int:
        """How many tokens a request has, about: servers have no common way to ask."""
        return len(json.dumps([asked.messages, asked.tools], ensure_ascii=False)) // 4

    async def close(self) -> None:
        """Close connections; some keep none of their own."""


@dataclass(slots=True)
class HttpUpstream(Upstream):
    """An OpenAI-compatible URL."""

    url: str
    api_key: str = ""
    timeout_seconds: float = 600.0
    _client: httpx.AsyncClient | None = field(default=None, repr=False)

    @property
    def where(self) -> str:
        """The address, without user and password."""
        return without_users(self.url)

    async def _ask(self, path: str, body: dict[str, Any]) -> Reply:
        if self._client is None:
            limits = httpx.Limits(max_connections=None, max_keepalive_connections=64)
            self._client = httpx.AsyncClient(
                headers=showing(self.api_key),
                timeout=self.timeout_seconds,
                limits=limits,
                trust_env=not is_loopback(self.url),
            )
        # A lone surrogate, which a model can write in an escape, has no UTF-8.
        content = json.dumps(body | {"model": self.model}, ensure_ascii=False).encode(errors="replace")
        address, kind = f"{self.url}/{path}", {"Content-Type": "application/json"}
        try:
            response = await self._client.send(
                self._client.build_request("POST", address, content=content, headers=kind), stream=True
            )
            is_stream = "text/event-stream" in response.headers.get("content-type", "")
            if response.status_code == 200 and is_stream and body.get("stream"):
                return Reply(events=_sse(response, self.where))
            received = await response.aread()
        except httpx.HTTPError as error:
            raise UpstreamFailed(f"{self.where} does not answer ({type(error).__name__}: {error})") from error
        status, answered = response.status_code, f"{self.where}/{path} answered {response.status_code}"
        if 300 <= status < 400:
            target = without_users(response.headers.get("location", "nowhere"))
            raise UpstreamFailed(f"{answered}, a redirection to {target}; name that server", status)
        answer = _decoded(received, status)
        if status == 404 and "error" not in answer:  # an unknown model is told in OpenAI's form
            raise UpstreamFailed(f"{answered}; does the URL lack its /v1?", 404)
        if status != 200:
            raise UpstreamFailed(f"{answered}: {said_of(answer)}", status, answer)
        return _whole(path, answer, answered)

    async def close(self) -> None:
        """Close connections."""
        if self._client is not None:
            await self._client.aclose()
            self._client = None


@dataclass(slots=True)
class LitellmUpstream(Upstream):
    """Any model that litellm knows by name."""

    litellm: Any = field(repr=False)

    async def _ask(self, path: str, body: dict[str, Any]) -> Reply:
        try:
            call = self.litellm.acompletion if path == CHAT else self.litellm.aresponses
            answer: Any = await in_one_loop(call(**(body | {"model": self.model})))
        except Exception as error:  # litellm maps every provider's faults to exceptions with a status
            status = getattr(error, "status_code", None)
            if not isinstance(status, int):
                raise UpstreamFailed(f"{self.model} does not answer ({type(error).__name__}: {error})") from error
            kind = type(error).__name__
            raise UpstreamFailed(f"{self.model} answered {status}: {error}", status, kind=kind) from error
        if body.get("stream"):
            return Reply(events=_dumped(answer))
        body = answer.model_dump(mode="json", exclude_none=True)
        return _whole(path, body, f"{self.model} answered 200", dollars(answer._hidden_params.get("response_cost")))


def make_upstream(spec: str) -> Upstream:
    """The upstream that ``spec`` names.

    Raises:
        EvaluationError: It names none.
    """
    kind, _, rest = spec.partition(":")
    if kind == "litellm" and rest:
        with said_if_slow("importing litellm"):
            return LitellmUpstream(rest, _litellm())
    if kind == "openai":
        model, url = _AT_URL.split(rest, maxsplit=1) if _AT_URL.search(rest) else ("", "")
        if model and not is_server_url(url):
            raise EvaluationError(f"{without_users(url)!r} is no address of a server; write http://HOST:PORT/v1")
        if model:
            return HttpUpstream(model, url.rstrip("/"), os.environ.get("OPENAI_API_KEY", ""))
    raise EvaluationError(
        f"no model {without_users(spec)!r}; write openai:MODEL@URL (for example openai:qwen@http://127.0.0.1:8000/v1) "
        "or litellm:NAME"
    )


def _litellm() -> Any:
    try:
        return load_litellm()
    except JudgeCallError as error:
        raise EvaluationError("a model by litellm needs the package litellm: pip install 'email-rl[judge]'") from error


async def _sse(response: httpx.Response, where: str) -> AsyncIterator[dict[str, Any]]:
    try:
        async for line in response.aiter_lines():
            data = line.removeprefix("data:").strip() if line.startswith("data:") else ""
            if data and data != "[DONE]":
                event = json.loads(data)
                if not isinstance(event, dict):
                    raise ValueError("no JSON object")
                yield cast(dict[str, Any], event)
    except ValueError as error:
        raise UpstreamFailed(f"{where} sent a piece of a reply that cannot be read ({error})") from error
    except httpx.HTTPError as error:
        raise UpstreamFailed(f"the reply of {where} broke off ({type(error).__name__}: {error})") from error
    finally:
        await response.aclose()


async def _dumped(chunks: Any) -> AsyncIterator[dict[str, Any]]:
    """The pieces of litellm's reply, awaited in the loop that has its connection."""

    async def following() -> Any:
        return await anext(chunks, None)

    while (chunk := await in_one_loop(following())) is not None:
        yield chunk.model_dump(mode="json", exclude_none=True)


def _decoded(content: bytes, status: int) -> dict[str, Any]:
    text = content.decode(errors="replace")
    if status != 200:
        text = blank_secrets(text)  # some servers quote the key that they refuse
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        value = None
    if isinstance(value, dict):
        return value
    message = text[:500] or f"empty reply with status {status}"
    return {"error": {"message": message, "type": "upstream", "code": status}}


def _whole(path: str, body: dict[str, Any], answered: str, cost: float | None = None) -> Reply:
    """A whole reply; status 200 without anything that a model said is a fault of the server, 502."""
    if not _says_something(path, body):
        raise UpstreamFailed(f"{answered} without a whole message: {str(body.get('error') or body)[:300]}", 502)
    return Reply(body, cost=cost)


def said_of(body: dict[str, Any]) -> str:
    """What a server says went wrong, from the body of its reply or an event of its stream."""
    error = body.get("error") or body
    if not isinstance(error, dict):
        return str(error)[:500]
    code = error.get("code")
    return str(error.get("message") or error)[:500] + (f" ({code})" if isinstance(code, str) else "")


def _says_something(path: str, body: dict[str, Any]) -> bool:
    if path == "responses":
        return isinstance(body.get("output"), list) and body.get("status") not in ("failed", "cancelled")
    try:
        choice = body["choices"][0]
        calls, content = choice["message"].get("tool_calls") or [], choice["message"].get("content")
        is_whole = choice.get("finish_reason") not in ABORTED and isinstance(content, str | list | None)
    except (KeyError, IndexError, TypeError, AttributeError):
        return False
    return is_whole and isinstance(calls, list) and all(isinstance(call, dict) for call in calls)

"""Any LLM that litellm reaches, with timeouts and bounded retries: the only module of this package that knows litellm.

`judges` has an LLM client too, with sessions, a cache and structured output. None of it is needed here, and this
package takes nothing of `judges` but the rule for answers.

litellm takes seconds to import and calls out to the network unless told not to, so it is imported at the first
question. Keys come from the environment. They are never stored, and error messages show [key] in their place.
"""

from __future__ import annotations

import asyncio
import os
import random
import re
from base64 import b64encode
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import unquote

from email_env.errors import ConfigurationError, LlmError

MAX_BACKOFF_SECONDS = 60.0

TIMEOUT_SECONDS = 120.0
"""How long one attempt may take where nothing else is said."""

_PERMANENT = frozenset({401, 403, 404})
_TRANSIENT = frozenset({408, 409, 425, 429})
_SECRET_VARIABLE = re.compile(r"(_KEY|_TOKEN|_SECRET|_PASSWORD)$")
_CREDENTIALS = re.compile(r"(?<=://)[^/@\s]+@")


@dataclass(slots=True)
class Usage:
    """Answers and tokens so far as the provider reports them; dollars by litellm's price list, 0 without a price."""

    calls: int = 0
    prompt_tokens: int = 0
    completion_tokens: int = 0
    cost_dollars: float = 0.0


@dataclass(frozen=True, slots=True)
class Llm:
    """A `Chat`.

    Args:
        model: a litellm model name (`openai/gpt-5-mini`, `anthropic/...`); with `api_base`, the server's own name.
        api_base: URL of the server, `/v1` included; None for the provider's own.
        timeout_seconds: for one attempt.
        max_retries: further attempts after a timeout, a lost connection, 429 or 5xx.
        backoff_seconds: wait before the first retry; it doubles each time. `Retry-After` is obeyed up to a minute.

    Raises:
        ConfigurationError: `api_base` is no URL.
    """

    model: str
    api_base: str | None = None
    timeout_seconds: float = TIMEOUT_SECONDS
    max_retries: int = 4
    backoff_seconds: float = 1.0
    usage: Usage = field(default_factory=Usage)

    def __post_init__(self) -> None:
        if self.api_base is not None and not re.match(r"https?://[^/]", self.api_base):
            shown = self.api_base.rpartition("@")[2]
            raise ConfigurationError(f"--api-base {shown!r} is no URL. Write http://HOST:PORT/v1.")

    async def __call__(self, messages: Sequence[Mapping[str, str]]) -> str:
        """Asks once, with retries.

        Raises:
            LlmError: every attempt failed, or a retry cannot help.
        """
        litellm = await asyncio.to_thread(_load_litellm)
        params = self._params() | {"messages": [dict(message) for message in messages]}
        for attempt in range(1, self.max_retries + 2):
            try:
                async with asyncio.timeout(self.timeout_seconds):
                    return self._text(await litellm.acompletion(**params))
            except Exception as error:  # the one boundary: litellm raises its own, openai's, httpx's and builtin types
                status = getattr(error, "status_code", None)
                if attempt > self.max_retries or not _is_transient(error, status):
                    # `from None`: the cause's own text may quote a key.
                    raise LlmError(self._failure(error, attempt), permanent=_is_permanent(error, status)) from None
                wait_seconds = self._wait_seconds(error, attempt)
            await asyncio.sleep(wait_seconds)
        raise AssertionError("unreachable: the last attempt returns or raises")

    def _params(self) -> dict[str, Any]:
        model = f"openai/{self.model}" if self.api_base and "/" not in self.model else self.model
        params: dict[str, Any] = {"model": model, "timeout": self.timeout_seconds, "max_retries": 0}
        # A kept-alive connection would be left open when the event loop ends.
        params["extra_headers"] = {"Connection": "close"}
        if self.api_base:
            params["api_base"], users = _split_users(self.api_base)
            if users:  # litellm's HTTP client refuses them in a URL
                params["extra_headers"]["Authorization"] = f"Basic {users}"
            if model.startswith("openai/") and not os.environ.get("OPENAI_API_KEY"):
                params["api_key"] = "EMPTY"  # the user's own server needs no key, but the client library does
        return params

    def _text(self, response: Any) -> str:
        reported = getattr(response, "usage", None)
        self.usage.calls += 1
        self.usage.prompt_tokens += getattr(reported, "prompt_tokens", 0) or 0
        self.usage.completion_tokens += getattr(reported, "completion_tokens", 0) or 0
        self.usage.cost_dollars += getattr(response, "_hidden_params", {}).get("response_cost") or 0.0
        return (response.choices[0].message.content or "") if response.choices else ""

    def _failure(self, error: Exception, attempt: int) -> str:
        base, users = _split_users(self.api_base or "")
        where = f" at {base}" if base else ""
        tries = f" after {attempt} attempts" if attempt > 1 else ""
        if isinstance(error, TimeoutError):
            return f"{self.model}{where} did not answer within {self.timeout_seconds:g} s{tries}; raise --timeout."
        text = _without_secrets(f"{type(error).__name__}: {error}", users)[:400]
        return f"{self.model}{where} gives no answer{tries}: {text} Check --model, --api-base and the provider's key."

    def _wait_seconds(self, error: Exception, attempt: int) -> float:
        """The doubling wait, with jitter, so that calls that failed together are not repeated together."""
        wait_seconds = self.backoff_seconds * 2 ** (attempt - 1) * random.uniform(0.75, 1.25)
        headers = getattr(error, "litellm_response_headers", None) or {}
        try:
            wait_seconds = max(wait_seconds, float(headers.get("retry-after", 0.0)))
        except ValueError:  # Retry-After may be a date; the doubling serves then
            pass
        return min(wait_seconds, MAX_BACKOFF_SECONDS)


def _is_transient(error: Exception, status: int | None) -> bool:
    return isinstance(error, OSError) or (status is not None and (status in _TRANSIENT or status >= 500))


def _is_permanent(error: Exception, status: int | None) -> bool:
    """Whether every question fails so; litellm says status 400 of a model's name that it knows no provider of."""
    return status in _PERMANENT or "LLM Provider NOT provided" in str(error)


def _split_users(url: str) -> tuple[str, str]:
    """A URL without user and password, and both in the form of HTTP's Basic scheme."""
    said = _CREDENTIALS.search(url)
    users = unquote(said[0].removesuffix("@")) if said else ""
    return _CREDENTIALS.sub("", url), b64encode(users.encode()).decode()


def _without_secrets(text: str, users: str) -> str:
    secrets = [value for name, value in os.environ.items() if _SECRET_VARIABLE.search(name)]
    for secret in sorted((s for s in [users, *secrets] if len(s) >= 8), key=len, reverse=True):
        text = text.replace(secret, "[key]")
    return _CREDENTIALS.sub("", text)


def _load_litellm() -> Any:
    """litellm, imported without its call to the network and without its notices.

    Raises:
        LlmError: it is not installed.
    """
    os.environ.setdefault("LITELLM_LOCAL_MODEL_COST_MAP", "True")
    try:
        import litellm
    except ImportError as error:
        raise LlmError("An LLM needs litellm: pip install 'email-rl[judge]'", permanent=True) from error
    module: Any = litellm
    # As in `judges`: its other HTTP client is told of as an "Unclosed client session" when the event loop ends.
    module.disable_aiohttp_transport = True
    module.suppress_debug_info = True
    module.telemetry = False
    return module

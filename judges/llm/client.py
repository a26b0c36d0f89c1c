"""One chat completion from any LLM that litellm reaches: timeout, bounded retries, structured output where it exists.

litellm takes seconds to import, so it is imported at the first call; it is told not to call out to the network. Keys
come from the arguments or the environment. They are never stored, and they are blanked in errors and answers.
"""

import asyncio
import importlib
import json
import logging
import math
import os
import re
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import Any, TypedDict
from urllib.parse import urlsplit
from urllib.request import getproxies

from judges.common.loopback import is_loopback, without_proxy_to_loopback
from judges.common.secrets import (
    blank_secrets,
    secrets_in,
    secrets_of_url,
    split_users,
    without_credentials,
    without_secrets,
)
from judges.common.text import as_utf8
from judges.errors import ContextOverflow, JudgeCallError, JudgeInputError, JudgeTimeoutError
from judges.llm.failure import Failure
from judges.llm.loop import in_one_loop

DEFAULT_JUDGE = "openai/o4-mini"

TIMEOUT_SECONDS = 120.0
"""How long one attempt of a call may take where nothing else is said."""

_RESERVED = frozenset({"model", "messages", "stream", "n", "num_retries", "max_retries", "timeout"})
_PRICES = ("input_cost_per_token", "output_cost_per_token")
_HOPELESS = frozenset({401, 402, 403, 404})
"""A wrong key, name or address, or no money."""
_ENDED = frozenset({"stop", "stop_sequence", "end_turn", "eos", "eos_token", "tool_calls", "function_call"})
"""How a server says that the model itself ended a reply. litellm says "stop" of others too, such as "abort" or null. It
says so of tool calls only where it made them itself, for structured output."""
_NAME_OF_OPENAI = re.compile(r"(?:ft:)?(?:chatgpt|gpt|o\d)\b")


class Reach(TypedDict, total=False):
    """How to reach a judge that is given by name. Every key is optional; `JudgeClient` explains them."""

    api_base: str | None
    api_key: str | None
    timeout_seconds: float
    max_retries: int
    backoff_seconds: float


class CallOptions(Reach, total=False):
    """The same, with parameters of litellm."""

    extra_litellm_params: Mapping[str, Any] | None


@dataclass(frozen=True, slots=True)
class Completion:
    """What an LLM said."""

    content: str
    """A refusal that stands apart from the content is one too. Empty where it said nothing."""
    finish_reason: str
    prompt_tokens: int = 0
    """As the provider reports them; 0 where it does not."""
    completion_tokens: int = 0
    """As the provider reports them, reasoning included; 0 where it does not."""
    cost_dollars: float | None = None
    """By litellm's price list, or by ``input_cost_per_token`` in the parameters; None where the price is not known."""
    has_reasoning: bool = False
    """Whether there is text in a reasoning field."""
    problem: str = ""
    """Why the reply is not read and not asked for again, though it may have to be paid."""

    @property
    def is_blank(self) -> bool:
        """Whether it says nothing: no word, or blanks to its limit."""
        is_padded = self.finish_reason == "length" and 2 * len(self.content.rstrip()) < len(self.content)
        return is_padded or not re.search(r"\w", self.content)


@dataclass(frozen=True, slots=True, repr=False)
class JudgeClient:
    """How to reach one LLM.

    Args:
        model: A litellm model name: ``openai/o4-mini``, ``hosted_vllm/...``, ``ollama/...``, ``anthropic/...``. A bare
            name with a URL means a server that speaks OpenAI's protocol. Without one, ``gpt-...`` and ``o4-...`` are
            OpenAI's, and litellm knows whose the others are.
        api_base: URL of the server, ``/v1`` included. None: the provider's variable (``OPENAI_BASE_URL``, ...) or its
            public address.
        api_key: None: the provider's variable (``OPENAI_API_KEY``, ...). A server of your own needs none.
        timeout_seconds: For one attempt, connection and generation together.
        max_retries: Further attempts after a timeout, a lost connection, 429 or 5xx.
        backoff_seconds: Wait before the first retry; it doubles at each. ``Retry-After`` is honoured up to a minute. A
            429 without it waits nine times as long: 63 s in all with the usual settings, which is over the minute for
            which providers count.
        extra_litellm_params: Handed to litellm as they are: ``temperature``, ``max_tokens``, ``reasoning_effort``, ...
            Two are not handed on: ``input_cost_per_token`` and ``output_cost_per_token``, prices in dollars, which this
            client uses instead of litellm's list.

    Raises:
        JudgeInputError: A setting cannot be used.
    """

    model: str
    api_base: str | None = None
    api_key: str | None = None
    timeout_seconds: float = TIMEOUT_SECONDS
    max_retries: int = 3
    backoff_seconds: float = 1.0
    extra_litellm_params: Mapping[str, Any] | None = None
    _prices: tuple[float, float] | None = field(init=False, default=None)
    """Dollars per token of prompt and completion, where they were given."""

    def __post_init__(self) -> None:
        """Check what was given, and keep each thing in one place: litellm takes URL and key as parameters too."""
        if not isinstance(self.model, str) or not self.model.strip():
            said = f"{self.model!r:.80}" if self.model else "empty"
            raise JudgeInputError(f"judge_model is {said}; name one, for example openai/o4-mini")
        for name, value in (("timeout_seconds", self.timeout_seconds), ("backoff_seconds", self.backoff_seconds)):
            if not isinstance(value, (int, float)) or not 0 < value < math.inf:
                raise JudgeInputError(f"{name} must be above 0 and finite, got {value!r:.80}")
        if not isinstance(self.max_retries, int) or self.max_retries < 0:
            raise JudgeInputError(f"max_retries must be 0 or more, got {self.max_retries!r:.80}")
        if not isinstance(self.extra_litellm_params or {}, Mapping):
            raise JudgeInputError(
                f"extra_litellm_params must be a dict, got a {type(self.extra_litellm_params).__name__}"
            )
        extra = dict(self.extra_litellm_params or {})
        if taken := sorted(_RESERVED & extra.keys()):
            raise JudgeInputError(
                f"extra_litellm_params may not set {', '.join(taken)}; use judge_model, timeout_seconds and max_retries"
            )
        headers = extra.get("extra_headers") or {}
        if not isinstance(headers, Mapping) or not all(
            isinstance(text, str) for pair in headers.items() for text in pair
        ):
            raise JudgeInputError("extra_headers must be a dict of texts; its values are not shown here")
        bases = [base for base in (self.api_base, extra.pop("api_base", None), extra.pop("base_url", None)) if base]
        for base in bases:
            _check_url(base)
        key = self.api_key or extra.pop("api_key", None)
        if key and not (isinstance(key, str) and key.strip().isascii() and key.strip().isprintable()):
            raise JudgeInputError("api_key holds what no header can; write it without quotes and line breaks")
        extra.pop("api_key", None)
        prices = {name: extra.pop(name) for name in _PRICES if name in extra}
        for name, value in prices.items():
            if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0 <= value < math.inf:
                raise JudgeInputError(f"{name} must be dollars, 0 or more and finite, got {value!r:.80}")
        is_openais = "/" not in self.model and (bases or _NAME_OF_OPENAI.match(self.model))
        for name, value in {
            "model": f"openai/{self.model}" if is_openais else self.model,
            "api_base": bases[0].strip() if bases else None,
            "api_key": key.strip() if key else None,  # a file may have put a line break behind it
            "extra_litellm_params": extra,
            "_prices": tuple(prices.get(name, 0.0) for name in _PRICES) if prices else None,
        }.items():
            object.__setattr__(self, name, value)

    def __repr__(self) -> str:
        return f"JudgeClient({self.identity()})"

    async def complete(
        self, messages: Sequence[Mapping[str, str]], response_format: Mapping[str, Any] | None = None
    ) -> Completion:
        """Ask once, with retries. A reply that cannot be read is not asked for again: its ``problem`` says so.

        Args:
            messages: The conversation so far.
            response_format: Structured output, unless ``extra_litellm_params`` has its own.

        Raises:
            JudgeTimeoutError: The last attempt ran into ``timeout_seconds``.
            JudgeCallError: Every attempt failed, or a retry cannot mend the failure; ``may_be_of_form``: perhaps it
                only refuses the response format.
        """
        return await in_one_loop(self._answer(messages, response_format))

    def identity(self) -> dict[str, Any]:
        """What a judge's answer depends on, apart from the prompt: model, URL and parameters. No secret is in it."""
        base = self.api_base or _url_of_environment(self.model)
        return {
            "model": self.model,
            "api_base": without_credentials(base) if base else None,
            "params": without_secrets(self.extra_litellm_params or {}),
        }

    def _params(self) -> dict[str, Any]:
        """What litellm is called with, but for the messages."""
        extra: dict[str, Any] = _copied(self.extra_litellm_params or {})
        base, key = self.api_base, self.api_key
        if self.model.startswith("openai/"):  # no other provider gets OpenAI's key
            base = base or _url_of_environment(self.model)
            key = key or os.environ.get("OPENAI_API_KEY", "").strip() or ("EMPTY" if base else None)
            if key is None:
                raise JudgeCallError(
                    f"there is no API key for {self.model}; set OPENAI_API_KEY, or api_base for a server of your own",
                    is_hopeless=True,
                )
        if base:
            _check_url(base)
        if base and is_loopback(base) and getproxies():
            os.environ.update(without_proxy_to_loopback(os.environ))
        base, authorization = split_users(base) if base else (base, {})
        # A kept-alive connection would stay open until the process ends, and a fork would print that it is not closed.
        extra["extra_headers"] = {"Connection": "close", **authorization, **(extra.get("extra_headers") or {})}
        extra |= {"model": self.model, "timeout": self.timeout_seconds, "max_retries": 0}
        if base:
            extra["api_base"] = base
        if key:
            extra["api_key"] = key
        return extra

    async def _answer(
        self, messages: Sequence[Mapping[str, str]], response_format: Mapping[str, Any] | None
    ) -> Completion:
        params = self._params() | {"messages": list(messages)}
        replies: list[object] = []
        params["logger_fn"] = lambda details: replies.append(details.get("original_response"))
        has_form = response_format is not None and "response_format" not in params
        if has_form:
            params["response_format"] = response_format
        litellm = load_litellm()  # seconds, in which the judges' loop has nothing else to do
        try:
            litellm.get_llm_provider(params["model"], params.get("custom_llm_provider"), params.get("api_base"))
        except litellm.BadRequestError:
            raise JudgeCallError(
                f"{params['model']}: the provider is not clear; write openai/{params['model']} for a server that "
                "speaks OpenAI's protocol",
                is_hopeless=True,
            ) from None
        for attempt in range(1, self.max_retries + 2):
            replies.clear()
            try:
                async with asyncio.timeout(self.timeout_seconds):
                    response = await litellm.acompletion(**params)
                return self._completion(response, _said_end(replies), params)
            except Exception as error:  # the one boundary: litellm raises its own, openai's, httpx's and builtin types
                failure = Failure.of(error, replies[-1] if replies else None)
                told = self._told(error, failure, params, attempt)
                is_overflow = isinstance(told, ContextOverflow)
                told.may_be_of_form = has_form and failure.may_be_of_form and not is_overflow
                if failure.status == 200 and replies:  # it may have to be paid, so it is not asked again
                    cost = 0.0 if self._prices == (0.0, 0.0) else None
                    return Completion("", "", cost_dollars=cost, problem=str(told))
                if told.may_be_of_form or attempt > self.max_retries or not failure.is_transient:
                    # `from None`: the cause's own text may quote a key.
                    raise told from None
            await asyncio.sleep(failure.wait_seconds(attempt, self.backoff_seconds))
        raise AssertionError("unreachable: the last attempt returns or raises")

    def _completion(self, response: Any, said_end: str, params: Mapping[str, Any]) -> Completion:
        usage = getattr(response, "usage", None)
        prompt_tokens = max(getattr(usage, "prompt_tokens", 0) or 0, 0)
        completion_tokens = max(getattr(usage, "completion_tokens", 0) or 0, 0)
        if self._prices is not None:
            cost = prompt_tokens * self._prices[0] + completion_tokens * self._prices[1]
        else:
            cost = getattr(response, "_hidden_params", {}).get("response_cost")
        is_counted = prompt_tokens > 0 or self._prices == (0.0, 0.0)  # no prompt has no tokens
        cost = dollars(cost) if is_counted else None
        content = finish_reason = ""
        has_reasoning = False
        if response.choices:
            choice = response.choices[0]
            said = choice.message.content or getattr(choice.message, "refusal", None) or ""
            # Half a character, which an LLM can write in an escape, could not be shown to it again.
            content = blank_secrets(as_utf8(said), *self._secrets(params))
            has_reasoning = bool(getattr(choice.message, "reasoning_content", None))
            finish_reason = choice.finish_reason or ""
            if finish_reason == "stop" and said_end.lower() not in _ENDED:
                finish_reason = said_end
        is_filtered = not content and finish_reason == "content_filter"
        problem = f"{self.model} says nothing: a filter of contents ended its reply" if is_filtered else ""
        return Completion(content, finish_reason, prompt_tokens, completion_tokens, cost, has_reasoning, problem)

    def _secrets(self, params: Mapping[str, Any]) -> list[str]:
        """What no text of the server may repeat."""
        return [*secrets_in(params), *secrets_of_url(self.api_base or _url_of_environment(self.model) or "")]

    def _told(self, error: Exception, failure: Failure, params: Mapping[str, Any], attempt: int) -> JudgeCallError:
        base = params.get("api_base")
        where = f" at {without_credentials(base)}" if base else ""
        tries = f" after {attempt} attempts" if attempt > 1 else ""
        name = f"{params['model']}{where}"
        status = failure.status
        if status == 408:
            return JudgeTimeoutError(
                f"{name} did not answer within {self.timeout_seconds:g} s{tries}; "
                "raise timeout_seconds or use a faster model"
            )
        message = f"{name} failed{tries} ({blank_secrets(failure.words, *self._secrets(params))[:500]})"
        if type(error).__name__ == "ContextWindowExceededError" or failure.is_overflow:
            return ContextOverflow(f"{message}; lower max_prompt_tokens below the judge's context", status)
        has_paths = not self.model.startswith(("openai/", "hosted_vllm/"))  # of its own
        if status in (200, 404, 405, 422) and base and urlsplit(base).path in ("", "/") and not has_paths:
            message += f"; its URL has no path: is it {without_credentials(base).rstrip('/')}/v1?"
        is_out_of_quota = status == 429 and failure.is_final
        return JudgeCallError(message, status, is_hopeless=status in _HOPELESS or is_out_of_quota)


def _said_end(replies: Sequence[object]) -> str:
    """The finish_reason as the server wrote it; "stop" where its reply is not in OpenAI's form."""
    try:
        return str(json.loads(str(replies[-1]))["choices"][0].get("finish_reason"))
    except (LookupError, TypeError, AttributeError, ValueError):
        return "stop"


def dollars(cost: Any) -> float | None:
    """A cost as a server tells it; None where it is none, such as a NaN."""
    return float(cost) if isinstance(cost, int | float) and 0 <= cost < math.inf else None


def is_server_url(url: str) -> bool:
    """Whether a request can be sent to a URL."""
    try:
        parts = urlsplit(url)
        return parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except (ValueError, TypeError, AttributeError):
        return False


def _check_url(base: str) -> None:
    """Raises `JudgeInputError` where no request can be sent to the URL. No secret of it is shown."""
    if not is_server_url(base):
        shown = without_credentials(base) if isinstance(base, str) else base
        raise JudgeInputError(f"api_base {shown!r} is no URL; write http://HOST:PORT/v1")


def _copied(value: Any) -> Any:
    """Dicts and lists anew, at any depth: litellm writes into what it is given."""
    if isinstance(value, Mapping):
        return {name: _copied(item) for name, item in value.items()}
    return [_copied(item) for item in value] if isinstance(value, list) else value


def _url_of_environment(model: str) -> str | None:
    """The URL of a model's provider in the variable that litellm reads (``OPENAI_BASE_URL``, ``OLLAMA_API_BASE``)."""
    provider = model.partition("/")[0].upper().removesuffix("_CHAT")
    return os.environ.get(f"{provider}_BASE_URL") or os.environ.get(f"{provider}_API_BASE") or None


@cache
def load_litellm() -> Any:
    """Import litellm without its call to the network and without its notices."""
    os.environ.setdefault("LITELLM_LOCAL_MODEL_COST_MAP", "True")
    try:
        litellm: Any = importlib.import_module("litellm")
    except ImportError as error:
        raise JudgeCallError('an LLM needs litellm: pip install "email-rl[judge]"', is_hopeless=True) from error
    # litellm keeps an HTTP client for each event loop and closes none. httpx says nothing of that, and no connection
    # is left open; aiohttp, the default, prints "Unclosed client session" at the end.
    litellm.disable_aiohttp_transport = True
    litellm.suppress_debug_info = True
    litellm.telemetry = False
    warnings.filterwarnings("ignore", "Pydantic serializer warnings")  # of a reply in another shape, on stderr
    if "LITELLM_LOG" not in os.environ:
        for name in ("LiteLLM", "LiteLLM Router", "LiteLLM Proxy"):
            logging.getLogger(name).setLevel(logging.CRITICAL)
    return litellm

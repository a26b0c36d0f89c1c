"""Why a call of an LLM failed, as the HTTP library at the bottom of litellm's error tells it.

litellm's own errors say less: a 413 is a 429 there, a body that is a text is left out, and a reply that litellm cannot
read is a 500.
"""

import random
import re
import time
from calendar import timegm
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from email.utils import parsedate
from typing import Self

MAX_BACKOFF_SECONDS = 60.0
"""No wait between two attempts is longer, but for its jitter, whatever the provider asks for."""
RATE_LIMIT_FACTOR = 9
"""A 429 without Retry-After waits so many times as long as another failure: 9, 18 and 36 s with the usual settings,
which is over the minute for which providers count."""

_TRANSIENT = frozenset({408, 409, 425, 429})
_OF_FORM = frozenset({400, 404, 415, 422, 500, 501})
"""What servers answer where they do not know structured output, or break at it."""
_FINAL_CODE = re.compile(
    r'"(?:code|type)"\s*:\s*"[^"]*(?:quota|billing|filter|policy|moderation|safety|invalid_prompt)[^"]*"', re.IGNORECASE
)
"""An error that names the account's quota, or a filter of contents: the next attempt gets the same."""
_OVERFLOW = re.compile(
    r"\bcontext[ _-](?:length|window|size)|\b(?:prompt|input)\b[^.]*\b(?:exceeds|(?:too|is) long)", re.IGNORECASE
)


@dataclass(frozen=True, slots=True)
class Failure:
    """A failed attempt."""

    status: int | None
    """What the server answered; 200: its reply cannot be read; 408: or none came in time; None: there was no answer."""
    words: str
    headers: Mapping[str, str]

    @classmethod
    def of(cls, error: Exception, reply: object = None) -> Self:
        """What litellm's error stands for; ``reply`` is what came with status 200, as far as litellm read it."""
        import httpx  # a command's --help imports the client

        causes = list(_causes(error))
        for cause in reversed(causes):
            if isinstance(cause, httpx.HTTPStatusError):
                answer = cause.response
                words = f"HTTP {answer.status_code}: {' '.join(answer.text.split())}"
                return cls(answer.status_code, words, answer.headers)
        words = str(error).partition("Traceback (most recent")[0].rstrip()  # litellm quotes its own
        words = f"HTTP 200: {reply}" if reply else f"{type(error).__name__}: {words}"
        if any(isinstance(cause, (TimeoutError, httpx.TimeoutException)) for cause in causes):
            return cls(408, words, {})
        if any(isinstance(cause, (OSError, httpx.TransportError)) for cause in causes):
            return cls(None, words, {})
        status = str(getattr(error, "status_code", ""))  # 500: litellm's own; others may be a code in the reply
        return cls(int(status) if re.fullmatch(r"[45]\d\d", status) and status != "500" else 200, words, {})

    @property
    def is_final(self) -> bool:
        """Whether the server says that the same request, or any, will fail again."""
        return bool(_FINAL_CODE.search(self.words))

    @property
    def is_overflow(self) -> bool:
        """Whether the prompt is longer than the context."""
        return self.status in (400, 413, 422) and bool(_OVERFLOW.search(self.words))

    @property
    def is_transient(self) -> bool:
        """Whether another attempt may succeed."""
        is_passing = self.status is None or self.status in _TRANSIENT or self.status >= 500
        return is_passing and not self.is_final

    @property
    def may_be_of_form(self) -> bool:
        """Whether the request may succeed without structured output."""
        return self.status in _OF_FORM and not self.is_final

    def wait_seconds(self, attempt: int, backoff_seconds: float) -> float:
        """How long to wait after the ``attempt``-th attempt, counted from 1: doubling, or what the server asks for.

        With jitter upwards, so that those who failed together do not come back together.
        """
        asked = _seconds(self.headers.get("retry-after", ""))
        factor = RATE_LIMIT_FACTOR if self.status == 429 and asked is None else 1
        wait_seconds = max(backoff_seconds * factor * 2 ** (attempt - 1), asked or 0.0)
        return min(wait_seconds, MAX_BACKOFF_SECONDS) * random.uniform(1.0, 1.25)


def _causes(error: BaseException | None) -> Iterator[BaseException]:
    while error is not None:
        yield error
        error = error.__cause__ or error.__context__


def _seconds(retry_after: str) -> float | None:
    """What a ``Retry-After`` says, in seconds or as a date (RFC 9110, 10.2.3); None where it says nothing."""
    date = parsedate(retry_after)  # in GMT, whatever stands behind it
    try:
        return timegm(date) - time.time() if date else float(retry_after)
    except (ValueError, OverflowError):
        return None

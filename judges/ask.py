"""One question to one judge: from the cache, or by a call with at most one repair turn. All judging ends here."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar

from judges.cache import cache_key
from judges.client import JudgeClient
from judges.errors import MalformedVerdict
from judges.session import Session

T = TypeVar("T")


@dataclass(slots=True)
class Exchange:
    """What passed between us and a judge about one prompt; it is filled while that happens, also where it fails."""

    answers: list[str] = field(default_factory=list)
    """Raw answers; a second one was given in the repair turn."""
    cached: bool = False
    """The answer came from the cache: no call, no tokens, no cost."""
    prompt_tokens: int = 0
    completion_tokens: int = 0
    cost_dollars: float | None = 0.0
    """None where the price of a call is not known."""
    seconds: float = 0.0
    """Waiting for a free slot and for retries included."""


async def ask(
    client: JudgeClient,
    messages: Sequence[Mapping[str, str]],
    *,
    response_format: Mapping[str, Any],
    parse: Callable[[str], T],
    repair: Callable[[str, MalformedVerdict], Sequence[Mapping[str, str]]],
    session: Session,
    exchange: Exchange | None = None,
    subject: str = "the question",
) -> T:
    """Ask, and ask once more where the answer is malformed. A usable answer is cached under the first prompt.

    Args:
        client: The judge.
        messages: The prompt.
        response_format: Structured output, for providers that have it.
        parse: From a raw answer to a verdict; raises `MalformedVerdict`.
        repair: The messages that show the judge a malformed answer and its mistake.
        session: Limits, cache and running cost.
        exchange: Filled with what passed.
        subject: What the verdict is on, for the error.

    Raises:
        MalformedVerdict: The answer after the repair turn was malformed as well.
        JudgeCallError: As in `JudgeClient.complete`.
        SpendLimitReached: As in `Session.complete`.
    """
    exchange = exchange if exchange is not None else Exchange()
    began = time.monotonic()
    try:
        key = cache_key({**client.identity(), "messages": list(messages), "response_format": response_format})
        if (known := await session.recall(key)) is not None:
            try:
                verdict = parse(known)
            except MalformedVerdict:  # an earlier version took it; ask as if it were not there
                pass
            else:
                session.count_cached()
                exchange.answers.append(known)
                exchange.cached = True
                return verdict
        problems: list[str] = []
        turns = list(messages)
        for _ in range(2):
            reply = await session.complete(client, turns, response_format)
            exchange.answers.append(reply.content)
            exchange.prompt_tokens += reply.prompt_tokens
            exchange.completion_tokens += reply.completion_tokens
            if exchange.cost_dollars is not None and reply.cost_dollars is not None:
                exchange.cost_dollars += reply.cost_dollars
            else:
                exchange.cost_dollars = None
            try:
                verdict = parse(reply.content)
            except MalformedVerdict as problem:
                cut = " (it was cut off: raise max_tokens)" if reply.finish_reason == "length" else ""
                problems.append(f"{problem}{cut}")
                turns += repair(reply.content, problem)
            else:
                await session.remember(key, reply.content)
                return verdict
        raise MalformedVerdict(
            f"judge {client.model} gave no usable verdict on {subject}: first {problems[0]}; "
            f"after the repair turn {problems[1]}. Its last answer began {exchange.answers[-1][:200]!r}"
        )
    finally:
        exchange.seconds = time.monotonic() - began

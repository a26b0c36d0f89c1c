"""One question to one LLM: answered from the cache, or by a call and at most one repair turn. All asking ends here.

A cached answer stands under the first prompt and was usable. So a verdict that needed a repair turn takes one look-up,
and a malformed answer is never served again.
"""

import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar

from judges.errors import MalformedVerdict
from judges.llm.cache import cache_key
from judges.llm.client import Completion, JudgeClient
from judges.llm.loop import in_one_loop
from judges.llm.prompt_text import count_message_tokens
from judges.llm.session import Session, Usage

MAX_QUOTED_CHARS = 4_000
"""How much of a malformed answer is shown back to the LLM."""
MAX_PROBLEM_CHARS = 400
"""How much of the error is shown beside it."""

T = TypeVar("T")
ChatTurns = list[dict[str, str]]


@dataclass(frozen=True, slots=True)
class Question(Generic[T]):
    """What an LLM is asked, and how its answer is read."""

    messages: Sequence[Mapping[str, str]]
    """The prompt."""
    response_format: Mapping[str, Any] | None
    """Structured output, for providers that have it."""
    parse: Callable[[str], T]
    """From a raw answer to a verdict, which is never None; raises `MalformedVerdict`."""
    wanted: str
    """What the JSON object must hold; the repair turn says it."""
    subject: str
    """What the verdict is on; the error says it."""
    max_prompt_tokens: int | None = None
    """What the prompt and a repair turn may take together, by `count_message_tokens`. None: no limit."""


@dataclass(slots=True)
class Exchange:
    """What passed between us and an LLM about one question. `ask` fills it, also when it fails."""

    answers: list[str] = field(default_factory=list)
    """Raw answers; the second one, if any, was given in the repair turn."""
    usage: Usage = field(default_factory=Usage)
    """What it took; ``cached`` where the answer came from the cache, or from an equal question at the same time."""
    seconds: float = 0.0
    """Waiting for a free slot and for retries included."""

    def to_record(self) -> dict[str, Any]:
        """All of it as JSON."""
        return {"answers": self.answers, **self.usage.to_dict(), "seconds": self.seconds}


async def ask(client: JudgeClient, question: Question[T], session: Session, exchange: Exchange) -> T:
    """Ask, and ask once more if the answer is malformed.

    Args:
        client: The LLM.
        question: The prompt, and how the answer is read.
        session: Limits, cache and running cost.
        exchange: Filled with what passed.

    Raises:
        MalformedVerdict: The answer after the repair turn was malformed as well.
        JudgeCallError: As in `JudgeClient.complete`.
        SpendLimitReached: As in `Session.complete`.
    """
    began = time.monotonic()
    key = cache_key(
        {**client.identity(), "messages": list(question.messages), "response_format": question.response_format}
    )

    async def usable_answer() -> str:
        if (cached := await session.cached_answer(key)) is not None:
            with suppress(MalformedVerdict):  # an earlier version of this package may have taken more
                question.parse(cached)
                return cached
        answer = await _from_llm(client, question, session, exchange)
        await session.keep_answer(key, answer)
        return answer

    async def counted_answer() -> str:
        answer = await session.once(key, usable_answer)
        if not exchange.answers:
            session.usage.cached += 1
            exchange.usage.cached += 1
            exchange.answers.append(answer)
        return answer

    try:
        return question.parse(await in_one_loop(counted_answer()))
    finally:
        exchange.seconds = time.monotonic() - began


async def _from_llm(client: JudgeClient, question: Question[Any], session: Session, exchange: Exchange) -> str:
    """The first usable answer."""
    messages, form = list(question.messages), question.response_format
    problems: list[str] = []
    for _ in range(2):
        completion = await session.complete(client, messages, form, exchange.usage)
        exchange.answers.append(completion.content)
        try:
            _check_end(completion)
            question.parse(completion.content)
            return completion.content
        except MalformedVerdict as problem:
            problems.append(str(problem))
            messages += repair_turn(question, completion.content, problem)
            form = None if completion.is_blank or completion.finish_reason == "length" else form
    raise MalformedVerdict(
        f"{client.model} gave no usable answer on {question.subject}: first {problems[0]}; "
        f"after the repair turn {problems[1]}. Its last answer began {exchange.answers[-1][:200]!r}"
    )


def _check_end(completion: Completion) -> None:
    """Refuse an answer that the model itself did not end: a whole JSON object in it may be a draft."""
    reason = completion.finish_reason
    if completion.is_blank and completion.has_reasoning:
        raise MalformedVerdict("the answer is empty: its text stands in reasoning_content, which is not read")
    if reason != "stop":
        hint = "; raise max_tokens" if reason == "length" else ""
        raise MalformedVerdict(f"the model did not end the answer: its finish_reason is {reason or 'missing'}{hint}")


def repair_turn(question: Question[Any], content: str, problem: MalformedVerdict) -> ChatTurns:
    """The two messages that show an LLM its malformed answer and ask once more.

    The beginning of the answer is quoted, as much as ``question.max_prompt_tokens`` leaves room for.
    """
    request = {
        "role": "user",
        "content": f"That answer cannot be used: {str(problem)[:MAX_PROBLEM_CHARS]}. Answer again with the whole JSON "
        f"object and nothing else: {question.wanted}.",
    }

    def turn(chars: int) -> ChatTurns:
        return [{"role": "assistant", "content": content[:chars].strip() or "(empty)"}, request]

    chars = MAX_QUOTED_CHARS
    if question.max_prompt_tokens is not None:
        room = question.max_prompt_tokens - count_message_tokens(question.messages)
        while chars and count_message_tokens(turn(chars)) > room:
            chars //= 2
    return turn(chars)

"""What judgements share: how many calls at once, what they may cost and have cost, the cache and the record.

    session = judges.Session(max_cost_dollars=5, cache="judge-cache.db", record="runs/first/judgements.jsonl")
    scores = await judges.ruler(message_lists, session=session)
    print(session.usage)                                        # 1 calls, 0 from the cache, 4012 + 310 tokens, $0.0058

One session may serve several threads and event loops: `judges.llm.ask` asks in the judges' own loop. It does not know
how to reach a judge; `judges.llm.client` does.
"""

import asyncio
import logging
import math
import os
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Self

from judges.errors import JudgeCallError, JudgeInputError, SpendLimitReached
from judges.llm.cache import AnswerCache
from judges.llm.client import Completion, JudgeClient
from judges.llm.record import JudgementLog

logger = logging.getLogger(__name__)


@dataclass(slots=True)
class Usage:
    """A running sum over calls. A cached answer counts as ``cached`` and costs nothing."""

    calls: int = 0
    """Calls that an LLM answered, repair turns included, also where nothing of the answer can be read. Failed attempts
    are not known to cost and are not counted."""
    cached: int = 0
    """Answers that came from the cache instead, or from an equal question at the same time."""
    prompt_tokens: int = 0
    """As the provider reported them."""
    completion_tokens: int = 0
    """As the provider reported them, reasoning included."""
    cost_dollars: float = 0.0
    """The sum of the known prices."""
    unpriced_calls: int = 0
    """Calls whose cost is not known: litellm has no price, or the server reported no usage. It is not in the sum."""

    def add(self, completion: Completion) -> None:
        """Count one answered call."""
        self.calls += 1
        self.prompt_tokens += completion.prompt_tokens
        self.completion_tokens += completion.completion_tokens
        self.unpriced_calls += completion.cost_dollars is None
        self.cost_dollars += completion.cost_dollars or 0.0

    def since(self, earlier: Self) -> Self:
        """What was added after ``earlier``, a copy of this sum at that time."""
        now, before = asdict(self), asdict(earlier)
        return type(self)(**{name: now[name] - before[name] for name in now})

    def to_dict(self) -> dict[str, Any]:
        """The numbers by name; ``cost_dollars`` is None where no call had a known price."""
        known = self.calls > self.unpriced_calls or not self.calls
        return {**asdict(self), "cost_dollars": self.cost_dollars if known else None}

    def __str__(self) -> str:
        cost = f"${self.cost_dollars:.4f}" if self.to_dict()["cost_dollars"] is not None else "cost unknown"
        unpriced = f" ({self.unpriced_calls} calls of unknown price)" if 0 < self.unpriced_calls < self.calls else ""
        return (
            f"{self.calls} calls, {self.cached} from the cache, "
            f"{self.prompt_tokens} + {self.completion_tokens} tokens, {cost}{unpriced}"
        )


class Session:
    """Limits, running cost, cache and record of a series of judgements.

    Equal questions at the same time are asked once. A cache or record that fails after its start (a full disk) costs no
    verdict: a warning says so, once.

    Args:
        max_concurrency: Calls under way at the same time, waits before retries included.
        max_cost_dollars: No call begins once this is spent. Calls that are under way then are still paid, so the excess
            is at most ``max_concurrency`` calls. Where litellm does not know the price of a model, no further call
            begins after its first reply: give the price with ``extra_litellm_params={"input_cost_per_token": ...,
            "output_cost_per_token": ...}`` (0 for a server of your own). So for a server without usage.
        cache: SQLite file of usable answers. An answer that is in it costs nothing, and it is the same every time,
            which a judge's answer need not be.
        record: JSONL file to which every judgement is appended: trajectories, prompts, answers, scores, seed, cost and
            time. `judges.reliability.replay` reads it. It holds the mail that was judged, and no key.
        clock: Seconds since the epoch, for the record.

    Attributes:
        usage: What was asked and paid so far.
        max_concurrency: As given.
        max_cost_dollars: As given.

    Raises:
        JudgeInputError: A limit cannot be used, or a file cannot be opened.
    """

    def __init__(
        self,
        *,
        max_concurrency: int = 16,
        max_cost_dollars: float | None = None,
        cache: str | os.PathLike[str] | None = None,
        record: str | os.PathLike[str] | None = None,
        clock: Callable[[], float] = time.time,
    ) -> None:
        if not isinstance(max_concurrency, int) or max_concurrency < 1:
            raise JudgeInputError(f"max_concurrency must be 1 or more, got {max_concurrency!r}")
        if max_cost_dollars is not None and not (
            isinstance(max_cost_dollars, (int, float)) and 0 < max_cost_dollars < math.inf
        ):
            raise JudgeInputError(f"max_cost_dollars must be above 0 and finite, got {max_cost_dollars!r}")
        self.usage = Usage()
        self.max_concurrency = max_concurrency
        self.max_cost_dollars = max_cost_dollars
        self.clock = clock
        self._loop: asyncio.AbstractEventLoop | None = None
        self._warned: set[Path] = set()
        self._takes_form: dict[tuple[str, str | None], bool] = {}
        self._cache = None if cache is None else AnswerCache(cache)
        self._record = None if record is None else JudgementLog(record)

    @staticmethod
    def of(session: "Session | None") -> "Session":
        """The session that was handed in, or the one that all share who hand in none: it bounds calls, and no more.

        Raises:
            JudgeInputError: It is something else.
        """
        if session is not None and not isinstance(session, Session):
            raise JudgeInputError(f"session must be a judges.Session, got {session!r:.80}")
        return session or _SHARED

    async def complete(
        self,
        client: JudgeClient,
        messages: Sequence[Mapping[str, str]],
        response_format: Mapping[str, Any] | None,
        usage: Usage,
    ) -> Completion:
        """One reply within the limits, counted in ``self.usage`` and in ``usage``.

        Where structured output is refused, or leads to a reply that says nothing, the same is asked without it. A judge
        that answers then, and never answered with it, is not asked for it again.

        Raises:
            SpendLimitReached: The money is spent, or the price is not known although there is a limit.
            JudgeCallError: As in `JudgeClient.complete`, or the reply cannot be read.
        """

        async def call(form: Mapping[str, Any] | None) -> Completion:
            self._here()
            async with self._slots:
                self.check_spend(client.model)
                completion = await client.complete(messages, form)
            self.usage.add(completion)
            usage.add(completion)
            if completion.problem:
                raise JudgeCallError(completion.problem, 200)
            return completion

        judge = client.model, client.identity()["api_base"]
        if response_format is None or self._takes_form.get(judge) is False:
            return await call(None)
        try:
            completion = await call(response_format)
            if not completion.is_blank:
                self._takes_form.setdefault(judge, True)
                return completion
        except JudgeCallError as error:
            if not error.may_be_of_form:
                raise
        completion = await call(None)
        if not completion.is_blank:
            self._takes_form.setdefault(judge, False)
        return completion

    def _here(self) -> asyncio.AbstractEventLoop:
        """The loop that all judges are asked in, with what waits there; another one after a fork."""
        loop = asyncio.get_running_loop()
        if loop is not self._loop:
            self._loop, self._slots = loop, asyncio.Semaphore(self.max_concurrency)
            self._asked: dict[str, asyncio.Future[str]] = {}
        return loop

    async def once(self, key: str, work: Callable[[], Awaitable[str]]) -> str:
        """What ``work`` returns, done here or by one who asks the same at the same time.

        An error of who works is everyone's; where that one is cancelled, the next works.
        """
        loop = self._here()
        while (asked := self._asked.get(key)) is not None:
            await asyncio.wait({asked})  # one who waits and is cancelled does not cancel it for all
            if not asked.cancelled():
                return asked.result()
        mine = self._asked[key] = loop.create_future()
        try:
            answer = await work()
            mine.set_result(answer)
            return answer
        except Exception as error:
            mine.set_exception(error)
            mine.exception()  # else asyncio tells of an error that nobody waits for
            raise
        finally:
            del self._asked[key]
            mine.cancel()  # does nothing where it is done

    async def cached_answer(self, key: str) -> str | None:
        """The cached answer, if there is one."""
        if self._cache is None:
            return None
        try:
            return await asyncio.to_thread(self._cache.get, key)
        except JudgeInputError as error:
            self._warn_once(f"a verdict that was paid for may be paid for again: {error}", self._cache.path)
            return None

    async def keep_answer(self, key: str, answer: str) -> None:
        """Put a usable answer into the cache, if there is one."""
        if self._cache:
            try:
                await asyncio.to_thread(self._cache.put, key, answer)
            except JudgeInputError as error:
                self._warn_once(f"a verdict is not in the cache: {error}", self._cache.path)

    def log(self, judgement: Callable[[], Mapping[str, Any]]) -> None:
        """Append a judgement to the record, where one is kept; ``judgement`` is called only then."""
        if self._record:
            try:
                self._record.append({"time": self.clock(), **judgement()})
            except (OSError, ValueError, TypeError, RecursionError) as error:
                self._warn_once(f"a judgement is not in the record {self._record.path}: {error}", self._record.path)

    def records_to(self, path: Path) -> bool:
        """Whether judgements are appended to that file."""
        return self._record is not None and self._record.path.resolve() == path.resolve()

    def check_spend(self, model: str) -> None:
        """Whether the judge may be asked.

        Raises:
            SpendLimitReached: The money is spent, or the price is not known although there is a limit.
        """
        if self.max_cost_dollars is None:
            return
        if self.usage.cost_dollars >= self.max_cost_dollars:
            raise SpendLimitReached(
                f"${self.usage.cost_dollars:.4f} are spent and the limit is ${self.max_cost_dollars:g}; "
                f"{model} was not asked. Raise the limit, use a cache, or judge fewer groups"
            )
        if self.usage.unpriced_calls:
            raise SpendLimitReached(
                f"what a call of {model} costs is not known (litellm has no price for it, or its server reports "
                f"no usage), so the limit of ${self.max_cost_dollars:g} cannot be kept; leave the limit out, or set "
                "input_cost_per_token and output_cost_per_token in extra_litellm_params (0 for a server of your own)"
            )

    def _warn_once(self, message: str, path: Path) -> None:
        if path not in self._warned:
            self._warned.add(path)
            logger.warning("%s. Judging goes on; this is said once", message)


_SHARED = Session()

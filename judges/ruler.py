"""RULER: LLM calls that score all trajectories of a group relative to each other.

Relative scores are what GRPO needs, and comparing is easier for a judge than marking. The idea and the two function
names come from OpenPipe ART's RULER; scores are matched by id here, and a verdict that is not exact is an error.

    scores = await ruler(message_lists, "openai/o4-mini")
    scores = await ruler(message_lists, "openai/o4-mini", permutations=4)              # the mean of four orders
    scores = await ruler(message_lists, judges=["openai/o4-mini", "ollama/qwen3"])     # the mean of two judges
"""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from statistics import fmean
from typing import TYPE_CHECKING, Any, TypeVar, Unpack

from judges.errors import JudgeInputError
from judges.types import CallOptions, Message, ScoreOptions, TrajectoryScore

if TYPE_CHECKING:
    from judges.client import JudgeClient
    from judges.judgement import Verdict
    from judges.session import Session

DEFAULT_JUDGE = "openai/o4-mini"
DEFAULT_MAX_PROMPT_TOKENS = 100_000
"""Fits judges with a context of 128k, with room for reasoning and answer."""

T = TypeVar("T")


async def ruler(
    message_lists: Sequence[Sequence[Message]],
    judge_model: str = DEFAULT_JUDGE,
    *,
    judges: Sequence[str | JudgeClient] | None = None,
    rubric: str | None = None,
    tools: Sequence[Mapping[str, Any]] | None = None,
    extra_litellm_params: Mapping[str, Any] | None = None,
    permutations: int = 1,
    max_prompt_tokens: int | None = DEFAULT_MAX_PROMPT_TOKENS,
    session: Session | None = None,
    debug: bool = False,
    seed: int = 0,
    **call: Unpack[CallOptions],
) -> list[TrajectoryScore]:
    """Score a group of trajectories relative to each other.

    Equal trajectories are judged once and share the score. Differences in random tool-call ids do not count. One
    trajectory, or a group of equal ones, is judged on its own. An empty group gives an empty list without a call.

    **Order.** Every judge sees every one of ``permutations`` orders, and the scores are means. Let a judge add to a
    trajectory's score a bonus that depends on its place alone, between 0 and ``B``, in a group of ``n`` different
    trajectories. With ``k`` orders and ``r = k mod n``, the part of the difference between two mean scores that is due
    to the order is at most ``B min(r, n - r) / k``, and at most ``B / k`` if one place alone has a bonus. It is 0
    where ``k`` is a multiple of ``n``: the orders are then a Latin square, and each trajectory is at each place equally
    often.

    **Failure.** All verdicts count or none: one that is malformed after its repair turn, or a call that fails, fails
    the group, because a mean over the rest would no longer be balanced. The usable verdicts stay in the session's
    cache, so that trying again asks for the missing ones alone.

    Args:
        message_lists: One list of OpenAI-style messages per trajectory; all pursue the same goal.
        judge_model: A litellm model name.
        judges: Several judges instead of ``judge_model``, each with the same weight: names, or `JudgeClient` objects
            where they are reached in different ways.
        rubric: Grading standards in plain words instead of the generic ones.
        tools: OpenAI function schemas the agent could call, shown to the judge.
        extra_litellm_params: Handed to litellm: ``temperature``, ``max_tokens``, ... (for judges given by name).
        permutations: Orders in which each judge sees the trajectories, one call each; a trajectory that stands alone
            has one order.
        max_prompt_tokens: No prompt takes more, by the high estimate of `judges.tokens`, a repair turn included: the
            middle of long tool outputs is left out first, then of other long texts, and the cut is marked. Keep it some
            thousands below the judge's context, which must hold the answer too: most judges say when it overflows
            (`ContextOverflow`), but Ollama drops what does not fit its ``num_ctx`` silently. None: never cut.
        session: Concurrency and spend limits, running cost, cache and record, shared by many calls.
        debug: Print prompts, raw answers and scores to stderr.
        seed: Seed of the labels and of the orders in which the judge sees the trajectories.
        **call: ``api_base``, ``api_key``, ``timeout_seconds``, ``max_retries``, ``backoff_seconds`` (for judges given
            by name).

    Returns:
        One score per trajectory, in the order of the input. With several verdicts, ``score`` is their mean, ``spread``
        their range, and ``explanation`` that of the verdict nearest to the mean.

    Raises:
        JudgeInputError: Something that is no message list, or a setting that cannot be used (`PromptTooLong`: no cut
            makes it fit).
        JudgeCallError: A judge could not be reached or refused (`JudgeTimeoutError`: did not answer in time).
        MalformedVerdict: A judge's answer was no exact verdict, nor was the one after the repair turn.
        SpendLimitReached: The session's money is spent.
    """
    from judges.judgement import judge_prompts, judgement_record
    from judges.prompt import build_prompts
    from judges.session import Session

    clients = _clients(judge_model, judges, extra_litellm_params, call)
    session = session or Session()
    if not message_lists:
        return []
    prompts = build_prompts(
        message_lists,
        rubric=rubric,
        tools=tools,
        seed=seed,
        permutations=permutations,
        max_prompt_tokens=max_prompt_tokens,
    )
    verdicts = await judge_prompts(clients, prompts, session, max_prompt_tokens)
    failures = [verdict.error for verdict in verdicts if verdict.error is not None]
    scores = [] if failures else _means(len(message_lists), verdicts)
    await asyncio.to_thread(session.log, lambda: judgement_record(message_lists, rubric, tools, verdicts, scores))
    if debug:
        from judges.debug import show_judgement

        show_judgement(verdicts, scores)
    if failures:
        raise failures[0]
    return scores


def score(
    message_lists: Sequence[Sequence[Message]], judge_model: str = DEFAULT_JUDGE, **options: Unpack[ScoreOptions]
) -> list[TrajectoryScore]:
    """`ruler` for code without an event loop, and for notebooks, which have one already. Takes the same arguments."""
    return run_sync(ruler(message_lists, judge_model, **options))


def run_sync(coroutine: Coroutine[Any, Any, T]) -> T:
    """Run a coroutine to its end, in a thread of its own where this one has a running loop (a notebook)."""
    try:
        asyncio.get_running_loop()
        is_notebook = True
    except RuntimeError:
        is_notebook = False
    if not is_notebook:  # not in the handler above, whose error would stand in front of each of the coroutine's
        return asyncio.run(coroutine)
    with ThreadPoolExecutor(1) as thread:
        return thread.submit(asyncio.run, coroutine).result()


def _clients(
    judge_model: str,
    judges: Sequence[str | JudgeClient] | None,
    extra_litellm_params: Mapping[str, Any] | None,
    call: CallOptions,
) -> list[JudgeClient]:
    from judges.client import JudgeClient

    if judges is None:
        judges = [judge_model]
    elif judge_model != DEFAULT_JUDGE:
        raise JudgeInputError(f"got judge_model={judge_model!r} and judges; name the judges in one of the two")
    if isinstance(judges, str) or not judges:
        raise JudgeInputError(f'judges must be a non-empty list such as ["openai/o4-mini"], got {judges!r}')
    return [
        judge if isinstance(judge, JudgeClient) else JudgeClient(judge, extra_params=extra_litellm_params or {}, **call)
        for judge in judges
    ]


def _means(count: int, verdicts: Sequence[Verdict]) -> list[TrajectoryScore]:
    scores: list[TrajectoryScore] = []
    for place in range(count):
        entries = [verdict.entry(place) for verdict in verdicts]
        values = [entry.score for entry in entries]
        mean = fmean(values)
        nearest = min(entries, key=lambda entry: abs(entry.score - mean))
        scores.append(TrajectoryScore(str(place + 1), nearest.explanation, mean, max(values) - min(values)))
    return scores

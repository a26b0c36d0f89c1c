"""RULER: an LLM judge scores all trajectories of a group relative to each other.

Relative scores are what GRPO needs, and comparing is easier for a judge than marking. The idea and the two function
names come from OpenPipe ART's RULER. Here scores are matched by id, and a verdict that is not exact is an error.

    scores = await ruler(message_lists, "openai/o4-mini")
    scores = await ruler(message_lists, "openai/o4-mini", permutations=4)              # the mean of four orders
    scores = await ruler(message_lists, judges=["openai/o4-mini", "ollama/qwen3"])     # the mean of two judges

Equal trajectories are judged once and share the score. Differences in random tool-call ids do not count. One
trajectory, or a group of equal ones, is judged on its own.

Every judge sees every one of ``permutations`` orders, and the scores are means. `judges.scoring.orders` says how far
that cancels a judge's liking for a place.

All verdicts count or none. If one is malformed after its repair turn, or one call fails, the group fails, because a
mean over the rest would not be balanced. The usable verdicts stay in the session's cache, so a second try asks only for
the missing ones.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Unpack

from judges.errors import JudgeInputError
from judges.llm.client import DEFAULT_JUDGE, CallOptions, JudgeClient
from judges.llm.session import Session
from judges.llm.sync import run_sync
from judges.scoring.types import Message, RulerOptions, TrajectoryScore

if TYPE_CHECKING:
    from judges.scoring.judgement import Judgement

DEFAULT_MAX_PROMPT_TOKENS = 100_000
"""Fits judges with a context of 128k, with room for reasoning and answer."""


async def ruler(
    message_lists: Sequence[Sequence[Message]],
    judge_model: str = DEFAULT_JUDGE,
    *,
    judges: Sequence[str | JudgeClient] | None = None,
    rubric: str | None = None,
    tools: Sequence[Mapping[str, Any]] | None = None,
    permutations: int = 1,
    max_prompt_tokens: int | None = DEFAULT_MAX_PROMPT_TOKENS,
    session: Session | None = None,
    debug: bool = False,
    seed: int = 0,
    **call: Unpack[CallOptions],
) -> list[TrajectoryScore]:
    """Score a group of trajectories relative to each other. An empty group gives an empty list without a call.

    Args:
        message_lists: One list of OpenAI-style messages per trajectory; all pursue the same goal.
        judge_model: A litellm model name.
        judges: Several judges of equal weight instead of ``judge_model``: names, or `JudgeClient` objects.
        rubric: Grading standards in plain words instead of the generic ones.
        tools: OpenAI function schemas that the agent could call, shown to the judge.
        permutations: Orders in which each judge sees the trajectories, one call each.
        max_prompt_tokens: Longer prompts are cut, by the high estimate of `judges.llm.tokens`; None: never. Keep it
            some thousands below the judge's context, which must hold the answer too. Most judges say when their context
            overflows (`ContextOverflow`), but Ollama silently drops what does not fit its ``num_ctx``.
        session: Concurrency and spend limits, running cost, cache and record, shared by many calls.
        debug: Print prompts, raw answers and scores to stderr.
        seed: Seed of the labels and of the orders in which the judge sees the trajectories.
        **call: How to reach the judges given by name: ``api_base``, ``api_key``, ... (see `JudgeClient`).

    Returns:
        One score per trajectory, in the order of the input. With several verdicts, ``score`` is their mean, ``spread``
        their range, and ``explanation`` that of the verdict nearest to the mean.

    Raises:
        JudgeInputError: Something is no message list, or a setting cannot be used (`PromptTooLong`: no cut makes it
            fit).
        JudgeCallError: A judge could not be reached or refused (`JudgeTimeoutError`: did not answer in time).
        MalformedVerdict: A judge's answer was no exact verdict, nor was the one after the repair turn.
        SpendLimitReached: The session's money is spent.
    """
    from judges.scoring.judgement import Judgement, judge_prompts
    from judges.scoring.prompt import build_prompts

    clients, session = _clients(judge_model, judges, call), session or Session()
    message_lists = list(message_lists or [])  # a generator can be read once
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
    judgement = Judgement(message_lists, rubric, tools, verdicts)
    return await _scores(judgement, session, debug)


def score(
    message_lists: Sequence[Sequence[Message]],
    judge_model: str = DEFAULT_JUDGE,
    *,
    tools: Sequence[Mapping[str, Any]] | None = None,
    **options: Unpack[RulerOptions],
) -> list[TrajectoryScore]:
    """`ruler` for code without an event loop, and for notebooks, which have one already. Takes the same arguments."""
    return run_sync(ruler(message_lists, judge_model, tools=tools, **options))


async def _scores(judgement: Judgement, session: Session, debug: bool) -> list[TrajectoryScore]:
    """The scores of a judgement, after it was recorded and shown; raises its failure."""
    await asyncio.to_thread(session.log, judgement.to_record)
    if debug:
        from judges.scoring.debug import show_judgement

        show_judgement(judgement)
    if judgement.failure is not None:
        raise judgement.failure
    return judgement.scores()


def _clients(judge_model: str, judges: Sequence[str | JudgeClient] | None, call: CallOptions) -> list[JudgeClient]:
    if judges is None:
        judges = [judge_model]
    elif judge_model != DEFAULT_JUDGE:
        raise JudgeInputError(f"got judge_model={judge_model!r} and judges; name the judges in one of the two")
    if isinstance(judges, str) or not judges:
        raise JudgeInputError(f'judges must be a non-empty list such as ["openai/o4-mini"], got {judges!r}')
    return [judge if isinstance(judge, JudgeClient) else JudgeClient(judge, **call) for judge in judges]

"""RULER: an LLM judge scores all trajectories of a group relative to each other.

Relative scores are what GRPO needs, and comparing is easier for a judge than marking. The idea, the two function names
and the order of their first arguments come from OpenPipe ART's RULER. Here scores are matched by id, and a verdict that
is not exact is an error.

    scores = await ruler(message_lists, "openai/o4-mini")
    scores = await ruler(message_lists, "openai/o4-mini", permutations=4)              # the mean of four orders
    scores = await ruler(message_lists, judges=["openai/o4-mini", "ollama/qwen3"])     # the mean of two judges

Equal trajectories are judged once and share the score. Differences in random tool-call ids do not count. One
trajectory, or a group of equal ones, is judged on its own.

Every judge sees every one of ``permutations`` orders, and the scores are means. `judges.scoring.prompt` says how far
that cancels a judge's liking for a place.

All verdicts count or none. If one is malformed after its repair turn, or one call fails, the group fails, because a
mean over the rest would not be balanced. The usable verdicts stay in the session's cache, so a second try asks only for
the missing ones.
"""

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from typing import Any, Unpack

from judges.errors import JudgeInputError
from judges.llm.client import DEFAULT_JUDGE, CallOptions, JudgeClient, Reach
from judges.llm.loop import blocking
from judges.llm.session import Session
from judges.scoring.judgement import Judgement, judge_prompts, show_judgement
from judges.scoring.messages import as_mappings
from judges.scoring.prompt import build_prompts
from judges.scoring.types import SharedOptions, TrajectoryScore

DEFAULT_MAX_PROMPT_TOKENS = 100_000
"""Fits judges with a context of 128k, with room for reasoning and answer."""

_OF_GROUPS = SharedOptions.__annotations__.keys() - CallOptions.__annotations__.keys()
"""Options that do not say how to reach a judge."""


async def ruler(
    message_lists: Iterable[Iterable[Any]],
    judge_model: str = DEFAULT_JUDGE,
    extra_litellm_params: Mapping[str, Any] | None = None,
    rubric: str | None = None,
    tools: Iterable[Any] | None = None,
    *,
    judges: Sequence[str | JudgeClient] | None = None,
    permutations: int = 1,
    max_prompt_tokens: int | None = DEFAULT_MAX_PROMPT_TOKENS,
    session: Session | None = None,
    debug: bool = False,
    seed: int = 0,
    **call: Unpack[Reach],
) -> list[TrajectoryScore]:
    """Score a group of trajectories relative to each other. An empty group gives an empty list without a call.

    Args:
        message_lists: One list of OpenAI-style messages, or of the openai package's objects, per trajectory.
        judge_model: A litellm model name.
        extra_litellm_params: As in `JudgeClient`.
        rubric: Grading standards in plain words instead of the generic ones.
        tools: OpenAI function schemas that the agent could call, shown to the judge.
        judges: Several judges of equal weight instead of ``judge_model``: names, or `JudgeClient` objects.
        permutations: Orders in which each judge sees the trajectories, one call each.
        max_prompt_tokens: Longer prompts are cut, by a high estimate (`judges.llm.prompt_text`); None: never. Keep it
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
        JudgeInputError: No message list, or a setting that cannot be used (`PromptTooLong`: no cut makes it fit).
        JudgeCallError: A judge could not be reached or refused (`JudgeTimeoutError`: did not answer in time).
        MalformedVerdict: A judge's answer was no exact verdict, nor was the one after the repair turn.
        SpendLimitReached: The session's money is spent.
    """
    clients = judges_of(judge_model, judges, {**call, "extra_litellm_params": extra_litellm_params})
    session = Session.of(session)
    # Generators can be read once.
    message_lists = [as_mappings(messages) for messages in (() if message_lists is None else message_lists)]
    schemas: Any = list(tools) if isinstance(tools, Iterable) and not isinstance(tools, (str, Mapping)) else tools
    if not message_lists:
        return []
    shown = {"rubric": rubric, "tools": schemas, "seed": seed, "permutations": permutations}
    prompts = build_prompts(message_lists, **shown, max_prompt_tokens=max_prompt_tokens)
    verdicts = await judge_prompts(clients, prompts, session, max_prompt_tokens)
    judgement = Judgement(message_lists, rubric, schemas, verdicts)
    await asyncio.to_thread(session.log, judgement.to_record)
    if debug:
        with suppress(OSError):  # stderr may be a full disk, and the verdict was paid for
            show_judgement(judgement)
    if judgement.failure is not None:
        raise judgement.failure
    return judgement.scores()


score = blocking(ruler)
"""`ruler` for code without an event loop, and for notebooks, which have one already."""


def judges_of(judge_model: str, judges: Iterable[str | JudgeClient] | None, call: CallOptions) -> list[JudgeClient]:
    """The judges that are named in one of the two ways.

    Raises:
        TypeError: There is no such option of a call.
        JudgeInputError: None or both are named, one is named twice, or a setting cannot be used.
    """
    client = JudgeClient(judge_model, **call)  # also where it is not asked, for the options
    if judges is None:
        return [client]
    if judge_model != DEFAULT_JUDGE:
        raise JudgeInputError(f"got judge_model={judge_model!r} and judges; name the judges in one of the two")
    named = list(judges) if isinstance(judges, Iterable) and not isinstance(judges, str) else []
    if not named:
        raise JudgeInputError(f'judges must be a non-empty list such as ["openai/o4-mini"], got {judges!r:.80}')
    clients = [judge if isinstance(judge, JudgeClient) else JudgeClient(judge, **call) for judge in named]
    for client in clients:
        if sum(client.identity() == other.identity() for other in clients) > 1:
            raise JudgeInputError(
                f"judges name {client.model} twice, and it would be asked once; name different judges"
            )
    return clients


def settle(judge_model: str, options: SharedOptions) -> SharedOptions:
    """The options of `ruler` with the judges made: what cannot be used is refused before there is a group.

    Raises:
        TypeError: There is no such option.
        JudgeInputError: As in `judges_of`.
    """
    settled = options.copy()
    call: CallOptions = {}
    for name in settled.keys() - _OF_GROUPS:
        call[name] = settled.pop(name)
    settled["judges"] = judges_of(judge_model, settled.get("judges"), call)
    return settled

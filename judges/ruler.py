"""RULER: one LLM call scores all trajectories of a group relative to each other.

Relative scores are what GRPO needs, and comparing is easier for a judge than marking. The idea and the two function
names come from OpenPipe ART's RULER; scores are matched by id here, and a verdict that is not exact is an error.

    scores = await ruler(message_lists, "openai/o4-mini")
"""

from __future__ import annotations

import asyncio
import copy
import dataclasses
import logging
from collections.abc import Coroutine, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar, Unpack

from judges.errors import JudgeError, JudgeInputError, MalformedVerdict
from judges.types import CallOptions, JudgedGroup, JudgedTrajectory, Message, TrajectoryScore

DEFAULT_JUDGE = "openai/o4-mini"

GroupT = TypeVar("GroupT", bound=JudgedGroup)
T = TypeVar("T")

logger = logging.getLogger(__name__)


async def ruler(
    message_lists: Sequence[Sequence[Message]],
    judge_model: str = DEFAULT_JUDGE,
    *,
    rubric: str | None = None,
    tools: Sequence[Mapping[str, Any]] | None = None,
    extra_litellm_params: Mapping[str, Any] | None = None,
    debug: bool = False,
    seed: int = 0,
    **call: Unpack[CallOptions],
) -> list[TrajectoryScore]:
    """Score a group of trajectories relative to each other.

    Equal trajectories are judged once and share the score. Differences in random tool-call ids do not count. One
    trajectory, or a group of equal ones, is judged on its own. An empty group gives an empty list without a call.

    Args:
        message_lists: One list of OpenAI-style messages per trajectory; all pursue the same goal.
        judge_model: A litellm model name.
        rubric: Grading standards in plain words instead of the generic ones.
        tools: OpenAI function schemas the agent could call, shown to the judge.
        extra_litellm_params: Handed to litellm: ``temperature``, ``max_tokens``, ...
        debug: Print prompt, raw answers and scores to stderr.
        seed: Seed of the labels and the order in which the judge sees the trajectories.
        **call: ``api_base``, ``api_key``, ``timeout_seconds``, ``max_retries``, ``backoff_seconds``.

    Returns:
        One score per trajectory, in the order of the input.

    Raises:
        JudgeInputError: Something that is no message list, or a setting that cannot be used.
        JudgeCallError: The judge could not be reached or refused (`JudgeTimeoutError`: did not answer in time).
        MalformedVerdict: The judge's answer was no exact verdict, nor was the one after the repair turn.
    """
    from judges.client import JudgeClient
    from judges.prompt import build_prompt

    client = JudgeClient(judge_model, extra_params=extra_litellm_params or {}, **call)
    if not message_lists:
        return []
    prompt = build_prompt(message_lists, rubric=rubric, tools=tools, seed=seed)
    answers: list[str] = []
    scores: list[TrajectoryScore] = []
    try:
        verdict = await _verdict(client, prompt.messages, prompt.shown, answers)
        scores = [
            TrajectoryScore(str(place), verdict[label].explanation, verdict[label].score)
            for place, label in enumerate(prompt.labels, start=1)
        ]
    finally:
        if debug:
            from judges.debug import show_judgement

            show_judgement(judge_model, prompt, answers, scores)
    return scores


async def _verdict(
    client: Any, messages: Sequence[Mapping[str, str]], labels: Sequence[str], answers: list[str]
) -> dict[str, Any]:
    """Ask, and ask once more where the answer is malformed. Every raw answer is appended to ``answers``."""
    from judges.verdict import RESPONSE_FORMAT, parse_verdict, repair_turn

    problems: list[str] = []
    for _ in range(2):
        reply = await client.complete(messages, RESPONSE_FORMAT)
        answers.append(reply.content)
        try:
            return parse_verdict(reply.content, labels)
        except MalformedVerdict as problem:
            cut = " (it was cut off: raise max_tokens)" if reply.finish_reason == "length" else ""
            problems.append(f"{problem}{cut}")
            messages = [*messages, *repair_turn(reply.content, problem, labels)]
    raise MalformedVerdict(
        f"judge {client.model} gave no usable verdict on {len(labels)} trajectories: first {problems[0]}; "
        f"after the repair turn {problems[1]}. Its last answer began {answers[-1][:200]!r}"
    )


async def ruler_score_group(
    group: GroupT,
    judge_model: str = DEFAULT_JUDGE,
    *,
    rubric: str | None = None,
    extra_litellm_params: Mapping[str, Any] | None = None,
    swallow_exceptions: bool = False,
    debug: bool = False,
    seed: int = 0,
    **call: Unpack[CallOptions],
) -> GroupT | None:
    """Score a group and return a copy of it whose rewards are the scores.

    Works on any object with ``trajectories``, each with ``messages``, ``reward`` and ``metrics``, and with ``tools``
    and ``explanation`` where it has them. In the copy, ``metrics["independent_reward"]`` is the reward from before
    (from before the first judgement, where a group is judged again), ``metrics["ruler_score"]`` the score, and
    ``explanation`` the judge's. The input is left as it was.

    Args:
        group: Trajectories with the same goal.
        judge_model: A litellm model name.
        rubric: As in `ruler`.
        extra_litellm_params: As in `ruler`.
        swallow_exceptions: Log a `JudgeError` as a warning and return None instead of raising it.
        debug: As in `ruler`.
        seed: As in `ruler`.
        **call: As in `ruler`.

    Returns:
        The scored copy, or None where the judgement failed and ``swallow_exceptions`` is set.

    Raises:
        JudgeError: As in `ruler`, unless swallowed.
    """
    try:
        scores = await ruler(
            [trajectory.messages for trajectory in group.trajectories],
            judge_model,
            rubric=rubric,
            tools=_tools(group),
            extra_litellm_params=extra_litellm_params,
            debug=debug,
            seed=seed,
            **call,
        )
    except JudgeError as error:
        if not swallow_exceptions:
            raise
        logger.warning("group of %d left without scores: %s", len(group.trajectories), error)
        return None
    scored = [_scored(trajectory, score) for trajectory, score in zip(group.trajectories, scores, strict=True)]
    return _copy(group, trajectories=tuple(scored) if isinstance(group.trajectories, tuple) else scored)


def score(
    message_lists: Sequence[Sequence[Message]], judge_model: str = DEFAULT_JUDGE, **options: Any
) -> list[TrajectoryScore]:
    """`ruler` for code without an event loop, and for notebooks, which have one already. Takes the same arguments."""
    return _run(ruler(message_lists, judge_model, **options))


def score_group(group: GroupT, judge_model: str = DEFAULT_JUDGE, **options: Any) -> GroupT | None:
    """`ruler_score_group` for code without an event loop, and for notebooks. Takes the same arguments."""
    return _run(ruler_score_group(group, judge_model, **options))


def _run(coroutine: Coroutine[Any, Any, T]) -> T:
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return asyncio.run(coroutine)
    with ThreadPoolExecutor(1) as thread:
        return thread.submit(asyncio.run, coroutine).result()


def _tools(group: JudgedGroup) -> Sequence[Mapping[str, Any]] | None:
    """The tools that all members share."""
    offered = [getattr(trajectory, "tools", None) or None for trajectory in group.trajectories]
    if any(tools != offered[0] for tools in offered):
        raise JudgeInputError(
            "the trajectories of the group had different tools; judge those with the same tools together"
        )
    return offered[0] if offered else None


def _scored(trajectory: JudgedTrajectory, verdict: TrajectoryScore) -> JudgedTrajectory:
    metrics = dict(trajectory.metrics)
    if "ruler_score" not in metrics:
        metrics["independent_reward"] = trajectory.reward
    metrics["ruler_score"] = verdict.score
    changes: dict[str, Any] = {"reward": verdict.score, "metrics": metrics}
    if hasattr(trajectory, "explanation"):
        changes["explanation"] = verdict.explanation
    return _copy(trajectory, **changes)


def _copy(value: T, **changes: Any) -> T:
    """A shallow copy with some attributes changed: of a dataclass, a pydantic model or a plain object."""
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return dataclasses.replace(value, **changes)
    if hasattr(value, "model_copy"):
        return value.model_copy(update=changes)  # pyright: ignore[reportAttributeAccessIssue]
    fresh = copy.copy(value)
    for name, changed in changes.items():
        setattr(fresh, name, changed)
    return fresh

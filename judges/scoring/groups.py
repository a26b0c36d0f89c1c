"""RULER on group objects of any kind: it returns a copy of the group whose rewards are the scores."""

import copy
import dataclasses
import logging
from collections.abc import Mapping, Sequence
from typing import Any, TypeVar, Unpack

from judges.errors import JudgeError, JudgeInputError
from judges.llm.client import DEFAULT_JUDGE
from judges.llm.loop import blocking
from judges.scoring.ruler import ruler, settle
from judges.scoring.types import RulerOptions, SharedOptions, TrajectoryScore

T = TypeVar("T")

logger = logging.getLogger(__name__)

_HISTORIES = ("messages", "messages_and_choices")
"""Where a trajectory has its conversation."""


async def ruler_score_group(
    group: T,
    judge_model: str = DEFAULT_JUDGE,
    extra_litellm_params: Mapping[str, Any] | None = None,
    rubric: str | None = None,
    *,
    swallow_exceptions: bool = False,
    **options: Unpack[RulerOptions],
) -> T | None:
    """Score a group and return a copy of it whose rewards are the scores.

    Works on ART's ``TrajectoryGroup`` and on any object with ``trajectories``, each with ``messages`` (or
    ``messages_and_choices``), ``reward`` and ``metrics``, and with ``tools``, ``explanation`` and ``logs`` where it has
    them. Of ART's own objects the tools of the history are shown, too. In the copy:

    - ``reward`` and ``metrics["ruler_score"]`` are the score.
    - ``metrics["independent_reward"]`` is the reward from before; where a group is judged again, the one from before
      the first judgement.
    - ``explanation`` is the judge's. ``logs``, where it is a list, ends with score and explanation.

    The input is never changed.

    Args:
        group: Trajectories with the same goal.
        judge_model: A litellm model name.
        extra_litellm_params: As in `JudgeClient`.
        rubric: As in `ruler`.
        swallow_exceptions: Log a `JudgeError` about this group as a warning and return None instead of raising it.
        **options: As in `ruler` (``judges``, ``permutations``, ``session``, ``debug``, ...); the tools are the
            trajectories' own.

    Returns:
        The scored copy, or None where the judgement failed and ``swallow_exceptions`` is set.

    Raises:
        JudgeError: As in `ruler`, unless swallowed.
        JudgeInputError: The group cannot be judged by anybody (a member has ``additional_histories``), or a setting
            cannot be used; never swallowed.
    """
    shared: SharedOptions = {**options, "extra_litellm_params": extra_litellm_params, "rubric": rubric}
    settled = settle(judge_model, shared)
    trajectories: Any = getattr(group, "trajectories", None)
    if trajectories is None:
        raise JudgeInputError(f"a group must have trajectories, got a {type(group).__name__}")
    members = list(trajectories)
    for place, member in enumerate(members, start=1):
        _check_history(member, place)
    _copy(group, trajectories=[_scored(member, TrajectoryScore("", "", 0.0)) for member in members])  # fails unpaid
    try:
        told = [_history(member, place) for place, member in enumerate(members, start=1)]
        tools = _shared_tools([tools for _, tools in told])
        scores = await ruler([messages for messages, _ in told], tools=tools, **settled)
    except JudgeError as error:
        if not swallow_exceptions:
            raise
        logger.warning("group of %d left without scores: %s", len(members), error)
        return None
    scored = [_scored(member, score) for member, score in zip(members, scores, strict=True)]
    return _copy(group, trajectories=tuple(scored) if isinstance(trajectories, tuple) else scored)


score_group = blocking(ruler_score_group)
"""`ruler_score_group` for code without an event loop, and for notebooks, which have one already."""


def _check_history(trajectory: Any, place: int) -> None:
    if getattr(trajectory, "additional_histories", None):
        raise JudgeInputError(
            f"trajectory {place} has additional_histories, which are not judged; judge trajectories of one history each"
        )
    if all(getattr(trajectory, name, None) is None for name in _HISTORIES):
        raise JudgeInputError(f"trajectory {place} must have messages, got a {type(trajectory).__name__}")


def _history(trajectory: Any, place: int) -> tuple[Any, Any]:
    """The conversation of a trajectory and its tools: attributes, or ART's methods."""
    messages = next(told for name in _HISTORIES if (told := getattr(trajectory, name, None)) is not None)
    tools, history = getattr(trajectory, "tools", None), getattr(trajectory, "history", None)
    try:
        messages = messages() if callable(messages) else messages
        if not tools and callable(history):
            tools = getattr(history(), "tools", None)
    except Exception as error:  # whatever the object's own method raises
        raise JudgeInputError(f"trajectory {place} has no messages that can be judged: {error}") from error
    return messages, tools or None


def _shared_tools(offered: Sequence[Any]) -> Sequence[Mapping[str, Any]] | None:
    """The tools that all members share."""
    if any(tools != offered[0] for tools in offered):
        raise JudgeInputError(
            "the trajectories of the group had different tools; judge those with the same tools together"
        )
    return offered[0] if offered else None


def _scored(trajectory: Any, verdict: TrajectoryScore) -> Any:
    metrics = dict(trajectory.metrics or {})
    if "ruler_score" not in metrics:
        metrics["independent_reward"] = trajectory.reward
    metrics["ruler_score"] = verdict.score
    changes: dict[str, Any] = {"reward": verdict.score, "metrics": metrics}
    if hasattr(trajectory, "explanation"):
        changes["explanation"] = verdict.explanation
    if isinstance(logs := getattr(trajectory, "logs", None), list):
        changes["logs"] = [*logs, f"RULER: {verdict.score:.3f}: {verdict.explanation}"]
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

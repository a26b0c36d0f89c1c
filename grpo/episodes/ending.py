"""Why an episode of an evaluation ended.

An agent's exception, its time limit, a full context, and a failure of the env or of a model's server are told apart
here and nowhere else.
"""

from __future__ import annotations

import re
from enum import StrEnum

from grpo.episodes.episode import Episode
from grpo.errors import GrpoError, describe

_OVERFLOW = re.compile(
    r"context[ _]length|context[ _]window|maximum context|prompt is too long|too many (input )?tokens"
    r"|exceeds? the (model'?s )?(max|context)",
    re.IGNORECASE,
)


class Ending(StrEnum):
    """Why an episode ended."""

    ANSWERED = "answered"
    """The agent gave a final answer, or the env ended the episode itself."""
    NO_ANSWER = "no_answer"
    """The agent stopped without an answer. Not correct."""
    MAX_TURNS = "max_turns"
    """The env's own turn limit, or ``--max-turns``. Not correct."""
    AGENT_CRASH = "agent_crash"
    """The agent raised an exception, or its program failed, before it had answered. Not correct."""
    TIMEOUT = "timeout"
    """The time limit, before the agent had answered. Not correct."""
    CONTEXT_OVERFLOW = "context_overflow"
    """The conversation outgrew the model's context, and no answer came. Not correct."""
    INFRASTRUCTURE = "infrastructure"
    """The env or the model's server failed, not the agent: it is in no mean, and ``--resume`` plays it again."""


class OutOfTime(TimeoutError):
    """The agent was still running when its time was up."""

    def __init__(self, timeout_seconds: float):
        super().__init__(timeout_seconds)
        self.timeout_seconds = timeout_seconds


def ending_of(episode: Episode, failure: BaseException | None) -> tuple[Ending, str]:
    """Why an episode ended, and what was said of it.

    What the env ended stands, whatever the agent did afterwards. A failure of the env or of the model's server comes
    before the agent's exception or its lack of time, because it has probably caused them.

    Args:
        episode: The episode.
        failure: What the agent raised; a time limit of ours is `OutOfTime`.
    """
    said = "" if failure is None else describe(failure)
    if isinstance(failure, OutOfTime):
        said = f"it was still running after {failure.timeout_seconds:g} s"
    if episode.fault:
        return Ending.INFRASTRUCTURE, episode.fault
    if episode.terminated:
        return Ending.ANSWERED, said
    if episode.truncated:
        return Ending.MAX_TURNS, said
    if episode.is_cut:
        return Ending.MAX_TURNS, f"cut after {episode.steps} turns, which the env had not ended (--max-turns)"
    last_call = episode.model_calls[-1] if episode.model_calls else None
    model_error = last_call.error if last_call else ""
    if _OVERFLOW.search(model_error) or _OVERFLOW.search(said):
        return Ending.CONTEXT_OVERFLOW, model_error or said
    if last_call and last_call.is_server_fault:
        return Ending.INFRASTRUCTURE, model_error
    if isinstance(failure, OutOfTime):
        waiting = "; a model call had not been answered" if last_call and last_call.is_pending else ""
        return Ending.TIMEOUT, f"no answer within {failure.timeout_seconds:g} s{waiting}"
    if isinstance(failure, GrpoError):
        return Ending.INFRASTRUCTURE, said
    if failure is not None:
        return Ending.AGENT_CRASH, said
    return Ending.NO_ANSWER, ""

"""The values that go in and come out: messages, scores, and what a group must look like to be judged."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, TypedDict

Message = Mapping[str, Any]
"""One OpenAI-style chat message: ``{"role": ..., "content": ...}``, with ``tool_calls`` and ``tool_call_id`` if any."""


@dataclass(frozen=True, slots=True)
class TrajectoryScore:
    """A judge's score of one trajectory, relative to the others of its group."""

    trajectory_id: str
    """Its place in the input, counted from ``"1"``. The judge itself saw a random label instead."""
    explanation: str
    """Why, in the judge's words."""
    score: float
    """Finite, from 0 (worst) to 1 (best); the mean where several verdicts were asked for."""
    spread: float = 0.0
    """Its largest minus its smallest score over all orders and judges; 0 for a single verdict."""


class CallOptions(TypedDict, total=False):
    """How to reach a judge given by name; every key is optional (see `judges.client.JudgeClient`)."""

    api_base: str | None
    api_key: str | None
    timeout_seconds: float
    max_retries: int
    backoff_seconds: float


class JudgedTrajectory(Protocol):
    """What a trajectory must have. ``tools`` and ``explanation`` are used where they exist."""

    @property
    def messages(self) -> Sequence[Message]:
        """The whole conversation, oldest first."""
        ...

    @property
    def reward(self) -> float:
        """The reward it has before the judge speaks."""
        ...

    @property
    def metrics(self) -> Mapping[str, Any]:
        """Numbers by name."""
        ...


class JudgedGroup(Protocol):
    """What a group must have: trajectories that pursue the same goal."""

    @property
    def trajectories(self) -> Sequence[JudgedTrajectory]:
        """The members."""
        ...

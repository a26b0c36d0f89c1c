"""What goes into RULER and what comes out: messages, scores, and the options by name."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from judges.llm.client import JudgeClient, Reach
from judges.llm.session import Session

Message = Mapping[str, Any]
"""One OpenAI-style chat message: ``{"role": ..., "content": ...}``, with ``tool_calls`` and ``tool_call_id`` if any."""

FIRST_FAILURES = 8
"""Where so many groups have no usable verdict and none has one, the judge is set up wrong. Fewer say nothing of it."""


@dataclass(slots=True)
class VerdictCount:
    """How many groups a judge gave a usable verdict on, and on how many it failed."""

    usable: int = 0
    failed: int = 0

    @property
    def is_hopeless(self) -> bool:
        """Whether the judge is set up wrong."""
        return self.failed >= FIRST_FAILURES and not self.usable


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


class RulerOptions(Reach, total=False):
    """The options of `judges.ruler` that are given by name alone; they are explained there."""

    judges: Sequence[str | JudgeClient] | None
    permutations: int
    max_prompt_tokens: int | None
    session: Session | None
    debug: bool
    seed: int


class SharedOptions(RulerOptions, total=False):
    """The options of `judges.ruler` that do not depend on the group."""

    extra_litellm_params: Mapping[str, Any] | None
    rubric: str | None

"""Trajectories to training rows: what the learner computes on, and how rows share a forward pass.

A segment is one append-only id list with its action mask. Rows are sorted by length and cut into micro-batches under a
token budget, so padding stays small; padding sits on the right, where causal attention never looks at it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from grpo.errors import ConfigError
from grpo.types import Trajectory


@dataclass(frozen=True, slots=True)
class Segment:
    """One row: ids, which of them are actions, the sampler's logprobs there, and the row's advantage.

    Everything after the last action token is cut off: nothing there is predicted.
    """

    ids: list[int]
    action_mask: list[bool]
    sampler_logprobs: list[float]
    advantage: float

    @property
    def num_actions(self) -> int:
        """Number of action tokens."""
        return sum(self.action_mask)


def segment_of(trajectory: Trajectory, advantage: float) -> Segment | None:
    """The segment of a trajectory, or None where it has no action token."""
    if not any(trajectory.action_mask):
        return None
    end = len(trajectory.action_mask) - trajectory.action_mask[::-1].index(True)
    return Segment(trajectory.token_ids[:end], trajectory.action_mask[:end], trajectory.logprobs[:end], advantage)


def micro_batches(segments: Sequence[Segment], token_budget: int) -> list[list[Segment]]:
    """Segments in batches of rows x longest row <= ``token_budget`` tokens, longest first.

    Raises:
        ConfigError: ``token_budget`` is not positive.
    """
    if token_budget <= 0:
        raise ConfigError(f"token_budget must be a positive number of tokens, not {token_budget}")
    batches: list[list[Segment]] = []
    for segment in sorted(segments, key=lambda s: -len(s.ids)):
        if batches and len(batches[-1][0].ids) * (len(batches[-1]) + 1) <= token_budget:
            batches[-1].append(segment)
        else:
            batches.append([segment])
    return batches

"""Trajectories to training rows: what the learner computes on, and how rows share a forward pass.

A segment is one append-only id list with its action mask. Rows are sorted by their ids, so that rows with a common
beginning stand together (``engine.shared_rows`` computes it once), and cut into micro-batches under a token budget.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from grpo.errors import ConfigError
from grpo.types import Trajectory

ROWS_BUDGET = 3
"""Attention works on whole rows: this many times the token budget bounds its memory where rows share much."""


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


def segment_of(trajectory: Trajectory, advantage: float, *, without_invalid_turns: bool = False) -> Segment | None:
    """The segment of a trajectory, or None where it has no action token.

    With ``without_invalid_turns``, turns that the env answered with an error are observed, not acted.
    """
    mask = trajectory.action_mask
    if without_invalid_turns:
        mask = _without_invalid_turns(mask, trajectory.turn_errors)
    if not any(mask):
        return None
    end = len(mask) - mask[::-1].index(True)
    return Segment(trajectory.token_ids[:end], mask[:end], trajectory.logprobs[:end], advantage)


def _without_invalid_turns(action_mask: list[bool], turn_errors: list[str]) -> list[bool]:
    """The mask with the runs (turns) of True switched off whose turn has an error."""
    mask: list[bool] = []
    turn = -1
    for at, acts in enumerate(action_mask):
        turn += acts and (at == 0 or not action_mask[at - 1])
        mask.append(acts and not (turn < len(turn_errors) and turn_errors[turn]))
    return mask


def micro_batches(segments: Sequence[Segment], token_budget: int) -> list[list[Segment]]:
    """Segments, sorted by their ids, in batches of at most ``token_budget`` tokens, those of a common beginning once.

    Counting every row as long as the longest, a batch holds ``ROWS_BUDGET`` times the budget at most. A row above the
    budget is a batch of its own.

    Raises:
        ConfigError: ``token_budget`` is not positive.
    """
    if token_budget <= 0:
        raise ConfigError(f"token_budget must be a positive number of tokens, not {token_budget}")
    batches: list[list[Segment]] = []
    tokens = longest = 0
    before: list[int] = []
    for segment in sorted(segments, key=lambda s: s.ids):
        tokens += len(segment.ids) - common_prefix(before, segment.ids)
        longest = max(longest, len(segment.ids))
        before = segment.ids
        fits = (
            tokens <= token_budget and longest * (len(batches[-1]) + 1 if batches else 1) <= ROWS_BUDGET * token_budget
        )
        if batches and fits:
            batches[-1].append(segment)
        else:
            batches.append([segment])
            tokens = longest = len(segment.ids)
    return batches


def common_prefix(first: Sequence[int], second: Sequence[int]) -> int:
    """How many ids two lists begin with in common."""
    pairs = enumerate(zip(first, second, strict=False))
    return next((at for at, (one, other) in pairs if one != other), min(len(first), len(second)))

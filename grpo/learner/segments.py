"""Episodes to training rows: what the learner computes on, and how rows share a forward pass.

A segment is one append-only id list with its action mask; an episode has one, and one more for each time its chat
template rewrote what was said. A sampled token is an action in the segment in which it was sampled alone.

Rows are sorted by their ids, so that rows with a common beginning stand together (``cpu.shared_rows`` computes it
once), and cut into micro-batches under a token budget.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass, replace

from grpo.devices.memory import ROWS_BUDGET
from grpo.errors import ConfigError
from grpo.types import Episode, TokenRow


@dataclass(frozen=True, slots=True)
class Segment:
    """One row: ids, which of them are actions, the sampler's logprobs there, and the row's advantage.

    Everything after the last action token is cut off: nothing there is predicted.
    """

    ids: list[int]
    action_mask: list[bool]
    sampler_logprobs: list[float]
    advantage: float
    rollout_share: float = 1.0
    """One over the number of rows that its rollout became; a step's rows sum up to the number of rollouts."""
    task: str = ""
    """Key of the task that its rollout began from: the rows of a group have it, and a beginning, in common."""
    staleness: int = 0
    """Steps between the policy that sampled it and the one that the step begins with."""

    @property
    def num_actions(self) -> int:
        """Number of action tokens."""
        return sum(self.action_mask)

    @property
    def sampled_logprobs(self) -> list[float]:
        """The sampler's logprob of each action token."""
        return [logprob for logprob, acts in zip(self.sampler_logprobs, self.action_mask, strict=True) if acts]


@dataclass(frozen=True, slots=True)
class TurnWeights:
    """What a rollout below its group's mean weighs, and invalid calls apart from the others.

    ``negative`` multiplies advantages below zero. With ``invalid_calls`` set, turns that the env answered with an error
    are learned from rollouts below the mean only, with this factor: a good rollout does not speak for them.
    """

    negative: float = 1.0
    invalid_calls: float | None = None


def segments_of(episode: Episode, advantage: float) -> list[Segment]:
    """The rows of an episode: one of each list of calls that follow each other."""
    return weighted_segments(episode, advantage, TurnWeights())


def weighted_segments(episode: Episode, advantage: float, weights: TurnWeights) -> list[Segment]:
    """The rows an episode is learned from: each row of its ids, or its valid and invalid turns apart."""
    others = advantage if advantage > 0 else advantage * weights.negative
    rows: list[Segment] = []
    if weights.invalid_calls is None:
        rows += [_segment(episode, row, [turn is not None for turn in row.turns], others) for row in episode.rows()]
    else:
        invalid = {turn for turn, error in enumerate(episode.turn_errors) if error}
        of_invalid = min(advantage, 0.0) * weights.invalid_calls
        for wanted, worth in ((False, others), (True, of_invalid)):
            for row in episode.rows():
                mask = [turn is not None and (turn in invalid) is wanted for turn in row.turns]
                rows += [_segment(episode, row, mask, worth)] if any(mask) else []
    return rows if len(rows) == 1 else [replace(row, rollout_share=1.0 / len(rows)) for row in rows]


def _segment(episode: Episode, row: TokenRow, mask: list[bool], advantage: float) -> Segment:
    end = len(mask) - mask[::-1].index(True)
    return Segment(row.ids[:end], mask[:end], row.logprobs[:end], advantage, task=episode.task.key)


def micro_batches(
    segments: Sequence[Segment], token_budget: int, *, share_beginnings: bool = True
) -> list[list[Segment]]:
    """Segments, sorted by their ids, in as few batches of at most ``token_budget`` tokens as they fill one by one.

    With ``share_beginnings`` the tokens of a common beginning are counted once. The batches are made about equal, under
    the smallest budget that needs no more of them: the largest decides how much memory an update takes.

    Counting every row as long as the longest, a batch holds ``ROWS_BUDGET`` times the budget at most. A row above the
    budget is a batch of its own.

    Raises:
        ConfigError: ``token_budget`` is not positive.
    """
    if token_budget <= 0:
        raise ConfigError(f"token_budget must be a positive number of tokens, not {token_budget}")
    rows = sorted(segments, key=lambda segment: segment.ids)
    pairs = zip([[], *(row.ids for row in rows)], rows, strict=False)
    shared = [common_prefix(before, row.ids) if share_beginnings else 0 for before, row in pairs]
    fewest = len(_filled(rows, shared, token_budget, token_budget))
    low, high = 1, token_budget
    while low < high:
        middle = (low + high) // 2
        if len(_filled(rows, shared, middle, token_budget)) > fewest:
            low = middle + 1
        else:
            high = middle
    return _filled(rows, shared, high, token_budget)


def _filled(rows: Sequence[Segment], shared: Sequence[int], budget: int, token_budget: int) -> list[list[Segment]]:
    """Sorted rows in batches, each filled up to ``budget``; ``shared``: ids in common with the row before."""
    batches: list[list[Segment]] = []
    tokens = longest = 0
    for row, common in zip(rows, shared, strict=True):
        tokens += len(row.ids) - common
        longest = max(longest, len(row.ids))
        whole_rows = longest * (len(batches[-1]) + 1) if batches else 0
        if batches and tokens <= budget and whole_rows <= ROWS_BUDGET * token_budget:
            batches[-1].append(row)
        else:
            batches.append([row])
            tokens = longest = len(row.ids)
    return batches


def even_shares(segments: Sequence[Segment], count: int) -> list[list[int]]:
    """The numbers of the rows that each of ``count`` processes computes.

    A share is neighbours in the order of their ids, so that common beginnings stay together. Its cost is its tokens,
    common ones once. Of all ways to cut that order, this one has the smallest largest cost. With few rows, or one that
    is longer than the others together, some shares are empty.
    """
    order = sorted(range(len(segments)), key=lambda number: segments[number].ids)
    before = [[], *(segments[number].ids for number in order)]
    added = [len(segments[n].ids) - common_prefix(b, segments[n].ids) for n, b in zip(order, before, strict=False)]

    def cut(capacity: int) -> list[list[int]]:
        shares: list[list[int]] = []
        tokens = 0
        for number, more in zip(order, added, strict=True):
            if shares and tokens + more <= capacity:
                shares[-1].append(number)
                tokens += more
            else:
                shares.append([number])
                tokens = len(segments[number].ids)
        return shares

    total = sum(len(segment.ids) for segment in segments)
    largest = bisect_left(range(total), True, key=lambda capacity: len(cut(capacity)) <= count)
    shares = cut(largest)
    return shares + [[] for _ in range(count - len(shares))]


def common_prefix(first: Sequence[int], second: Sequence[int]) -> int:
    """How many ids two lists begin with in common."""
    pairs = enumerate(zip(first, second, strict=False))
    return next((at for at, (one, other) in pairs if one != other), min(len(first), len(second)))

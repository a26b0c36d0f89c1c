"""Episodes to training rows: what the learner computes on, and how rows share a forward pass.

A segment is one append-only id list with its action mask; an episode has one, and one more for each time its chat
template rewrote what was said. A sampled token is an action in the segment in which it was sampled alone.

Rows are sorted by their ids, so that rows with a common beginning stand together (``cpu.shared_rows`` computes it
once), and cut into micro-batches under a token budget.
"""

import itertools
import math
from bisect import bisect_left
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType

from grpo.devices.memory import ROWS_BUDGET
from grpo.types import Episode, TokenRow, common_prefix


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


EVERY_TURN = TurnWeights()
"""All weigh the same."""


def segments_of(
    episode: Episode,
    advantage: float,
    weights: TurnWeights = EVERY_TURN,
    of_calls: Mapping[int, float] = MappingProxyType({}),
) -> list[Segment]:
    """The rows of an episode: one of each list of calls that follow each other, turns of another worth apart.

    Args:
        episode: What was sampled.
        advantage: Of the episode.
        weights: See there.
        of_calls: Advantages of calls, by their number, where they have their own.
    """

    def worth(number: int) -> float:
        own, turn = of_calls.get(number, advantage), episode.calls[number].turn
        is_invalid = turn is not None and any(episode.turn_errors[turn : turn + 1])
        if weights.invalid_calls is not None and is_invalid:
            return min(own, 0.0) * weights.invalid_calls
        return own if own > 0 else own * weights.negative

    rows: list[Segment] = []
    for row in episode.rows():
        worths = {number: worth(number) for number in row.calls if number is not None}
        of_tokens = [None if number is None else worths[number] for number in row.calls]
        rows += [
            _segment(episode, row, [w == value for w in of_tokens], value) for value in dict.fromkeys(worths.values())
        ]
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
    """
    cut = _Cut(segments, ROWS_BUDGET * token_budget, share_beginnings=share_beginnings)
    return [[segments[number] for number in batch] for batch in cut.evenly(len(cut.at(token_budget)), token_budget)]


def even_shares(segments: Sequence[Segment], count: int) -> list[list[int]]:
    """The numbers of the rows that each of ``count`` processes computes.

    A share is neighbours in the order of their ids, so that common beginnings stay together. Its cost is its tokens,
    common ones once. Of all ways to cut that order, this one has the smallest largest cost. With few rows, or one that
    is longer than the others together, some shares are empty.
    """
    shares = _Cut(segments).evenly(count, sum(len(segment.ids) for segment in segments))
    return shares + [[] for _ in range(count - len(shares))]


class _Cut:
    """Cuts rows, in the order of their ids, into pieces that are filled one by one."""

    def __init__(self, segments: Sequence[Segment], padded_tokens: float = math.inf, *, share_beginnings: bool = True):
        """A piece has ``padded_tokens`` at most where every row is counted as long as the longest."""
        self._lengths = [len(segment.ids) for segment in segments]
        self._order = sorted(range(len(segments)), key=lambda number: segments[number].ids)
        ids = [segments[number].ids for number in self._order]
        shared = [common_prefix(*pair) if share_beginnings else 0 for pair in itertools.pairwise([[], *ids])]
        self._added = [len(own) - common for own, common in zip(ids, shared, strict=True)]
        self._padded_tokens = padded_tokens

    def at(self, capacity: int) -> list[list[int]]:
        """The numbers of the rows of each piece of at most ``capacity`` tokens, or of one row."""
        pieces: list[list[int]] = []
        tokens = longest = 0
        for number, added in zip(self._order, self._added, strict=True):
            tokens += added
            longest = max(longest, self._lengths[number])
            padded_tokens = longest * (len(pieces[-1]) + 1) if pieces else 0
            if pieces and tokens <= capacity and padded_tokens <= self._padded_tokens:
                pieces[-1].append(number)
            else:
                pieces.append([number])
                tokens = longest = self._lengths[number]
        return pieces

    def evenly(self, count: int, most: int) -> list[list[int]]:
        """At most ``count`` pieces, under the smallest capacity that needs no more of them; ``most`` is enough."""
        return self.at(bisect_left(range(most), True, key=lambda capacity: len(self.at(capacity)) <= count))

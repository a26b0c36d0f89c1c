"""Rows of token ids: how episodes become them, and how they are put into micro-batches."""

import itertools

from hypothesis import given
from hypothesis import strategies as st

from grpo.learner.segments import (
    Segment,
    TurnWeights,
    even_shares,
    micro_batches,
    segments_of,
)
from grpo.types import Episode, Task, common_prefix
from tests.support.episodes import say


def row(*ids):
    return Segment(list(ids), [False] + [True] * (len(ids) - 1), [0.0] * len(ids), 1.0)


def test_micro_batches_hold_every_row_once_within_the_budget():
    segments = [row(*range(1000 * index, 1000 * index + 20 + 11 * index)) for index in range(9)]  # nothing in common
    batches = micro_batches(segments, 130)
    assert sorted(len(s.ids) for b in batches for s in b) == sorted(len(s.ids) for s in segments)
    assert len(batches) < 9
    assert all(sum(len(s.ids) for s in b) <= 130 for b in batches)


def test_micro_batches_put_common_beginnings_together_and_count_them_once():
    rows = [row(1, 2, 9, 9), row(5, 6, 7), row(1, 2, 3, 4), row(1, 2, 3, 8)]
    batches = micro_batches(rows, 7)  # 4 + 1 + 2 tokens, then 3
    assert [[s.ids for s in batch] for batch in batches] == [[[1, 2, 3, 4], [1, 2, 3, 8], [1, 2, 9, 9]], [[5, 6, 7]]]
    equal_rows = micro_batches([row(*range(10))] * 7, 10)  # 10 tokens, but never more than 3 x 10 counted row by row
    assert [len(batch) for batch in equal_rows] == [3, 3, 1]


def test_micro_batches_are_about_equal_and_no_more_than_the_budget_needs():
    rows = [row(number, 7, 7, 7) for number in range(9)]
    assert [len(batch) for batch in micro_batches(rows, 16)] == [3, 3, 3], "not 4, 4 and 1"
    group = [row(1, 2, 3, number) for number in range(6)]  # 4 tokens, then one for each row
    assert [len(batch) for batch in micro_batches(group, 8)] == [3, 3], "not 5 and 1"
    assert [len(batch) for batch in micro_batches(group, 8, share_beginnings=False)] == [2, 2, 2]


def test_a_row_above_the_budget_is_a_batch_of_its_own():
    batches = micro_batches([row(1, 2, 3, 4, 5), row(1, 2), row(7, 8)], 4)
    assert [[s.ids for s in batch] for batch in batches] == [[[1, 2]], [[1, 2, 3, 4, 5]], [[7, 8]]]


def test_a_segment_ends_with_the_last_action_token():
    episode = Episode("e", Task(0))
    say(episode, [1, 2, 3], [4, 5], [-0.1, -0.2])
    (segment,) = segments_of(episode, 0.5)
    assert (segment.ids, segment.action_mask) == ([1, 2, 3, 4, 5], [False, False, False, True, True])
    assert segment.task == "seed-0"
    assert segments_of(Episode("e", Task(0)), 0.5) == []


def test_turns_with_an_error_weigh_apart_and_only_below_the_mean():
    episode = Episode("e", Task(0))
    for prompt, ids, error in (
        ([1, 2], [3, 4], ""),
        ([0], [5, 6], "bad_json"),
        ([0], [7], "bad_args"),
        ([0], [8, 9], ""),
    ):
        say(episode, prompt, ids, error=error)

    def learned(advantage, weights):
        rows = segments_of(episode, advantage, weights)
        actions = [[i for i, acts in zip(r.ids, r.action_mask, strict=True) if acts] for r in rows]
        return list(zip(actions, [r.advantage for r in rows], strict=True))

    every = [3, 4, 5, 6, 7, 8, 9]
    assert learned(1.0, TurnWeights()) == [(every, 1.0)]
    assert learned(-1.0, TurnWeights(negative=0.25)) == [(every, -0.25)]
    assert learned(1.0, TurnWeights(0.25, 0.5)) == [([3, 4, 8, 9], 1.0), ([5, 6, 7], 0.0)]
    assert learned(-1.0, TurnWeights(0.25, 0.5)) == [([3, 4, 8, 9], -0.25), ([5, 6, 7], -0.5)]
    assert segments_of(episode, -1.0, TurnWeights(0.25, 0.5))[1].ids == [1, 2, 3, 4, 0, 5, 6, 0, 7]
    episode.turn_errors = ["bad_json"] * 4
    assert learned(-1.0, TurnWeights(0.25, 0.5)) == [(every, -0.5)]


def test_a_turn_with_an_advantage_of_its_own_stands_apart():
    episode = Episode("e", Task(0))
    for prompt, ids in (([1], [2]), ([3], [4]), ([5], [6, 7])):
        say(episode, prompt, ids)
    rows = segments_of(episode, 0.5, TurnWeights(negative=0.25), {0: 0.5, 2: -1.0})
    assert [(r.ids, [i for i, acts in zip(r.ids, r.action_mask, strict=True) if acts], r.advantage) for r in rows] == [
        ([1, 2, 3, 4], [2, 4], 0.5),
        ([1, 2, 3, 4, 5, 6, 7], [6, 7], -0.25),
    ]
    assert [r.rollout_share for r in rows] == [0.5, 0.5]


def share_cost(rows, share):
    """Tokens that a process computes, common beginnings once."""
    ids = sorted(rows[number].ids for number in share)
    return sum(len(row) - common_prefix(before, row) for before, row in zip([[], *ids], ids, strict=False))


def test_shares_of_two_groups_are_the_groups_whatever_their_order():
    first, second = ([group] * 10 for group in (1, 2))
    rows = [row(*ids) for ids in ([*first, 7], second, first, [*second, 8])]
    assert [set(share) for share in even_shares(rows, 2)] == [{0, 2}, {1, 3}]
    assert even_shares(rows, 1) == [[2, 0, 1, 3]]
    assert even_shares(rows[:1], 3) == [[0], [], []]
    assert even_shares([], 2) == [[], []]


@given(st.lists(st.lists(st.integers(0, 1), min_size=1, max_size=6), min_size=1, max_size=7), st.integers(1, 4))
def test_no_other_cut_of_the_sorted_rows_has_a_smaller_largest_share(lists, count):
    rows = [row(*ids) for ids in lists]
    shares = even_shares(rows, count)
    assert sorted(number for share in shares for number in share) == list(range(len(rows)))
    order = sorted(range(len(rows)), key=lambda number: rows[number].ids)
    assert [number for share in shares for number in share] == order
    costs = []
    for cuts in itertools.combinations_with_replacement(range(len(rows) + 1), count - 1):
        ends = [0, *cuts, len(rows)]
        costs.append(max(share_cost(rows, order[a:b]) for a, b in itertools.pairwise(ends)))
    assert max(share_cost(rows, share) for share in shares) == min(costs)


def test_calls_that_follow_the_same_one_share_its_ids_and_each_sampled_id_is_an_action_once():
    episode = Episode("e", Task(0))
    say(episode, [1], [2])
    say(episode, [3], [4]).follows = 0
    say(episode, [5], [6]).follows = 0
    say(episode, [7, 7], [8]).follows = None
    rows = segments_of(episode, 1.0)
    assert [row.ids for row in rows] == [[1, 2, 3, 4], [1, 2, 5, 6], [7, 7, 8]]
    acts = [[i for i, mask in zip(row.ids, row.action_mask, strict=True) if mask] for row in rows]
    assert acts == [[2, 4], [6], [8]]
    assert {row.rollout_share for row in rows} == {1 / 3}

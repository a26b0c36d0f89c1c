"""Pairs counted by hand, and tau-b against scipy's definition written out."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from judges.reliability.agreement import PairCounts, count_pairs


def test_pairs_are_counted_by_how_both_order_them():
    # pairs: (1,2) alike, (1,3) alike, (1,4) scores tie, (2,3) reference ties, (2,4) reversed, (3,4) reversed
    counts = count_pairs([0.0, 1.0, 1.0, 2.0], [0.1, 0.5, 0.9, 0.1])
    assert counts == PairCounts(concordant=2, discordant=2, tied_reference=1, tied_scores=1)
    assert counts.accuracy == pytest.approx((2 + 0.5) / 5)
    assert counts.tau_b == 0.0
    assert counts.flip_rate == 0.5
    assert count_pairs([1, 2, 3], [1, 3, 2]).flip_rate == pytest.approx(1 / 3)
    assert count_pairs([1, 1], [0.1, 0.2]).flip_rate is None


def test_the_same_order_is_one_the_reverse_minus_one_and_one_score_for_all_is_chance():
    assert (count_pairs([1, 2, 3], [0.2, 0.3, 0.9]).accuracy, count_pairs([1, 2, 3], [0.2, 0.3, 0.9]).tau_b) == (1, 1)
    assert (count_pairs([1, 2, 3], [0.9, 0.3, 0.2]).accuracy, count_pairs([1, 2, 3], [0.9, 0.3, 0.2]).tau_b) == (0, -1)
    assert (count_pairs([1, 2, 3], [0.5] * 3).accuracy, count_pairs([1, 2, 3], [0.5] * 3).tau_b) == (0.5, None)
    assert (count_pairs([1, 1], [0.1, 0.2]).accuracy, count_pairs([1, 1], [0.1, 0.2]).tau_b) == (None, None)


def test_rounding_errors_of_a_mean_are_ties():
    assert count_pairs([0.0, 1.0], [0.1 + 0.2, 0.3]) == PairCounts(tied_scores=1)


def test_groups_are_added_pair_by_pair():
    both = count_pairs([0, 1], [0.0, 1.0]) + count_pairs([0, 1, 2], [1.0, 0.5, 0.0])
    assert (both.concordant, both.discordant) == (1, 3)
    assert both.accuracy == 0.25


@given(st.lists(st.tuples(st.integers(0, 3), st.integers(0, 3)), max_size=8))
def test_tau_b_is_the_correlation_of_the_signs_of_all_pairs(members):
    def sign(x):
        return (x > 0) - (x < 0)

    pairs = [(sign(a[0] - b[0]), sign(a[1] - b[1])) for a in members for b in members]
    product = sum(x * x for x, _ in pairs) * sum(y * y for _, y in pairs)
    counts = count_pairs([r for r, _ in members], [s for _, s in members])
    if product == 0:
        assert counts.tau_b is None
    else:
        assert counts.tau_b == pytest.approx(sum(x * y for x, y in pairs) / math.sqrt(product))

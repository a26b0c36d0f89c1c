import math
from fractions import Fraction
from itertools import combinations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from grpo.learner.advantages import group_advantages, has_spread, max_variance_subset, turn_advantages


def test_advantages_are_rewards_minus_the_group_mean():
    assert group_advantages([1.0, 0.0, 0.5, 0.5]) == [0.5, -0.5, 0.0, 0.0]


def test_scaling_divides_by_the_sample_standard_deviation():
    std = math.sqrt((0.25 + 0.25) / 3)
    expected = [0.5 / (std + 1e-4), -0.5 / (std + 1e-4), 0.0, 0.0]
    assert group_advantages([1.0, 0.0, 0.5, 0.5], scale_by_std=True) == pytest.approx(expected, rel=1e-12)


def test_a_group_without_spread_teaches_nothing():
    assert group_advantages([0.3, 0.3, 0.3]) == [0.0, 0.0, 0.0]
    assert not has_spread([0.3, 0.3])
    assert not has_spread([0.3])
    assert has_spread([0.3, 0.31])


def test_a_turn_is_worth_where_it_led_less_where_others_were_too_by_hand():
    # Mail m is worth 0.75, as two answered from it; n and o -0.75; so list a 0.25, b -0.75, and the question 0.
    rewards = [1.0, 0.5, -0.75, -0.75]
    answered = [
        {0: "question", 1: "a", 2: "m"},
        {0: "question", 1: "a", 2: "m"},
        {0: "question", 1: "a", 2: "n"},
        {0: "question", 1: "b", 2: "o"},
    ]
    assert turn_advantages(rewards, answered) == [
        pytest.approx({0: 0.25, 1: 0.5, 2: 0.25}),
        pytest.approx({0: 0.25, 1: 0.5, 2: -0.25}),
        pytest.approx({0: 0.25, 1: -1.0, 2: -1.0}),
        pytest.approx({0: -0.75, 1: -0.75, 2: -0.75}),
    ], "the second member's answer is below the mean of those that read m, though its reward is above the group's"
    unit = math.sqrt((1 + 0.25 + 2 * 0.5625) / 3) + 1e-4
    scaled = turn_advantages(rewards, answered, scale_by_std=True)
    assert scaled[0] == pytest.approx({0: 0.25 / unit, 1: 0.5 / unit, 2: 0.25 / unit}, rel=1e-12)


def test_a_search_that_led_to_the_right_mail_is_worth_it_whatever_was_answered():
    # Each saw a list of its own. m is worth 0.5 to who read it, n nothing: on average the question is worth 1/3.
    answered = [{0: "question", 1: words, 2: mail} for words, mail in ("am", "bm", "cn")]
    right, wrong, elsewhere = turn_advantages([1.0, 0.0, 0.0], answered)
    assert right == pytest.approx({0: 1 / 6, 1: 1 / 6, 2: 1 / 2})
    assert wrong == pytest.approx({0: 1 / 6, 1: 1 / 6, 2: -1 / 2})
    assert elsewhere == pytest.approx({0: -1 / 3, 1: -1 / 3, 2: -1 / 3})


def test_a_place_that_is_come_back_to_has_one_value():
    # "none" leads to itself once and to an end twice: v = (v + 3 + 1) / 3 = 2, and so is the question worth 2.
    answered = [{0: "question", 1: "none", 2: "none"}, {0: "question", 1: "none"}, {0: "question"}]
    found = turn_advantages([3.0, 1.0, 2.0], answered)
    assert found == [pytest.approx({0: 0, 1: 0, 2: 1}), pytest.approx({0: 0, 1: -1}), pytest.approx({0: 0})]
    third = 0.1 + 0.2  # not 0.3
    assert turn_advantages([third, 0.3, 0.3], answered)[0] == {0: 0.0, 1: 0.0, 2: 0.0}, "equal rewards teach nothing"
    assert turn_advantages([1.0, 0.0], [{}, {}]) == [{}, {}]
    assert turn_advantages([1.0, 0.0], [{0: "x"}, {0: "y"}]) == [{0: 0.5}, {0: -0.5}], "of the group, where nobody was"


def test_pods_takes_the_highest_and_the_lowest_rewards_by_hand():
    # of two the extremes; of three {9, 4, 0}: 122/9, {9, 0, 0}: 18, {9, 8, 0}: 146/9, so two lowest and one highest
    rewards = [4.0, 9.0, 0.0, 8.0, 0.0]
    assert max_variance_subset(rewards, 2) == [1, 4], "of the equal lowest the last"
    assert max_variance_subset(rewards, 3) == [1, 2, 4]
    assert max_variance_subset(rewards, 4) == [1, 2, 3, 4]
    assert max_variance_subset(rewards, 5) == max_variance_subset(rewards, 9) == [0, 1, 2, 3, 4]
    assert group_advantages([rewards[number] for number in [1, 2, 4]]) == [6.0, -3.0, -3.0], "around their own mean"


def test_pods_takes_as_many_right_as_wrong_where_rewards_are_0_and_1():
    assert max_variance_subset([1.0, 0.0, 1.0, 0.0, 0.0, 0.0, 1.0, 0.0], 4) == [0, 2, 5, 7]
    assert max_variance_subset([0.0, 1.0, 1.0, 1.0], 2) == [0, 3], "the two lowest"
    # one right and two wrong have the variance of two right and one wrong: the fewest highest are taken
    assert max_variance_subset([1.0, 1.0, 0.0, 0.0], 3) == [1, 2, 3]
    assert max_variance_subset([0.1, 0.1, 0.1], 2) == [1, 2]


rewards = st.lists(st.sampled_from([-1.0, 0.0, 0.1, 0.2, 0.3, 1.0, 1.0]) | st.floats(-3, 3), min_size=1, max_size=8)


@given(rewards=rewards, count=st.integers(1, 8))
def test_no_subset_has_a_larger_variance_than_the_one_of_pods(rewards, count):
    def variance(numbers):
        values = [Fraction(rewards[number]) for number in numbers]
        mean = sum(values) / len(values)
        return sum((value - mean) ** 2 for value in values) / len(values)

    found = max_variance_subset(rewards, count)
    assert found == sorted(set(found))
    assert len(found) == min(count, len(rewards))
    assert variance(found) == max(map(variance, combinations(range(len(rewards)), len(found))))
    if count > 1:
        assert has_spread([rewards[number] for number in found]) == has_spread(rewards)

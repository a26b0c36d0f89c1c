import math

import pytest

from grpo.learner.advantages import group_advantages, has_spread, turn_advantages


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

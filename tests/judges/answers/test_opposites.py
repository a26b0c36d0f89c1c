"""The right value in a sentence that says the opposite, or something else of it, is not right."""

import pytest

from judges.answers.matching import decide


@pytest.mark.parametrize(
    ("question", "reference", "right", "other"),
    [
        ("Until when is it open?", "3 pm", "until 3 pm", "it is open at 3 pm"),
        ("By which date must we pay?", "5 May", "by 5 May", "on 5 May"),
        ("Since when do we pay?", "5 May", "since 5 May", "we pay on 5 May"),
        ("From which city did he move?", "Rome", "from Rome", "moved in Rome"),
        ("When do they stop selling it?", "May 2001", "they stop selling it in May 2001", "they sell it in May 2001"),
        ("Who voted against it?", "Anna", "Anna voted against it", "Anna voted"),
        ("Did Anna stop paying?", "No", "No, Anna did not stop paying", "No, Anna did not pay"),
        ("Did Anna pay nothing?", "No", "No", "No, Anna did not pay"),
        ("When does the call that starts at two end?", "3 pm", "end at 3 pm", "starts at 3 pm"),
        ("Whom did the man who replaced Kelley hire?", "Amy", "the man who replaced Kelley hired Amy", "replaced Amy"),
        ("Whom did the man who replaced Kelley hire?", "Amy", "hired Amy", "the man who replaced Kelley is Amy"),
        ("What is the name of the man who replaced Kelley?", "Amy", "the name is Amy", "Amy replaced Kelley"),
    ],
)  # fmt: skip
def test_the_right_value_of_the_opposite_is_not_right(question, reference, right, other):
    assert decide(right, (reference,), question).verdict.value == "right"
    assert decide(other, (reference,), question).verdict.value == "undecided"

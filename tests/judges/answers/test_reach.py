"""Which references a rule can recognise in an answer, and which it leaves to a judge."""

import pytest

from judges.answers.reach import parts, within_reach
from tests.answers import bundled_scenarios


@pytest.mark.parametrize(
    ("reference", "count"),
    [
        ("$14,000", 1),
        ("5 May 2022", 1),
        ("Anna Maria Keller", 1),
        ("Tom Wu and Anna Keller", 2),
        ("$14,000 per day (London)", 3),
        ("to discuss the budget", 2),
        ("The meeting was moved because the room was double-booked.", 6),
        ("He wants the draft by Friday so that the lawyers can look at it.", 8),
    ],
)
def test_values_names_and_other_words_are_parts_and_what_explains_is_none(reference, count):
    assert parts(reference) == count
    assert within_reach([reference]) == (count <= 3)


def test_the_questions_own_words_are_no_parts():
    assert parts("The lease of the Hamburg office ends in March", "When does the lease of the Hamburg office end?") == 1


def test_one_short_reference_is_enough_and_one_that_gives_up_can_be_said():
    assert within_reach(["The fair was moved to Bonn since the hall in Kiel burnt down", "Bonn"])
    assert within_reach(["I could not find the answer in the mailbox."])
    assert not within_reach(["The team did not find any records of the missing pallets and closed the matter."])


@pytest.mark.parametrize("split", ["train", "validation", "test"])
def test_every_bundled_question_is_within_reach(split):
    scenarios = [scenario for scenario in bundled_scenarios(split) if scenario.answerable]
    assert all(within_reach([s.answer, *s.accepted], s.question) for s in scenarios)

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
        ("Who reported the man who stole it?", "Amy", "Amy reported the man", "the man who stole it is Amy"),
        ("Who is the manager of the man named in the mail?", "Amy", "the manager is Amy", "the man is Amy"),
        ("What is the rent of the flat in Kiel?", "$900", "the rent of the flat is $900", "the flat is $900"),
        ("How much is the fee for the $90 seat?", "$10", "the fee for the $90 seat is $10", "the $90 seat is $10"),
        ("How old is the director's son?", "12", "the director's son is 12", "the director is 12"),
        ("How old is the director's son?", "12", "the son is 12", "the director is 12"),
        ("When does the director's contract end?", "5 May", "the contract ends on 5 May", "the director is on 5 May"),
        ("For the Rome trip, what is the deposit?", "$50", "the deposit is $50", "the Rome trip is $50"),
        ("When did the team leaving Rome get to Oslo?", "5 May", "on 5 May", "the team leaving on 5 May"),
        ("When did the team leaving Rome arrive?", "5 May", "arrived on 5 May", "leaving on 5 May"),
        ("When did Amy start working for us?", "5 May", "Amy started on 5 May", "stopped on 5 May"),
        ("When will Amy pay if the order is late?", "5 May", "Amy will pay on 5 May", "the order is late on 5 May"),
        ("If the order is late, when will Amy pay?", "5 May", "Amy will pay on 5 May", "the order is late on 5 May"),
        ("How much do we pay unless it is cancelled?", "$500", "we pay $500", "it is cancelled for $500"),
        ("What is the price after the discount ends?", "$90", "the price is $90", "the discount is $90"),
        ("How many were hired after Amy left?", "7", "7 were hired", "after Amy left 7"),
        ("By how much did sales exceed it?", "$5", "sales exceeded it by $5", "sales were $5"),
        ("How much did the rent increase?", "$50", "the rent increased $50", "the rent is $50"),
        ("How much more than Tom does Amy earn?", "$300", "$300", "Amy earns $300"),
        ("How many more seats than the old hall has it?", "50", "50", "50 seats"),
        ("How long was the flight delayed?", "2 hours", "the flight was delayed 2 hours", "the flight was 2 hours"),
        ("Who approved the budget?", "Amy", "Amy approved the budget", "the budget is Amy"),
        ("Who told Tom?", "Amy", "Amy told Tom", "told Amy"),
        ("Whose car was damaged?", "Amy's", "Amy's car was damaged", "Amy's was damaged?"),
        ("Whose car was damaged?", "Amy", "Amy", "Amy was damaged"),
        ("Who approved the budget?", "Amy", "Amy approved the budget.", "Amy approved the budget?"),
        ("Did Amy pay?", "Yes", "Yes, Amy did.", "Yes?"),
        ("Did Amy say that Bo had paid?", "No", "No, Amy did not say that", "No, Bo had not paid"),
        ("Did Amy pay after Bo complained?", "Yes", "Yes, Amy did", "Yes, Bo complained"),
        ("Which city is it?", "Rome", "- Rome", "[ ] Rome"),
        ("Which man almost missed it?", "Amy Roe", "Amy Roe almost missed it", "Amy Roe missed it"),
        ("How many of the invited guests came?", "5", "5 of the invited guests came", "5 invited guests"),
        ("How many of the invited guests came?", "5", "5", "the invited guests are 5"),
        ("What is the fee per child?", "$5", "the fee per child is $5", "the child is $5"),
        ("What did the fee rise from?", "$80", "from $80", "the fee was $80"),
        ("Where did Tom fly from when he came?", "Oslo", "from Oslo", "in Oslo"),
        ("From whom did Tom buy it?", "Amy", "from Amy", "Tom bought it Amy"),
    ],
)  # fmt: skip
def test_the_right_value_of_the_opposite_is_not_right(question, reference, right, other):
    assert decide(right, (reference,), question).verdict.value == "right"
    assert decide(other, (reference,), question).verdict.value == "undecided"

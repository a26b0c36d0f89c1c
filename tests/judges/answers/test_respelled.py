"""The same in other spellings is right; what looks like it and is something else is not."""

import pytest

from judges.answers.matching import decide
from judges.answers.respelled import respelled

COMPANY, NUMBER, DOER = "Which company bought it?", "What is her phone number?", "Who replaced Kelley in Houston?"


@pytest.mark.parametrize(
    ("question", "reference", "said"),
    [
        ("By how much did it widen?", "25 basis points", "25 bps"),
        ("By how much did it widen?", "25bp", "25 basis points"),
        ("How large is the plant?", "500 MW", "500 megawatts"),
        ("How many megawatts is the plant?", "500 megawatts", "500 MW"),
        ("How much was sold?", "40 MWh", "40 megawatt-hours"),
        ("How much was sold?", "40 kilowatt hours", "40 kWh"),
        ("Which volume flows?", "1,300 MMBtu per day", "1300 mmbtu/d"),
        ("Which volume flows?", "3 Bcf/d", "3 billion cubic feet per day"),
        ("Which volume flows?", "3 billion cubic feet a day", "3 Bcfd"),
        ("How many Bcf flow?", "3", "3 Bcf"),
        ("Which volume flows?", "40 bbl", "40 barrels"),
        ("What is the price?", "$35/MWh", "$35 per megawatt-hour"),
        ("What is the price?", "$35 per megawatt hour", "$35/MWh"),
        ("Which volume flows?", "40 barrels", "40 bbls"),
        ("When was it founded?", "2001", "in 2001"),
        ("Which year was it founded?", "2001", "It was founded in 2001."),
        (NUMBER, "713-555-0142", "7135550142"),
        (NUMBER, "7135550142.", "(713) 555-0142"),
        (NUMBER, "(713)555-0142 (cell)", "+17135550142"),
        (DOER, "Amy", "Amy did."),
        ("Who approves it?", "Amy Diaz", "Amy Diaz does"),
        (COMPANY, "Dynegy Inc.", "Dynegy"),
        (COMPANY, "Kern River Funding, L.L.C.", "Kern River Funding"),
        (COMPANY, "Ford Motor Co.", "Ford Motor Company"),
        ("Where is the office?", "1400 Smith St., Houston", "1400 Smith Street, Houston"),
        ("Where is the office?", "12 N. Oak Grove Avenue", "12 N. Oak Grove Ave."),
        ("When is the outage?", "Q3 2001", "in the third quarter of 2001"),
        ("When is the outage?", "the 3rd quarter of 2001", "Q3 2001"),
        ("Which quarter has the outage?", "Q3", "the third"),
        ("Who came?", "Anna and Bob", "both Bob and Anna"),
        ("Who came?", "Both Anna and Bob.", "Anna and Bob"),
    ],
)
def test_another_spelling_is_right(question, reference, said):
    assert decide(said, (reference,), question).verdict.value == "right"


@pytest.mark.parametrize(
    ("question", "reference", "said"),
    [
        *(("By how much?", "25 basis points", said) for said in ("250 bps", "25 points", "25%", "-25 bps")),
        *(("How large?", "500 MW", said) for said in ("500 kW", "500 mw", "500 megawatt hours", "500 megawatts per hour")),
        *(("How large?", "500 MW", said) for said in ("500 gigawatts", "500 milliwatts", "50 megawatts", "megawatts")),
        *(("Which volume?", "3 Bcf", said) for said in ("3 Mcf", "3 million cubic feet", "3 Bcfd", "3 billion")),
        *(("Which volume?", "3 MMBtu/d", said) for said in ("3 MMBtu", "3 MMBtu/h", "3 MBtu/d", "3 MMBtu per month")),
        ("Which volume?", "40 bbl", "40 gallons"),
        ("What is the price?", "$35/MWh", "$35 per megawatt"),
        ("What is the price?", "$35/MWh", "$35 per kilowatt-hour"),
        *(("When was it founded?", "2001", said) for said in ("in 2002", "in May 2001", "not in 2001", "before 2001")),
        ("How many came?", "2001", "in 2001"),
        ("When is it due, and how many are there?", "2001", "in 2001"),
        ("Since when do we pay?", "2001", "in 2001"),
        ("Which year did it not run?", "2001", "it ran in 2001"),
        *((NUMBER, "713-555-0142", said) for said in ("7135550143", "71355501420", "5550142", "7135550142 ext 5")),
        *((DOER, "Amy", said) for said in ("Amy did not", "Amy didn't", "Amy did?", "Amy and Bob did", "Kelley did")),
        ("Who did Kelley replace?", "Amy", "Amy did"),
        ("Who will Kelley replace?", "Amy", "Amy does"),
        ("Whom did Kelley replace?", "Amy", "Amy did"),
        ("Who replaced whom?", "Amy", "Amy did"),
        ("Who never signed?", "Amy", "Amy did"),
        *((COMPANY, "Dynegy Inc.", said) for said in ("Dynegy Holdings", "Dynegy Corp.", "Dynegy LLC", "not Dynegy")),
        (COMPANY, "Dynegy Holdings Inc.", "Dynegy Inc."),
        (COMPANY, "Dynegy Holdings Inc.", "Dynegy"),
        ("Which Dynegy company bought it?", "Dynegy Inc.", "Dynegy"),
        (COMPANY, "Dynegy", "Dynegy Inc."),
        ("Which companies?", "Enron and Dynegy Inc.", "Dynegy"),
        ("Who owns it?", "Smith & Co.", "Smith"),
        ("What is it about?", "The Gas Company", "gas"),
        ("Who was it?", "Smithson", "Smith"),
        ("Who was it?", "John Q. Smith", "John R. Smith"),
        *(("Where?", "1400 Smith St.", said) for said in ("1400 Smith Ave", "140 Smith Street", "Smith Street")),
        ("Where?", "12 Rue St. Paul", "12 Rue Street Paul"),
        ("Where?", "Denver, Co.", "Denver Company"),
        *(("When?", "Q3 2001", f"the {said}") for said in ("third quarter of 2002", "second quarter of 2001")),
        *(("When?", "Q3 2001", said) for said in ("three quarters of 2001", "third quarter", "before the third quarter of 2001")),
        *(("Who came?", "Anna and Bob", said) for said in ("both Anna and Carl", "not both Anna and Bob", "both Anna or Bob")),
        ("Who came?", "not both Anna and Bob", "not Anna and Bob"),
        ("Who came?", "Anna", "both Anna and Bob"),
    ],
)  # fmt: skip
def test_what_only_looks_like_it_is_not_right(question, reference, said):
    assert decide(said, (reference,), question).verdict.value != "right"


def test_the_1_before_a_phone_number_is_not_refuted():
    assert decide("17135550142", ("7135550142",), NUMBER).verdict.value == "undecided"
    assert decide("17135550143", ("7135550142",), NUMBER).verdict.value == "wrong"


def test_each_spelling_changes_one_kind_of_word():
    assert [*respelled("76 MW for Q3 2001.")] == ["76 megawatts for Q3 2001", "76 MW for third quarter 2001"]
    assert [*respelled("Dynegy Inc.")] == ["Dynegy Incorporated", "Dynegy"]
    assert [*respelled("Dynegy Inc.", "Who at Dynegy signed?")] == ["Dynegy Incorporated"]
    assert not [*respelled("1,200")]

"""The rule on single answers: what may be written differently, what a frame may say, and what refutes."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from judges.answers.giving_up import gives_up
from judges.answers.matching import Verdict, decide, is_short_enough
from judges.answers.tokens import tokens
from tests.answers import bundled_scenarios

DAY = ("Thursday", "7 March", "Thursday 7 March", "2024-03-07")
DATE = ("14 March 2024", "14 March", "Thursday 14 March")
TIME = ("14:30", "2:30 pm")
NAME = ("Anna Keller", "Anna", "Keller")
MONEY = ("$48,250", "48250")
ROOM = ("Room 204", "204")
CODE = ("KX7-PQ2", "KX7PQ2")


def verdict(answer: str, accepted: tuple[str, ...], question: str = "") -> str:
    return decide(answer, accepted, question).verdict.value


RIGHT = {
    DAY: ["thursday.", "It is Thursday.", "Thursday, March 7", "2024-03-07", "3/7/2024", "the 7th of March"],
    DATE: ["March 14", "March 14, 2024", "Thursday, 14 March 2024", "on 14 March"],
    TIME: ["2:30 PM", "2.30 p.m.", "2:30", "at 14:30"],
    NAME: ["anna", "It is Anna Keller.", "According to the mail, Anna Keller.", "ANNA KÉLLER", "<answer>Anna</answer>"],
    MONEY: ["\u202a$48,250\u202c", "48250", "$48,250.00", "48,250 dollars", "USD 48250", "$48.25k"],
    ROOM: ["204", "the room 204", "\u200e20\u200b4"],
    ("Mr. Keller",): ["Keller", "Mr. Keller."],
    ("Prof. Dr. Anna Keller",): ["Dr. Anna Keller"],
    ("上海",): ["上海。", "「上海」", "　上海！"],
    ("１２％",): ["12%", "12 percent"],
    CODE: ["kx7 pq2", "KX7PQ2", "The answer is KX7-PQ2."],
    ("25",): ["twenty-five", "Twenty five", "25.0", '"25".', "'25.'", "It is “25”", "...25"],
    ("-15",): ["-15", "−15", "–15", "– 15", "- 15", "minus fifteen", "It is - 15."],
    ("-$5",): ["$-5", "−$5", "- $5", "minus 5 dollars"],
    ("$1.5 million",): ["1,500,000", "$1.5M", "1500k dollars", "1.5 million"],
    ("12%",): ["12 percent", "12.0 %"],
    ("500 MW",): ["500 megawatts"],
    ("12 ft",): ["12 feet", "twelve feet"],
    ("May to August",): ["from May through August", "May - August"],
    ("Ann Lee and Bo Li",): ["Bo Li and Ann Lee", "Bo Li, Ann Lee", "Ann Lee & Bo Li"],
    ("Anna's '5 Days'",): ["'Anna's '5 Days'.'", "Anna's 5 Days"],
    (".5",): ["0.5", ".5.", "'.5'"],
    ("5'",): ['"5\'"', "5’", "the answer is 5'."],
    ("October 15, 2001",): ["15-Oct-01", "2001-10-15", "Monday, 15 October 2001"],
    ("713-853-7658",): ["(713) 853-7658", "713/853-7658", "713 853 7658"],
    ("3-5 days",): ["3 to 5 days", "three to five days", "between 3 and 5 days", "3 – 5 days"],
    ("10,000 MMBtu/day",): ["10,000 mmbtu per day", "10000 MMBtu a day"],
    ("Алёна Орлова",): ["Алена Орлова"],
    ("Αθήνα",): ["ΑΘΗΝΑ"],
    ("noon",): ["12 noon", "12:00 noon"],
    ("Friday, June 8 at 2:00 PM",): ["2 PM on Friday, June 8", "June 8, 2pm", "at 14:00 on Friday the 8th of June"],
    ("about 30",): ["approximately 30", "30"],
    ("the discharge side, not the suction side",): ["the discharge side"],
}
NOT_RIGHT = {
    DAY: ["Friday", "Tuesday or Thursday", "from Tuesday to Thursday", "not Thursday", "March 7 2023", "Thursday, March 8"],
    DATE: ["15 March", "14 March 2023", "Monday 14 March", "14 April", "March", "14 March or 15 March", "before 14 March"],
    TIME: ["2:30 am", "02:30", "14:35", "14:30 or 15:30", "14", "15:30 EST"],
    NAME: ["Tom", "Anna Schmidt", "Anna Keller or Tom", "Anna Keller, Tom Wu", "Not Anna Keller", "Keller Anna Tom"],
    MONEY: ["$48,251", "€48,250", "$48,250 of $50,000", "148,250", "48", "-$48,250", "A$48,250", "$48,250 a month"],
    ROOM: ["205", "Room 1204", "204 205", "Room 204 or Room 205", "204, or else 205"],
    CODE: ["KX7", "KX7-PQ2, KX7-PQ3", "KX7-PQ3"],
    ("Lisbon",): ["Lisbon/Oslo", "Lisbon Oslo", "Oslo, Lisbon", "maybe Lisbon", "I don't know, Lisbon?", "It isn't Lisbon", ""],
    ("12%",): ["0.12", "12", "a bit over 12%"],
    ("0042",): ["42"],
    ("Mr. Keller",): ["Mrs. Keller", "Ms Keller", "Mr. and Mrs. Keller"],
    ("a dog bites a man",): ["a man bites a dog"],
    ("BBB+",): ["BBB", "BBB-"],
    ("C++",): ["C", "C#"],
    ("Plan A",): ["Plan", "Plan B"],
    ("1.10",): ["1.1"],
    ("0:00",): ["12:00"],
    (">5",): ["5", "<5"],
    ("15",): ["-15", "−15", "–15", "– 15", "- 15", "—15", "-  15", "minus 15", "(15)"],
    ("-15",): ["15", "+15"],
    ("October 15, 2001",): ["15-Oct-00", "15-Nov-01", "Oct '01", "Tuesday, 15 October 2001"],
    ("30 June",): ["<answer>30 June</answer><answer>1 July</answer>"],
    ("May 2001",): ["May", "2001"],
    ("June 8 at 2:00 PM",): ["2 PM on June 9", "June 8", "on June 8 after 2:00 PM", "June 8 at 2 PM or 3 PM", "2 PM, not June 8"],
    ("713-853-7658",): ["713-853-7659", "853-7658", "713-853-7658 or 713-853-7659"],
    ("ann@x.com",): ["Ann <ann@x.org>", "ann@x.org", "ann-x.com"],
    ("Сергей",): ["Сергеи"],
    ("25",): ["1. 25", "1. 25\n2. 30", "[ ] 25", "25th"],
    ("3-5",): ["3", "5", "4", "3-6", "3 and 5", "3 or 5"],
    ("3, 5",): ["3 to 5", "3-5"],
    ("10 to 15%",): ["10 to 15", "15%"],
    ("10,000 MMBtu/day",): ["10,000 MMBtu", "10,000 MMBtu per month"],
    ("500 MW",): ["500 mW", "500 kW", "500 MWh", "500"],
    ("1.200",): ["1200", "1,200", "1.2"],
    ("1.200 Euro",): ["1.2 Euro", "€1.20", "€12.00"],
    ("5 B",): ["5 billion"],
    ("5",): [".5", "-5", "5 more", "five or six"],
    ("5'",): ['5"', "5”", "5''", '"5""', "5"],
    ("Dynegy Inc.",): ["Dynegy Holdings", "Dynegy Corp."],
    ("$50 (for members only)",): ["$50"],
    ("Ann and Bob",): ["Ann", "Ann or Bob", "Ann, Bob and Cy", "not Ann and Bob"],
}  # fmt: skip
WRONG = {
    DATE: ["15 March", "It is 14 April."],
    DAY: ["8 March", "Friday, 8 March"],
    ("Thursday",): ["Friday", "It was Friday"],
    TIME: ["14:35", "at 15:30"],
    MONEY: ["$48,251", "148,250", "the answer is 48"],
    ("204",): ["205", "1204"],
    ("Yes",): ["No"],
    ("7135550142",): ["17135550143"],
    ("Anna Keller",): ["", "  ", "I don't know", "Not found.", "N/A"],
}
UNDECIDED = {
    ("14 March 2024",): ["mid-March", "14 or 15 March", "before 14 March", "not 14 March", "two days after 12 March"],
    ("Thursday 7 March",): ["Friday 7 March", "Thursday"],
    ("14:30",): ["15:30 EST", "half past two", "14:30 or 15:30", "14", "2:30 am"],
    ("$48,250",): ["about $48k", "48,000", "$48,250 of $50,000", "48,3", "-$48,250", "€48,250"],
    ("12%",): ["0.12", "a bit over 12%"],
    ("1/2",): ["2/4"],
    ("March 2003",): ["in 2003"],
    ("7135550142",): ["17135550142"],
    ("Anna Keller",): ["Anna", "Anna Schmidt", "Not Anna Keller", "the head of finance", "none"],
    ("Lisbon",): ["in Portugal's capital", "Lisbon " * 90],
    ("The team did not find any records.",): ["No records were found", "I could not find it"],
    ("I don't know",): ["Unknown", "I could not find any mail about it.", "Lisbon", "5"],
}
FRAMES = [  # question, reference, right with a frame, the value in a sentence that says something else
    ("Until when is it open?", "3 pm", "until 3 pm", "it is open at 3 pm"),
    ("By which date must we pay?", "5 May", "by 5 May", "on 5 May"),
    ("Since when do we pay?", "5 May", "since 5 May", "we pay on 5 May"),
    ("From which city did he move?", "Rome", "from Rome", "in Rome"),
    ("Where are they moving to?", "Lyon", "to Lyon", "in Lyon"),
    ("When is it due?", "5 May", "on 5 May", "by 5 May"),
    ("Where is it?", "Oslo", "in Oslo", "near Oslo"),
    ("Why was it cancelled?", "the strike", "because the strike", "despite the strike"),
    ("Who voted against it?", "Anna", "Anna voted against it", "Anna voted"),
    ("Who acquired Kelbrook?", "Alvero", "Alvero acquired Kelbrook.", "Kelbrook acquired Alvero"),
    ("Who acquired Kelbrook?", "Alvero", "It was Alvero", "Alvero acquired Kelbrook?"),
    ("Who is Beate's manager?", "Carl", "Beate's manager is Carl", "Beate is Carl's manager"),
    ("Who did not sign?", "Anna", "Anna did not sign", "No, Anna did not sign"),
    ("Which bidder was not approved?", "Ostrava", "Ostrava was not approved", "Ostrava was approved"),
    ("Which man almost missed it?", "Amy Roe", "Amy Roe almost missed it", "Amy Roe missed it"),
    ("What is the fee for the $90 seat?", "$10", "the fee for the $90 seat is $10", "the $90 seat is $10"),
    ("What is the fee per child?", "$5", "the fee per child is $5", "the child is $5"),
    ("How much is the fee?", "$50", "the fee is $50", "Yes, the fee is $50"),
    ("What did the fee rise from?", "$80", "from $80", "to $80"),
    ("When does it end now?", "9 May", "It is 9 May", "It was 9 May"),
    ("Which room is it?", "Room 204", "204", "floor 204"),
    ("Which room is it?", "204", "room 204", "the room next to 204"),
    ("What is the door code?", "2122", "door code 2122", "code 2122 was the old one"),
    ("What is the flight number?", "CO 1782", "flight CO 1782", "gate CO 1782"),
    ("What is the old price?", "$5", "old price: $5", "the price is $5"),
    ("How many valves came?", "25", "25 valves", "25 valves did not"),
    ("How many of the guests came?", "5", "5 of the guests came", "5 guests"),
    ("How much is the monthly rent?", "$2,400 per month", "2,400 dollars", "$2,400 per year"),
    ("What is the rate?", "$5 per day (Porto)", "$5 a day", "$5"),
    ("What is the title of the deputy?", "deputy director", "the deputy director", "director"),
    ("How much did the rent increase?", "$50", "$50", "it was $50"),
    ("How late was the train?", "20 minutes", "20 minutes", "the train was 20 minutes"),
    ("How much higher was the second offer?", "$40,000", "40,000 dollars", "It was $40,000"),
    ("What is twice the fee?", "$100", "The answer is $100", "the fee: $100"),
    ("Which is the second-largest customer?", "Acme", "Acme", "customer Acme"),
    ("Which budget is larger, that of Lotus or that of Harbor?", "Harbor", "Harbor", "Lotus or Harbor"),
    ("Is the fee $80?", "Yes", "Yes.", "Yes, the fee is $50"),
    ("Did Anna sign?", "No", "The answer is no", "No, Bo did not sign"),
    ("Is it red or blue?", "blue", "blue", "it is blue"),
    ("Who beat whom?", "Ann and Bob", "Ann and Bob", "Bob and Ann"),
    ("Which city is it?", "Rome", "- Rome", "[ ] Rome"),
    ("What is the password?", "aB7xQ", "aB7xQ", "ab7xq"),
]  # fmt: skip


@pytest.mark.parametrize(("accepted", "said"), [(a, said) for a, many in RIGHT.items() for said in many])
def test_a_right_answer_may_be_written_in_many_ways(accepted, said):
    assert verdict(said, accepted) == "right"


@pytest.mark.parametrize(("accepted", "said"), [(a, said) for a, many in NOT_RIGHT.items() for said in many])
def test_a_wrong_a_second_or_a_denied_answer_is_never_right(accepted, said):
    assert verdict(said, accepted) != "right"


@pytest.mark.parametrize(("accepted", "said"), [(a, said) for a, many in WRONG.items() for said in many])
def test_another_value_no_answer_and_giving_up_are_wrong(accepted, said):
    assert verdict(said, accepted, "To which day was it moved?") == "wrong"


@pytest.mark.parametrize(("accepted", "said"), [(a, said) for a, many in UNDECIDED.items() for said in many])
def test_the_rest_is_undecided(accepted, said):
    assert verdict(said, accepted) == "undecided"


@pytest.mark.parametrize(("question", "reference", "framed", "other"), FRAMES)
def test_a_frame_says_nothing_and_every_other_word_refutes(question, reference, framed, other):
    assert verdict(framed, (reference,), question) == "right"
    assert verdict(other, (reference,), question) == "undecided"


def test_a_reference_itself_is_right_whatever_its_length_and_whatever_it_says():
    for reference in ("The search " * 80 + "ended.", "We did not find any records of it.", "Not X, not Y?", "?!"):
        assert verdict(reference, (reference,)) == "right"
        assert verdict(f" {reference}\n", (reference,)) == "right"
    assert verdict("The search " * 80 + "began.", ("The search " * 80 + "ended.",)) == "undecided"


def test_the_reasoning_says_what_was_found():
    assert decide("14 Mar", ("14 March", "March 14")).reasoning == "The answer says '14 March'."
    assert decide("n/a", ("14 March",)).reasoning == "The answer gives up."


@pytest.mark.parametrize(
    "said",
    [
        *("I don't know", "I don’t know.", "Unknown", "N/A", "Unable to find the answer.", "I'm not sure"),
        *("I could not find any mail about it", "The date is not mentioned in the emails.", "The mails do not say."),
        *("There is no information about that.", "It cannot be determined"),
    ],
)
def test_not_knowing_is_recognised(said):
    assert gives_up(tokens(said))


@pytest.mark.parametrize(
    "said",
    [
        *("Lisbon", "No", "none", "Unknown Street 5", "knowledge", "", "He can meet on Friday", "Information desk"),
        *("I don't know, maybe Lisbon", "I could not find it, but it is 555-1234", "Bob did not find the file"),
        "I do not know. " * 90,
    ],
)
def test_an_answer_is_not_taken_for_not_knowing(said):
    assert not gives_up(tokens(said))


@pytest.mark.parametrize(
    ("reference", "is_short"),
    [
        *(("$14,000", True), ("5 May 2022", True), ("Anna Maria Keller", True), ("Tom Wu and Anna Keller", True)),
        *(("$14,000 per day (London)", True), ("I could not find the answer in the mailbox.", True)),
        ("The meeting was moved because the room was double-booked.", False),
        ("He wants the draft by Friday so that the lawyers can look at it.", False),
    ],
)
def test_a_reference_of_few_words_of_its_own_is_short_enough_for_a_rule(reference, is_short):
    assert is_short_enough([reference]) is is_short
    assert is_short_enough(["The fair was moved to Bonn since the hall in Kiel burnt down", reference]) is is_short


def test_the_questions_own_words_do_not_make_a_reference_long():
    question, reference = (
        "When does the lease of the Hamburg office end?",
        "The lease of the Hamburg office ends in March",
    )
    assert is_short_enough([reference], question)
    assert not is_short_enough([f"{reference}, as the landlord agreed last week"], question)


@pytest.mark.parametrize("split", ["train", "validation", "test"])
def test_every_bundled_question_is_short_enough(split):
    scenarios = [scenario for scenario in bundled_scenarios(split) if scenario.answerable]
    assert all(is_short_enough([s.answer, *s.accepted], s.question) for s in scenarios)


@given(st.text(), st.text(), st.text())
def test_matching_takes_any_text(said, accepted, question):
    assert decide(said, (accepted,), question).verdict in Verdict
    assert gives_up(tokens(said)) in (True, False)


@given(st.text(st.characters(categories=["L", "N"]), min_size=1, max_size=40))
def test_every_answer_says_itself(text):
    assert verdict(text, (text,)) == "right"

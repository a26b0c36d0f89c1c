import pytest
from hypothesis import given
from hypothesis import strategies as st

from email_env.matching import is_dont_know, is_right
from email_env.values import Token, agrees, tokens

DAY = ("Thursday", "7 March", "Thursday 7 March", "2024-03-07")
DATE = ("14 March 2024", "14 March", "Thursday 14 March")
TIME = ("14:30", "2:30 pm")
NAME = ("Anna Keller", "Anna", "Keller")
MONEY = ("$48,250", "48250")
ROOM = ("Room 204", "204")
CODE = ("KX7-PQ2", "KX7PQ2")

RIGHT = {
    DAY: ["thursday.", "It was moved to Thursday.", "Thursday, March 7", "2024-03-07", "3/7/2024", "the 7th of March"],
    DATE: ["March 14", "March 14, 2024", "Thursday, 14 March 2024", "by 14 March at 5 pm"],
    TIME: ["2:30 PM", "2.30 p.m.", "2:30", "at 14:30", "At 14:30 in Room 204"],
    NAME: ["anna", "It is Anna Keller.", "Anna Keller (finance)", "According to the mail, Anna Keller.", "ANNA KÉLLER"],
    MONEY: ["48250", "$48,250.00", "48,250 dollars", "USD 48250", "The budget is $48,250"],
    ROOM: ["204", "the room 204", "It is in Room 204."],
    CODE: ["kx7 pq2", "KX7PQ2", "The code is KX7-PQ2."],
    ("25",): ["twenty-five", "Twenty five", "25.0", "25th"],
    ("$1.5 million",): ["1,500,000", "$1.5M is wrong, it is 1500k"][:1],
    ("Research and Development",): ["the Research and Development"],
    ("0042",): ["0042"],
    ("From Monday 5th June to 9th July (2000).",): ["from Monday 5th June to 9th July (2000)"],
}
WRONG = {
    DAY: [
        "Friday",
        "Tuesday or Thursday",
        "from Tuesday to Thursday",
        "not Thursday",
        "March 7 2023",
        "Thursday, March 8",
    ],
    DATE: ["15 March", "14 March 2023", "Monday 14 March", "14 April", "March", "14 March or 15 March"],
    TIME: ["2:30 am", "02:30", "14:35", "14:30 or 15:30", "14"],
    NAME: ["Tom", "Anna Schmidt", "Anna Keller or Tom", "Anna Keller, Tom Wu", "Not Anna Keller", "Keller Anna Tom"],
    MONEY: ["$48,251", "€48,250", "$48,250 of $50,000", "148,250", "48"],
    ROOM: ["205", "Room 1204", "204 205", "Room 204 or Room 205", "204, or else 205"],
    CODE: ["KX7", "KX7-PQ2, KX7-PQ3", "KX7-PQ3"],
    ("Lisbon",): [
        "Lisbon/Oslo",
        "Lisbon Oslo",
        "Oslo, Lisbon",
        "maybe Lisbon",
        "I don't know, Lisbon?",
        "It isn't Lisbon",
        "",
    ],
    ("0042",): ["42"],
    ("I like it",): ["I like"],
}


@pytest.mark.parametrize(("accepted", "said"), [(a, said) for a, many in RIGHT.items() for said in many])
def test_a_right_answer_may_be_written_in_many_ways(accepted, said):
    assert is_right(said, accepted)


@pytest.mark.parametrize(("accepted", "said"), [(a, said) for a, many in WRONG.items() for said in many])
def test_a_wrong_a_second_or_a_denied_answer_is_wrong(accepted, said):
    assert not is_right(said, accepted)


def test_a_long_answer_is_wrong_whatever_it_holds():
    assert is_right("Lisbon " + "and so it is " * 2, ("Lisbon",))
    assert not is_right("Lisbon " + "and so it is " * 5, ("Lisbon",))
    assert not is_right("Lisbon" + " " * 600, ("Lisbon",))


def test_what_the_question_names_is_no_second_candidate():
    question = "To which day did the Tuesday meeting in Room 12 move?"
    assert not is_right("The Tuesday meeting moved to Thursday", DAY)
    assert is_right("The Tuesday meeting moved to Thursday", DAY, question)
    assert is_right("Room 12 was left for Room 204", ROOM, question)


def test_naming_both_candidates_of_the_question_is_wrong():
    question = "Which budget is larger, that of Lotus or that of Harbor?"
    assert is_right("Harbor has the larger budget", ("Harbor",), question)
    assert not is_right("Lotus or Harbor", ("Harbor",), question)
    assert not is_right("Lotus, Harbor", ("Harbor",), question)
    assert not is_right("Lotus Harbor", ("Harbor",), question)


@pytest.mark.parametrize(
    "said",
    [
        "I don't know",
        "I don’t know.",
        "Unknown",
        "N/A",
        "none",
        "Unable to find the answer.",
        "I could not find any mail about it",
        "The date is not mentioned in the emails.",
        "There is no information about that.",
        "It cannot be determined",
        "I'm not sure",
        "The mails do not say.",
    ],
)
def test_not_knowing_is_recognised(said):
    assert is_dont_know(said)


@pytest.mark.parametrize(
    "said", ["Lisbon", "No", "Unknown Street 5", "knowledge", "", "He can meet on Friday", "Information desk"]
)
def test_an_answer_is_not_taken_for_not_knowing(said):
    assert not is_dont_know(said)


@given(st.dates(), st.booleans())
def test_a_date_is_the_same_however_it_is_written(day, with_year):
    forms = [
        f"{day:%B} {day.day}, {day.year:04}",
        f"{day.day} {day:%b} {day.year:04}",
        f"{day.year:04}-{day.month:02}-{day.day:02}",
    ]
    if not with_year:
        forms = [f"{day:%B} {day.day}", f"the {day.day}th of {day:%B}", f"{day.month}/{day.day}"]
    expected = Token("date", (day.year if with_year else None, day.month, day.day))
    assert all(tokens(form) == (expected,) or tokens(form) == (Token("word", "the"), expected) for form in forms)


@given(st.times())
def test_a_time_is_the_same_however_it_is_written(moment):
    twelve = f"{(moment.hour - 1) % 12 + 1}:{moment.minute:02}{'am' if moment.hour < 12 else 'pm'}"
    (one,), (other,) = tokens(f"{moment.hour:02}:{moment.minute:02}"), tokens(twelve)
    assert agrees(one, other)
    assert one.value[:2] == other.value[:2] == (moment.hour, moment.minute)


@given(st.integers(0, 10**12))
def test_a_number_is_the_same_however_it_is_written(number):
    assert tokens(f"{number:,}") == tokens(str(number)) == tokens(f"{number}.00") == (Token("number", str(number)),)


@given(st.text(), st.text())
def test_matching_takes_any_text(said, accepted):
    assert is_right(said, (accepted,), said) in (True, False)
    assert is_dont_know(said) in (True, False)


@given(st.text(st.characters(categories=["L", "N"]), min_size=1, max_size=40))
def test_every_answer_says_itself(text):
    assert is_right(text, (text,)) or not tokens(text)

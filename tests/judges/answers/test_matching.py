import pytest
from hypothesis import given
from hypothesis import strategies as st

from judges.answers.matching import Verdict, decide, gives_up
from judges.answers.token import Token, agrees
from judges.answers.values import tokens

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
    NAME: ["anna", "It is Anna Keller.", "According to the mail, Anna Keller.", "ANNA KÉLLER", "Keller, Anna"],
    MONEY: [
        "\u202a$48,250\u202c",
        "48250",
        "$48,250.00",
        "48,250 dollars",
        "USD 48250",
        "forty-eight thousand two hundred fifty dollars",
    ],
    ROOM: ["204", "the room 204", "It is in Room 204.", "\u200e20\u200b4"],
    ("Mr. Keller",): ["Keller", "mr Keller", "Mr. Keller."],
    ("Prof. Dr. Anna Keller",): ["Dr. Anna Keller"],
    ("上海",): ["上海。", "「上海」", "　上海！"],
    ("１２％",): ["12%", "12 percent"],
    CODE: ["kx7 pq2", "KX7PQ2", "The answer is KX7-PQ2."],
    ("25",): ["twenty-five", "Twenty five", "25.0", '"25".', "'25.'", "It is “25”", "...25"],
    ("$1.5 million",): ["1,500,000", "$1.5M", "1500k dollars", "1.5 million"],
    ("12%",): ["12 percent", "12.0 %"],
    ("Research and Development",): ["the Research and Development"],
    ("0042",): ["0042"],
    ("From Monday 5th June to 9th July (2000).",): [
        "from Monday 5th June to 9th July (2000)",
        "from Monday, June 5 to July 9, 2000",
        "Jun 5th - Jul 9th 2000",
    ],
    ("May to August",): ["from May through August", "May - August"],
    ("Ann Lee and Bo Li",): ["Bo Li and Ann Lee", "Bo Li, Ann Lee", "Ann Lee & Bo Li"],
    ("Anna's '5 Days'",): ["'Anna's '5 Days'.'", "Anna's 5 Days"],
    (".5",): ["0.5", ".5.", "'.5'"],
    ("5'",): ['"5\'"', "5’", "5", "the answer is 5'."],
    ("October 15, 2001",): ["15-Oct-01", "Mon 15-Oct-2001", "15.10.2001", "2001/10/15", "Oct 15 '01", "15 Oct, '01"],
    ("May 2001",): ["May '01", "May of 2001"],
    ("589822",): ["#589822", "# 589822", "#: 589822"],
    ("713-853-7658",): ["(713) 853-7658", "713.853.7658", "713/853-7658", "+1 713-853-7658", "1-713-853-7658"],
    ("http://www.example.com/a/",): ["www.example.com/a", "<https://example.com/a>", "example.com/a."],
    ("ann@example.com",): ["<Ann@example.com>", "mailto:ann@example.com"],
    ("Ann Lee, Bo Li and Cy Roe",): ["1. Bo Li\n2. Ann Lee\n3. Cy Roe", "1) Ann Lee\n 2) Bo Li\n 3) Cy Roe"],
    ("3-5 days",): ["3 to 5 days", "three to five days", "between 3 and 5 days", "from 3 to 5 days"],
    ("10% to 15%",): ["10-15 percent", "10–15%", "between 10 and 15%"],
    ("$10-12 million",): ["$10 million to $12 million", "between $10 and $12 million", "$10,000,000 - $12,000,000"],
    ("$500 to $1.2 million",): ["$500 to $1,200,000"],
    ("2-4 PM",): ["2:00 PM to 4:00 PM", "14:00-16:00", "between 2 and 4 pm"],
    ("10,000 MMBtu/day",): ["10,000 mmbtu per day", "10000 MMBtu a day"],
    ("853-7658",): ["853 7658"],
    ("Anna Keller",): ["Anna Keller <anna.keller@x.com>", "It is Anna Keller (akeller2@x.com)."],
    ("Ann Lee and Bo Ito",): ["Bo Ito <bo.ito@x.com> and Ann Lee <ann.lee@x.com>"],
    ("Алёна Орлова",): ["Алена Орлова"],
    ("Αθήνα",): ["ΑΘΗΝΑ", "αθηνα"],
    ("noon",): ["12 noon", "12:00 noon"],
    ("Friday, June 8 at 2:00 PM",): ["2 PM on Friday, June 8", "June 8, 2pm", "at 14:00 on Friday the 8th of June"],
    ("2:00 PM on Friday",): ["Friday at 2 pm", "Friday 14:00"],
    ("1.200 Euro",): ["1200 Euro", "€1,200", "1 200 €", "1\u202f200 €", "EUR 1.200,00", "1.200,- €", "1200"],
    ("1'200 CHF",): ["CHF 1200", "1’200.- CHF", "1,200 CHF"],
    ("1\u202f234\u202f567",): ["1,234,567", "1'234'567", "1234567"],
    ("12,50 €",): ["€12.50", "€ 12,50"],
    ("1.234,5 km",): ["1,234.5 km"],
    ("3,5 %",): ["3.5%", "3,5 Prozent"],
    ("1,2 Mio. €",): ["€1.2 million", "1.2m euros", "€1,200,000"],
    ("$2.3 billion",): ["$2.3B", "2.3b dollars"],
    ("30 June 2024",): ["30. Juni 2024", "30 juin 2024", "30 de junio de 2024", "June 30", "<answer>30 June</answer>"],
    ("1 March",): ["1. März", "1er mars", "1 de marzo"],
    ("August 2019",): ["août 2019", "agosto de 2019", "August 2019"],
    ("6:40 pm",): ["18:40 Uhr", "18.40 Uhr"],
    ("7 pm",): ["19 Uhr"],
    ("French and Spanish",): ["French as well as Spanish"],
    ("I don't know",): ["Unknown", "I could not find any mail about it."],
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
    ("I like it",): ["I like"],
    ("Mr. Keller",): ["Mrs. Keller", "Ms Keller"],
    ("Mrs. Anna Keller",): ["Mr Anna Keller"],
    ("a dog bites a man",): ["a man bites a dog"],
    ("BBB+",): ["BBB", "BBB-"],
    ("C++",): ["C", "C#"],
    ("Plan A",): ["Plan", "Plan B"],
    ("1.10",): ["1.1"],
    ("0:00",): ["12:00"],
    (">5",): ["5", "<5"],
    ("October 15, 2001",): ["15-Oct-00", "15-Nov-01", "Oct '01", "15.11.2001"],
    ("5.6.2001",): ["6 May 2001", "5.6.2002"],
    ("30 June 2024",): ["30. Juli 2024", "30 juin 2025", "<answer>30 June</answer><answer>1 July</answer>"],
    ("Mars 2020",): ["March 2020"],
    ("7 pm",): ["19:05 Uhr", "19 Uhr oder 20 Uhr", "19"],
    ("June 8 at 2:00 PM",): ["2 PM on June 9", "June 8", "on June 8 after 2:00 PM", "June 8 at 2 PM or 3 PM", "2 PM, not June 8"],
    ("June 8 at 2:00 PM or 3:00 PM",): ["2 PM on June 8", "2 or 3 PM"],
    ("713-853-7658",): ["713-853-7659", "853-7658", "713-853-7658 or 713-853-7659"],
    ("http://www.example.com/a/",): ["www.example.com/b", "example.com"],
    ("C# 5",): ["C 5"],
    ("Anna Keller",): ["Anna Keller <anna.schmidt@x.com>", "Anna Keller <tom@x.com>", "Tom <anna.keller@x.com>", "Anna Keller, tom@x.com"],
    ("ann@x.com",): ["Ann <ann@x.org>", "ann@x.org"],
    ("Сергей",): ["Сергеи"],
    ("25",): ["1. 25", "1. 25\n2. 30"],
    ("3-5",): ["3", "5", "4", "3-6", "3 and 5", "3 or 5"],
    ("3, 5",): ["3 to 5"],
    ("4",): ["3-5", "between 3 and 5"],
    ("10 to 15%",): ["10 to 15", "15%"],
    ("$500 to $1.2 million",): ["$500 million to $1.2 million"],
    ("10-2 PM",): ["10 PM to 2 PM"],
    ("9 to 11 am",): ["9 pm to 11 am", "9 to 11 pm"],
    ("10,000 MMBtu/day",): ["10,000 MMBtu", "10,000 MMBtu per month"],
    ("1.200",): ["1200", "1,200"],
    ("$1.250/MMBtu",): ["$1250/MMBtu"],
    ("€1.459",): ["€1459"],
    ("1.200 Euro",): ["1.2 Euro", "1.201 Euro", "€12.00"],
    ("713 853",): ["713853"],
    ("089\u00a0123",): ["89123", "089123"],
    ("rooms 3,5",): ["rooms 3.5"],
    ("5 B",): ["5 billion"],
    ("5",): [".5", "-5"],
    (".25",): ["25", "'25'"],
    ("5'",): ['5"', "5”", "5''", '"5""'],
    ("5\"",): ["5'", "5’", "the answer is 5'"],
    ("5'6\"",): ["5\"6'"],
}  # fmt: skip
WRONG = {
    DATE: ["15 March", "14 March 2023", "It is 14 April."],
    DAY: ["8 March", "Friday, 8 March"],
    ("Thursday",): ["Friday", "It was moved to Friday"],
    TIME: ["2:30 am", "14:35", "at 15:30"],
    MONEY: ["$48,251", "€48,250", "148,250", "the answer is 48"],
    ("204",): ["205", "1204"],
    ("Yes",): ["No"],
    ("Anna Keller",): ["", "  ", "I don't know", "Not found.", "N/A"],
}
UNDECIDED = {
    ("14 March 2024",): ["mid-March", "14 or 15 March", "before 14 March", "not 14 March", "two days after 12 March"],
    ("Thursday 7 March",): ["Friday 7 March", "Thursday"],
    ("14:30",): ["15:30 EST", "half past two", "14:30 or 15:30", "14"],
    ("$48,250",): ["about $48k", "48,000", "$48,250 of $50,000", "48,3"],
    ("12%",): ["0.12", "a bit over 12%"],
    ("1/2",): ["2/4"],
    ("March 2003",): ["in 2003"],
    ("Anna Keller",): ["Anna", "Anna Schmidt", "Not Anna Keller", "the head of finance", "none"],
    ("Lisbon",): ["in Portugal's capital", "Lisbon " * 90],
    ("The team did not find any records.",): ["No records were found", "I could not find it"],
}


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


def test_a_reference_itself_is_right_whatever_its_length_and_whatever_it_says():
    for reference in ("The search " * 80 + "ended.", "We did not find any records of it.", "Not X, not Y?", "?!"):
        assert verdict(reference, (reference,)) == "right"
        assert verdict(f" {reference}\n", (reference,)) == "right"
    assert verdict("The search " * 80 + "began.", ("The search " * 80 + "ended.",)) == "undecided"


def test_the_questions_words_may_be_repeated_as_the_question_has_them():
    question = "To which day did the Tuesday meeting move?"
    assert verdict("The Tuesday meeting moved to Thursday", DAY, question) == "right"
    assert verdict("The Tuesday meeting moved to Thursday", DAY) == "undecided"
    assert verdict("Tuesday Thursday", DAY, question) != "right"
    assert verdict("Anna has the lead of Nimbus", NAME, "Who has the lead of Nimbus?") == "right"
    assert verdict("The budget is $48,250", MONEY, "How big is the budget?") == "right"
    assert verdict("It asked for 25 valves", ("25",), "How many valves did it ask for?") == "right"
    assert verdict("204", ("Room 204",), "Which room is it?") == "right"
    assert verdict("$5", ("$5 per day (Porto)",), "What is the daily rate?") == "right"
    assert verdict("$5 a month", ("$5 per day (Porto)",), "What is the daily rate?") != "right"


def test_a_yes_may_repeat_what_was_asked_and_a_no_may_deny_it():
    question = "Did the board approve the sale to Kelbrook?"
    for said in ("Yes, the board approved the sale to Kelbrook.", "Yes, it did.", "Yes, the board approved it"):
        assert verdict(said, ("Yes",), question) == "right"
    for said in ("No, the board did not approve the sale.", "No, it didn't."):
        assert verdict(said, ("No",), question) == "right"
    for said in (
        "Yes, it did not",
        "Yes, the board will approve it",
        "Yes, but only in part",
        "Yes, the sale to Alvero",
    ):
        assert verdict(said, ("Yes",), question) != "right"
    for said in ("No, the board approved the sale", "No, it did", "No, it was not discussed"):
        assert verdict(said, ("No",), question) != "right"
    assert verdict("No, the plant will not be closed", ("No",), "Will the plant be closed?") == "right"
    assert verdict("Yes, Anna is", ("Yes",), "Is Anna or Tom the lead?") != "right"
    assert verdict("Yes, they signed", ("Yes",), "Did they not sign?") != "right"
    assert verdict("Yes, Anna pays Tom", ("Yes",), "Does Tom pay Anna?") != "right"


def test_roles_are_not_turned_round_and_a_negative_question_is_answered_negatively():
    assert verdict("Alvero acquired Kelbrook", ("Alvero",), "Who acquired Kelbrook?") == "right"
    assert verdict("It was Alvero who acquired Kelbrook", ("Alvero",), "Who acquired Kelbrook?") == "right"
    assert verdict("Alvero, who acquired Kelbrook", ("Kelbrook",), "Who acquired Alvero?") != "right"
    assert verdict("Kelbrook acquired Alvero", ("Alvero",), "Who acquired Kelbrook?") == "undecided"
    assert verdict("Alvero was acquired by Kelbrook", ("Alvero",), "Who acquired Kelbrook?") == "undecided"
    assert verdict("Beate is Carl's manager", ("Carl",), "Who is Beate's manager?") == "undecided"
    assert verdict("Anna did not sign", ("Anna",), "Who did not sign?") == "right"
    for said in ("Anna signed", "Anna did", "It was not Anna"):
        assert verdict(said, ("Anna",), "Who did not sign?") == "undecided"


def test_naming_both_candidates_of_the_question_is_not_right():
    question = "Which budget is larger, that of Lotus or that of Harbor?"
    assert verdict("Harbor", ("Harbor",), question) == "right"
    for said in ("Lotus or Harbor", "Lotus, Harbor", "Lotus Harbor"):
        assert verdict(said, ("Harbor",), question) == "undecided"


def test_the_reasoning_says_what_was_found():
    assert decide("14 Mar", ("14 March", "March 14")).reasoning == "The answer says '14 March'."
    assert decide("15 March", ("14 March",)).reasoning == "The answer is another date than the reference."
    assert decide("€5", ("$5",)).reasoning == "The answer is in another currency than the reference."
    assert decide("n/a", ("unknown",)).reasoning == "The answer gives up, as the reference does."


@pytest.mark.parametrize(
    "said",
    [
        "I don't know",
        "I don’t know.",
        "Unknown",
        "N/A",
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
    assert gives_up(said)


@pytest.mark.parametrize(
    "said",
    [
        *("Lisbon", "No", "none", "Unknown Street 5", "knowledge", "", "He can meet on Friday", "Information desk"),
        *("I don't know, maybe Lisbon", "I could not find it, but it is 555-1234", "Bob did not find the file"),
    ],
)
def test_an_answer_is_not_taken_for_not_knowing(said):
    assert not gives_up(said)


def test_tokens_are_values_and_words_in_their_order():
    found = tokens("Tuesday, March 5, 2024 at 2:30 pm: -$4.2k a month (Room 0042)")
    assert [(token.kind, token.value) for token in found] == [
        ("weekday", "tuesday"),
        ("date", (2024, 3, 5)),
        ("word", "at"),
        ("time", (14, 30, 0, True)),
        ("money", ("usd", -4200)),
        ("word", "per"),
        ("word", "month"),
        ("word", "room"),
        ("word", "0042"),
    ]
    assert {token.kind for token in tokens("45 March, 25:10, 13/45/99")} <= {"word", "symbol", "month"}
    assert [token.value for token in tokens("3/4/99 31/12/2024")] == [(1999, 3, 4), (2024, 12, 31)]


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
    assert all(tokens(form) == (expected,) for form in forms)


@given(st.times())
def test_a_time_is_the_same_however_it_is_written(moment):
    twelve = f"{(moment.hour - 1) % 12 + 1}:{moment.minute:02}{'am' if moment.hour < 12 else 'pm'}"
    (one,), (other,) = tokens(f"{moment.hour:02}:{moment.minute:02}"), tokens(twelve)
    assert agrees(one, other)
    assert one.value[:2] == other.value[:2] == (moment.hour, moment.minute)


@given(st.integers(0, 10**12))
def test_a_number_is_the_same_however_it_is_written(number):
    assert tokens(f"{number:,}") == tokens(str(number)) == tokens(f"{number}.00") == (Token("number", number),)


@given(st.text(), st.text(), st.text())
def test_matching_takes_any_text(said, accepted, question):
    assert decide(said, (accepted,), question).verdict in Verdict
    assert gives_up(said) in (True, False)


@given(st.text(st.characters(categories=["L", "N"]), min_size=1, max_size=40))
def test_every_answer_says_itself(text):
    assert verdict(text, (text,)) == "right"

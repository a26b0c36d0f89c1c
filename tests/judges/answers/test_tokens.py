"""Values as tokens, however they are written."""

from hypothesis import given
from hypothesis import strategies as st

from judges.answers.matching import Verdict, decide
from judges.answers.tokens import Token, tokens


def test_tokens_are_values_and_words_in_their_order():
    found = tokens("Tuesday, March 5, 2024 at 2:30 pm: -$4.2k a month (Room 0042)")
    assert [(token.kind, token.value) for token in found] == [
        ("weekday", "tuesday"),
        ("date", (2024, 3, 5)),
        ("word", "at"),
        ("time", (14, 30, True)),
        ("money", ("usd", -4200)),
        ("word", "per"),
        ("word", "month"),
        ("word", "room"),
        ("word", "0042"),
    ]
    assert {token.kind for token in tokens("45 March, 25:10, 13/45/99")} <= {"word", "symbol", "month", "number"}
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
    assert decide(f"{moment.hour:02}:{moment.minute:02}", (twelve,)).verdict is Verdict.RIGHT
    assert one.value[:2] == other.value[:2] == (moment.hour, moment.minute)


@given(st.integers(0, 10**12))
def test_a_number_is_the_same_however_it_is_written(number):
    assert tokens(f"{number:,}") == tokens(str(number)) == tokens(f"{number}.00") == (Token("number", number),)

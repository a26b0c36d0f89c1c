"""Answers in the forms a mail would state them, with the other forms a reader would accept."""

from dataclasses import dataclass
from datetime import date

from email_env.demo.cast import Firm, Person
from email_env.demo.texts import THINGS
from email_env.scenarios.scenario import DONT_KNOW


@dataclass(frozen=True, slots=True)
class Value:
    """What a mail states about something.

    Attributes:
        text: The form in the mail, copied verbatim into the reference answer.
        accepted: Other right forms.
        rank: Number to compare by (amount in dollars, day number), 0 where there is no order.
    """

    text: str
    accepted: tuple[str, ...] = ()
    rank: int = 0


UNKNOWN = Value(DONT_KNOW, ("I do not know", "unknown", "not known"))


def short_date(day: date) -> str:
    """`14 March`."""
    return f"{day.day} {THINGS['months'][day.month - 1]}"


def long_date(day: date) -> str:
    """`14 March 2024`."""
    return f"{short_date(day)} {day.year}"


def _date_forms(day: date) -> tuple[str, ...]:
    month, weekday = THINGS["months"][day.month - 1], THINGS["weekdays"][day.weekday()]
    return (
        short_date(day),
        long_date(day),
        f"{month} {day.day}",
        f"{month} {day.day}, {day.year}",
        f"{weekday} {short_date(day)}",
        f"{weekday}, {short_date(day)}",
        day.isoformat(),
    )


def date_value(day: date, *, with_year: bool = False) -> Value:
    """A date, `14 March` or `14 March 2024`."""
    text = long_date(day) if with_year else short_date(day)
    return Value(text, tuple(form for form in _date_forms(day) if form != text), day.toordinal())


def weekday_value(day: date) -> Value:
    """A weekday; the date it stands for is accepted as well."""
    return Value(THINGS["weekdays"][day.weekday()], _date_forms(day), day.toordinal())


def time_value(hour: int, minute: int) -> Value:
    """A time of day on the 24-hour clock, `14:30`."""
    twelve, half = (hour - 1) % 12 + 1, "am" if hour < 12 else "pm"
    return Value(
        f"{hour}:{minute:02d}",
        (f"{twelve}:{minute:02d} {half}", f"{twelve}:{minute:02d}{half}", f"{hour:02d}.{minute:02d}"),
    )


def money_value(dollars: int) -> Value:
    """An amount, `$48,250`."""
    return Value(
        f"${dollars:,}",
        (f"{dollars:,}", str(dollars), f"${dollars}", f"{dollars:,} dollars", f"USD {dollars:,}"),
        dollars,
    )


def code_value(code: str) -> Value:
    """A code, number or label that has one form only."""
    bare = code.replace("-", "")
    return Value(code, (bare,) if bare != code else ())


def room_value(room: str) -> Value:
    """A room, `Room 204` or `Blue Room`."""
    return Value(room, (f"the {room}", room.replace("Room", "").strip()) if "Room" in room else (f"the {room}",))


def person_value(person: Person) -> Value:
    """A colleague; first or last name alone is enough within a mailbox."""
    return Value(person.name, (person.first, person.last, f"{person.last}, {person.first}"))


def firm_value(firm: Firm) -> Value:
    """A company; its first word is enough within a mailbox."""
    return Value(firm.name, (firm.stem,))


def cause_value(cause: str) -> Value:
    """A thing with its article, `a worn gasket`."""
    return Value(cause, (cause.removeprefix("a "), "the " + cause.removeprefix("a ")))

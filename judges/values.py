"""Text as atoms: words, and values that can be written in many ways (numbers, money, dates, times, weekdays).

``atoms("Tuesday, March 5, 2024 at 2:30 pm: $4.2k")`` is a weekday, the date 2024-03-05, the time 14:30, a currency and
the number 4200, with the words between them. What is not recognised stays a word. Dates with slashes are read as
month/day/year; where that cannot be, as day/month/year.
"""

from __future__ import annotations

import re
import unicodedata
from dataclasses import dataclass
from datetime import date
from decimal import Decimal
from enum import StrEnum


class Kind(StrEnum):
    """What an atom is."""

    WORD = "word"
    NUMBER = "number"
    CURRENCY = "currency"
    PERCENT = "percent"
    DATE = "date"
    """Value: (year or None, month, day)."""
    TIME = "time"
    """Value: (hour, minute, whether the half of the day is known)."""
    WEEKDAY = "weekday"


@dataclass(frozen=True, slots=True)
class Atom:
    """One word or one value. Compare with `agree`, which knows what a value may leave open."""

    kind: Kind
    value: object
    capital: bool = False
    """Whether a word was written with a capital: it may be a name."""


_MONTHS = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
_MONTH_PATTERN = (
    r"(?:jan(?:uary)?|feb(?:ruary)?|mar(?:ch)?|apr(?:il)?|may|june?|july?|aug(?:ust)?|sept?(?:ember)?|oct(?:ober)?"
    r"|nov(?:ember)?|dec(?:ember)?)\b\.?"
)
_WEEKDAYS = ("monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday")
_WEEKDAY_FORMS = {form: day for day in _WEEKDAYS for form in (day, day[:3])} | {
    "tues": "tuesday",
    "weds": "wednesday",
    "thur": "thursday",
    "thurs": "thursday",
}
_SMALL = (  # noqa: SIM905
    "zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen sixteen seventeen "
    "eighteen nineteen"
).split()
_TENS = ("twenty", "thirty", "forty", "fifty", "sixty", "seventy", "eighty", "ninety")
_SPELLED = {word: number for number, word in enumerate(_SMALL)} | {
    word: 10 * number for number, word in enumerate(_TENS, start=2)
}
_SCALES = {"k": 3, "thousand": 3, "m": 6, "mm": 6, "million": 6, "bn": 9, "billion": 9}
_CURRENCIES = {
    form: name
    for name, forms in {
        "USD": ("$", "us$", "usd", "dollar", "dollars"),
        "EUR": ("€", "eur", "euro", "euros"),
        "GBP": ("£", "gbp", "pound", "pounds"),
    }.items()
    for form in forms
}

_FIGURE = r"\d+(?:,\d{3})*(?:\.\d+)?"
_HALF_OF_DAY = r"\s*[ap]\.?m\b\.?"
_DAY = r"\d{1,2}(?:st|nd|rd|th)?"
_PATTERN = re.compile(
    "|".join(
        (
            r"(?P<address>[\w.+-]+@[\w-]+(?:\.[\w-]+)+)",
            r"(?P<iso>\b\d{4}-\d\d?-\d\d?\b)",
            rf"(?P<day_month>\b{_DAY}\s+(?:of\s+)?{_MONTH_PATTERN}(?:,?\s+\(?\d{{4}}\b)?)",
            rf"(?P<month_day>\b{_MONTH_PATTERN}\s+(?:the\s+)?{_DAY}\b(?![:.,]\d)(?:,?\s+\(?\d{{4}}\b(?!:))?)",
            r"(?P<slashes>\b\d\d?/\d\d?/(?:\d{4}|\d\d)\b(?!/))",
            rf"(?P<clock>\b\d\d?:\d\d(?::\d\d)?(?:{_HALF_OF_DAY}|\b)|\b\d\d?(?:\.\d\d)?{_HALF_OF_DAY})",
            r"(?P<currency>us\$|[$€£])",
            r"(?P<percent>%|\bpercent\b|\bper cent\b)",
            rf"(?P<spelled>\b(?:{'|'.join(_TENS)})[- ](?:{'|'.join(_SMALL[1:10])})\b)",
            rf"(?P<scaled>(?<![\w.]){_FIGURE}\s?(?:k|thousand|(?-i:M)|mm|million|bn|billion)\b)",
            rf"(?P<number>(?<![\w.-])-?{_FIGURE}(?![\w]|[.,]?\d))",
            r"(?P<ordinal>\b\d+(?:st|nd|rd|th)\b)",
            r"(?P<word>[^\W_]+(?:['’][^\W_]+)*)",
        )
    ),
    re.IGNORECASE,
)


def atoms(text: str) -> list[Atom]:
    """The atoms of a text in their order; punctuation is left out."""
    plain = unicodedata.normalize("NFKD", text)
    plain = "".join(char for char in plain if not unicodedata.combining(char))
    found: list[Atom] = []
    for match in _PATTERN.finditer(plain):
        kind, written = match.lastgroup or "word", match.group()
        atom = _value(kind, written.casefold())
        if atom is None:  # 13:75, 45 March: words, as written
            found += [_word(word, part=True) for word in re.findall(r"\w+", written)]
        else:
            found.append(_word(written) if atom.kind is Kind.WORD else atom)
    return found


def agree(one: Atom, other: Atom) -> bool:
    """Whether two atoms can mean the same: a year or a half of the day that is not said agrees with any."""
    if one.kind is not other.kind:
        return False
    if isinstance(one.value, tuple) and isinstance(other.value, tuple):
        if one.kind is Kind.DATE:
            same_year = one.value[0] == other.value[0] or None in (one.value[0], other.value[0])
            return same_year and one.value[1:] == other.value[1:]
        (hour, minute, known), (other_hour, other_minute, other_known) = one.value, other.value
        period = 24 if known and other_known else 12
        return minute == other_minute and hour % period == other_hour % period
    return one.value == other.value


def weekday_of(atom: Atom) -> str | None:
    """The weekday of a date whose year is known."""
    if atom.kind is not Kind.DATE or not isinstance(atom.value, tuple) or atom.value[0] is None:
        return None
    try:
        return _WEEKDAYS[date(*atom.value).weekday()]
    except ValueError:  # 31 June
        return None


def _word(written: str, *, part: bool = False) -> Atom:
    folded = written.casefold().replace("’", "'").removesuffix("'s")
    if not part:
        if folded in _CURRENCIES:
            return Atom(Kind.CURRENCY, _CURRENCIES[folded])
        if folded in _SPELLED:
            return Atom(Kind.NUMBER, Decimal(_SPELLED[folded]))
        if folded in _WEEKDAY_FORMS:
            return Atom(Kind.WEEKDAY, _WEEKDAY_FORMS[folded])
    return Atom(Kind.WORD, folded, capital=not written.islower() and not written.isdigit())


def _value(kind: str, text: str) -> Atom | None:
    """The value that a match of ``kind`` stands for; None where there is no such value (45 March)."""
    numbers = [int(digits) for digits in re.findall(r"\d+", text)]
    if kind in ("iso", "day_month", "month_day", "slashes"):
        return _date(kind, text, numbers)
    if kind == "clock":
        return _time(text, numbers)
    if kind == "currency":
        return Atom(Kind.CURRENCY, _CURRENCIES[text])
    if kind == "percent":
        return Atom(Kind.PERCENT, "%")
    if kind == "spelled":
        ten, unit = re.split(r"[- ]", text)
        return Atom(Kind.NUMBER, Decimal(_SPELLED[ten] + _SPELLED[unit]))
    if kind in ("number", "scaled"):
        figure = re.match(rf"-?{_FIGURE}", text)
        assert figure, "the pattern has a figure"
        if re.fullmatch(r"0\d+", figure.group()):  # an extension, a code: 0042 is not 42
            return Atom(Kind.WORD, text)
        scale = _SCALES.get(text[figure.end() :].strip(), 0)
        return Atom(Kind.NUMBER, Decimal(figure.group().replace(",", "")).scaleb(scale).normalize())
    if kind == "ordinal":
        return Atom(Kind.NUMBER, Decimal(numbers[0]))
    return Atom(Kind.WORD, text)


def _date(kind: str, text: str, numbers: list[int]) -> Atom | None:
    if kind == "iso":
        return _checked_date(numbers[0], numbers[1], numbers[2])
    if kind == "slashes":
        month, day, year = numbers
        if year < 100:
            year += 1900 if year >= 70 else 2000
        return _checked_date(year, month, day) or _checked_date(year, day, month)
    name = re.search(rf"(?:{'|'.join(_MONTHS)})", text)
    assert name, "the pattern has a month"
    return _checked_date(numbers[1] if len(numbers) > 1 else None, _MONTHS.index(name.group()) + 1, numbers[0])


def _checked_date(year: int | None, month: int, day: int) -> Atom | None:
    return Atom(Kind.DATE, (year, month, day)) if 1 <= month <= 12 and 1 <= day <= 31 else None


def _time(text: str, numbers: list[int]) -> Atom | None:
    hour, minute = numbers[0], numbers[1] if len(numbers) > 1 else 0
    half = re.search(r"([ap])\.?m", text)
    if hour > 23 or minute > 59 or (half and not 1 <= hour <= 12):
        return None
    if half:
        return Atom(Kind.TIME, (hour % 12 + 12 * (half.group(1) == "p"), minute, True))
    return Atom(Kind.TIME, (hour, minute, hour > 12 or hour == 0 or text.startswith("0")))

"""Text as tokens with values: words, and what can be written in many ways: numbers, dates, times, weekdays, currencies.

`tokens("Tuesday, March 5 at 2:30 pm: $4,200")` is a weekday, the date 5 March (of an unknown year), the time
14:30, a currency and the number 4200. Dates with slashes are read as month/day/year, as American mail writes
them. Articles and prepositions of time and place are left out.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import lru_cache

_MONTHS = "january february march april may june july august september october november december".split()  # noqa: SIM905
_MONTH = rf"(?:sept|{'|'.join(f'{name[:3]}(?:{name[3:]})?' for name in _MONTHS)})\b\.?"
_WEEKDAYS = {name[:3]: name for name in "monday tuesday wednesday thursday friday saturday sunday".split()}  # noqa: SIM905
_UNITS = (  # noqa: SIM905
    "zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen sixteen seventeen"
    " eighteen nineteen"
).split()
_TENS = "twenty thirty forty fifty sixty seventy eighty ninety".split()  # noqa: SIM905
_ORDINALS = (  # noqa: SIM905
    "first second third fourth fifth sixth seventh eighth ninth tenth eleventh twelfth thirteenth fourteenth fifteenth"
    " sixteenth seventeenth eighteenth nineteenth"
).split()
_NUMBER_WORDS = {
    **{word: number for number, word in enumerate(_UNITS)},
    **{word: number for number, word in enumerate(_ORDINALS, start=1)},
    **{word: ten for ten, word in zip(range(20, 100, 10), _TENS, strict=True)},
    **{f"{ten}{unit}": 10 * n + m for n, ten in enumerate(_TENS, 2) for m, unit in enumerate(_UNITS[:10]) if m},
    **{f"{ten}{unit}": 10 * n + m for n, ten in enumerate(_TENS, 2) for m, unit in enumerate(_ORDINALS[:9], 1)},
}
_SCALES = {"k": 3, "thousand": 3, "million": 6, "mm": 6, "billion": 9, "bn": 9}
_CURRENCIES = {
    "$": "usd", "usd": "usd", "dollar": "usd", "dollars": "usd", "us$": "usd",
    "€": "eur", "eur": "eur", "euro": "eur", "euros": "eur",
    "£": "gbp", "gbp": "gbp", "pound": "gbp", "pounds": "gbp",
}  # fmt: skip
_LEFT_OUT = frozenset({"a", "an", "the", "at", "on", "in", "of", "by", "s"})

_HALF = r"\s*[ap]\.?m\b\.?"
_DIGITS = r"(?<!\w)\d+(?:,\d{3})*(?:\.\d+)?"
_TOKEN = re.compile(
    "|".join(
        (
            r"(?P<iso>\b\d{4}-\d{1,2}-\d{1,2}\b)",
            rf"(?P<day_first>\b\d{{1,2}}(?:st|nd|rd|th)?\s+(?:of\s+)?{_MONTH}(?:,?\s+\d{{4}}\b)?)",
            rf"(?P<month_first>\b{_MONTH}\s+(?:the\s+)?\d{{1,2}}(?:st|nd|rd|th)?\b(?!:|[.,]\d)(?:,?\s+\d{{4}}\b(?!:))?)",
            r"(?P<slashed>\b\d{1,2}/\d{1,2}(?:/(?:\d{4}|\d{2}))?\b(?!/))",
            rf"(?P<clock>\b\d{{1,2}}[:h]\d{{2}}(?::\d{{2}})?(?:{_HALF}|\b)|\b\d{{1,2}}(?:\.\d{{2}})?{_HALF})",
            r"(?P<clock_word>\b(?:noon|midnight)\b)",
            rf"(?P<number>{_DIGITS}(?:st|nd|rd|th)?(?![^\W_])|{_DIGITS}(?=(?:k|mm|bn)\b))",
            r"(?P<currency>us\$|[$€£])",
            r"(?P<percent>%)",
            r"(?P<word>[^\W_]+)",
        )
    ),
    re.IGNORECASE,
)
_TEN_AND_UNIT = re.compile(
    rf"\b({'|'.join(_TENS)})[- ](?=(?:{'|'.join(_UNITS[1:10] + _ORDINALS[:9])})\b)", re.IGNORECASE
)
_DATE_TIME = re.compile(r"(?<=\d-\d\d)t(?=\d\d:)", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Token:
    """A token: `kind` is word, code (a word with a digit), number, date, time, weekday or currency.

    The value of a date is (year or None, month, day); of a time (hour, minute, whether the half of the day is
    known). `named` tells a word that is written with a capital; it does not count in comparisons.
    """

    kind: str
    value: object
    named: bool = field(default=False, compare=False)


def agrees(one: Token, other: Token) -> bool:
    """Whether two tokens can mean the same: a year or a half of the day that is not said agrees with any."""
    if one.kind != other.kind:
        return False
    if one.value == other.value:
        return True
    if isinstance(one.value, tuple) and isinstance(other.value, tuple):
        if one.kind == "date":
            return one.value[1:] == other.value[1:] and None in (one.value[0], other.value[0])
        (hour, minute, known), (other_hour, other_minute, other_known) = one.value, other.value
        halves_known = known and other_known
        return minute == other_minute and (hour == other_hour if halves_known else hour % 12 == other_hour % 12)
    return False


def specific(values: Iterable[Token]) -> list[Token]:
    """The tokens without those that say less than another one does (`14 March` beside `14 March 2024`)."""
    unique = list(dict.fromkeys(values))
    full = [token for token in unique if not _is_vague(token)]
    return [*full, *(t for t in unique if _is_vague(t) and not any(agrees(t, other) for other in full))]


def _is_vague(token: Token) -> bool:
    if not isinstance(token.value, tuple):
        return False
    return token.value[0] is None if token.kind == "date" else not token.value[2]


@lru_cache(maxsize=1024)
def tokens(text: str) -> tuple[Token, ...]:
    """The tokens of a text in their order."""
    plain = unicodedata.normalize("NFKD", text)
    plain = "".join(char for char in plain if not unicodedata.combining(char))
    plain = _TEN_AND_UNIT.sub(r"\1", _DATE_TIME.sub(" ", plain))
    found: list[Token] = []
    for match in _TOKEN.finditer(plain):
        kind = match.lastgroup or ""
        written = match[kind]
        folded = written.casefold()
        token = _READERS[kind](folded) or _word(folded)
        if token.kind == "word" and not written.islower():
            token = Token("word", token.value, named=True)
        if token.kind == "word" and token.value in _SCALES and found and found[-1].kind == "number":
            found[-1] = Token("number", _scaled(found[-1].value, str(token.value)))
        elif token.value not in _LEFT_OUT:
            found.append(token)
    return tuple(found)


def _word(text: str) -> Token:
    if text in _CURRENCIES:
        return Token("currency", _CURRENCIES[text])
    if text in _NUMBER_WORDS:
        return Token("number", str(_NUMBER_WORDS[text]))
    short = _WEEKDAYS.get(text[:3])
    if short and (text == short or text in (short[:3], short[:4], "thurs")):
        return Token("weekday", short)
    return Token("code" if any(map(str.isdigit, text)) else "word", text)


def _number(text: str) -> Token:
    digits = re.sub(r"(?:st|nd|rd|th)$", "", text.replace(",", ""))
    whole, _, part = digits.partition(".")
    part = part.rstrip("0")
    keep_zeros = whole.startswith("0") and not part  # a code, an extension: 0042 is not 42
    whole = whole if keep_zeros else whole.lstrip("0") or "0"
    return Token("number", f"{whole}.{part}" if part else whole)


def _scaled(number: object, scale: str) -> str:
    """The digits of `number` thousand, million, ..."""
    whole, _, part = str(number).partition(".")
    zeros = _SCALES[scale]
    digits = whole + part[:zeros].ljust(zeros, "0")
    rest = part[zeros:]
    return (digits.lstrip("0") or "0") + (f".{rest}" if rest else "")


def _iso(text: str) -> Token | None:
    year, month, day = map(int, text.split("-"))
    return _date(year, month, day)


def _named_month(text: str) -> Token | None:
    numbers = [int(number) for number in re.findall(r"\d+", text)]
    name = re.search(r"[a-z]{3}", re.sub(r"\d+(?:st|nd|rd|th)?|\bof\b|\bthe\b", " ", text))
    assert name, "the pattern has a month"
    month = next(index for index, full in enumerate(_MONTHS, start=1) if full.startswith(name[0]))
    return _date(numbers[1] if len(numbers) > 1 else None, month, numbers[0])


def _slashed(text: str) -> Token | None:
    first, second, *rest = map(int, text.split("/"))
    year = rest[0] if rest else None
    if year is not None and year < 100:
        year += 1900 if year >= 70 else 2000
    return _date(year, first, second) or _date(year, second, first)


def _date(year: int | None, month: int, day: int) -> Token | None:
    return Token("date", (year, month, day)) if 1 <= month <= 12 and 1 <= day <= 31 else None


def _clock(text: str) -> Token | None:
    numbers = [int(number) for number in re.findall(r"\d+", text)]
    hour, minute = numbers[0], numbers[1] if len(numbers) > 1 else 0
    half = re.search(r"([ap])\.?m", text)
    if hour > 23 or minute > 59 or (half and not 1 <= hour <= 12):
        return None
    if half:
        return Token("time", (hour % 12 + (12 if half[1] == "p" else 0), minute, True))
    return Token("time", (hour, minute, hour > 12 or hour == 0 or text.startswith("0")))


_READERS = {
    "iso": _iso,
    "day_first": _named_month,
    "month_first": _named_month,
    "slashed": _slashed,
    "clock": _clock,
    "clock_word": lambda text: Token("time", (12 if text == "noon" else 0, 0, True)),
    "number": _number,
    "currency": _word,
    "percent": lambda text: Token("word", "percent"),
    "word": _word,
}

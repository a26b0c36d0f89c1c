"""Text as tokens: words and symbols as they stand, and values that can be written in many ways.

`tokens("Tuesday, March 5 at 2:30 pm: -$4.2 million per month")` is a weekday, the date 5 March (of an unknown year),
the word `at`, the time 14:30, -4200000 USD, and the words `per` and `month`. Punctuation between words is left out.
What can change a value stays: signs, `+`, `#`, `>`, `?`, and the `A` of `plan A`. Dates with slashes are
month/day/year.

A dash before a figure is a sign, whatever dash it is and with or without a blank behind it, unless another figure
stands before it: `3-5` and `3 – 5` are ranges. What can be read in two ways is itself alone: `1.200` is no 1.2 and no
1200, `1.10` no 1.1, `0042` no 42.
"""

import re
import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from functools import lru_cache
from typing import Any

from judges.common.text import UNSEEN

AMOUNTS = ("number", "money", "percent")
POINTS = ("date", "month", "time", "weekday")
VALUES = (*AMOUNTS, *POINTS, "ordinal", "yes-no")
RATES = {"daily": "day", "weekly": "week", "monthly": "month", "annual": "year", "annually": "year", "yearly": "year"}


@dataclass(frozen=True, slots=True)
class Token:
    """A token. `matching` compares them; it knows what a value may leave open.

    Attributes:
        kind: word, symbol, or one of `VALUES`.
        value: what counts in a comparison: of a date (year or None, month, day); of a month (year or None, month); of
            a time (hour, minute, whether the half of the day is known); of money (currency, amount).
        written: as it was written.
    """

    kind: str
    value: Any
    written: str = field(default="", compare=False)

    @property
    def named(self) -> bool:
        """Whether a word is written with a capital, so that it may be a name."""
        return self.kind == "word" and not self.written.islower()


Tokens = Sequence[Token]

_PER = Token("word", "per", "per")
_MONTHS = "jan feb mar apr may jun jul aug sep oct nov dec".split()  # noqa: SIM905
WEEKDAYS = {day[:3]: day for day in "monday tuesday wednesday thursday friday saturday sunday".split()}  # noqa: SIM905
_ORDINALS = "first second third fourth fifth sixth seventh eighth ninth tenth eleventh twelfth".split()  # noqa: SIM905
_ONES = "one two three four five six seven eight nine".split()  # noqa: SIM905
_TEENS = "ten eleven twelve thirteen fourteen fifteen sixteen seventeen eighteen nineteen".split()  # noqa: SIM905
_TENS = "twenty thirty forty fifty sixty seventy eighty ninety".split()  # noqa: SIM905
_WORTH = {word: n for n, word in enumerate((*_ONES, *_TEENS), 1)} | {word: 10 * n for n, word in enumerate(_TENS, 2)}
_ZEROS = {"hundred": 2, "k": 3, "thousand": 3, "million": 6, "mm": 6, "m": 6, "billion": 9, "bn": 9, "b": 9}
_CURRENCIES = {
    "$": "usd", "us$": "usd", "dollar": "usd", "dollars": "usd", "€": "eur", "euro": "eur", "euros": "eur", "£": "gbp",
    "¥": "jpy", "yen": "jpy", "a$": "aud", "c$": "cad",
}  # fmt: skip
_UNITS = {
    "hr": "hour", "min": "minute", "sec": "second", "wk": "week", "mo": "month", "yr": "year", "lb": "pound",
    "ft": "foot", "feet": "foot", "mi": "mile", "kg": "kilogram", "km": "kilometer", "kilometre": "kilometer",
    "kW": "kilowatt", "MW": "megawatt", "GW": "gigawatt",
}  # fmt: skip

_WORDED = rf"\b(?:(?:{'|'.join(_TENS)})(?:[ -](?:{'|'.join(_ONES)}))?|{'|'.join(_TEENS)}|{'|'.join(_ONES)})\b"
_FIGURE = r"(?<![\w.,])(?:\d{1,3}(?:,\d{3})+(?:\.\d+)?|\d+(?:\.\d+)?|\.\d+)"
_MONTH = (
    r"\b(?:jan(?:uary)?|feb(?:ruary)?|mar(?:ch)?|apr(?:il)?|may|june?|july?|aug(?:ust)?|sept?(?:ember)?|oct(?:ober)?"
    r"|nov(?:ember)?|dec(?:ember)?)\b\.?"
)
_DAY = r"\b\d\d?(?:st|nd|rd|th)?"
_HALF = r" ?[ap]\.?m\b\.?"
_DATE = (
    rf"\b\d{{4}}-\d\d?-\d\d?\b|{_DAY}(?: (?:of )?|-){_MONTH}(?:,? \d{{4}}\b|-(?:\d{{4}}|\d\d)\b)?"
    rf"|{_MONTH} (?:the )?{_DAY}\b(?![:.,]\d)(?:,? \d{{4}}\b(?!:))?"
    r"|(?<![\w/.])\d\d?/\d\d?(?:/(?:\d{4}|\d\d))?\b(?![/%]|\.\d)"
)
_TIME = (
    rf"\b(?:12(?::00)? )?(?:noon|midnight)\b|\b\d\d?:\d\d(?:{_HALF}|\b)|\b\d\d?(?:\.\d\d)?{_HALF}"
    r"|\b\d\d? ?o'?clock\b"
)
_CURRENCY = r"(?:(?<![a-z])(?:us|a|c|nz|hk)?\$|[€£¥]|\b(?:usd|eur|gbp|jpy|aud|cad|chf|dollars?|euros?|yen)\b)"
_AMOUNT = (
    rf"(?P<sign>(?<![\w)%.,+-])(?<![\d%] )- ?(?!{_DATE}|{_TIME})|\bminus )?"
    rf"(?:(?P<currency>{_CURRENCY}) ?(?P<inner>- ?)?)?"
    rf"(?:(?P<figure>{_FIGURE})(?P<nth>(?:st|nd|rd|th)\b)?(?=[a-z]{{1,3}}\b|(?!\w|[.,]\d))|(?P<worded>{_WORDED}))"
    rf"(?: ?(?P<scale>k|hundred|thousand|million|billion|bn|(?:mm?|b)\b(?(currency)|(?= ?{_CURRENCY})))\b)?"
    rf"(?: ?(?P<percent>%|per ?cent\b)| ?(?P<behind>{_CURRENCY}))?"
)
_TOKEN = re.compile(
    rf"(?P<address>[\w.+-]{{1,80}}@[\w-]+(?:\.[\w-]+)+)|(?P<date>{_DATE})|(?P<month>{_MONTH}(?:,? \d{{4}}\b)?)"
    rf"|(?P<time>{_TIME})|(?P<phone>(?<![\w$€£¥-])(?:\(?\d{{3}}\)?[-./ ] ?)?\d{{3}}[- ]\d{{4}}(?![\w-]))"
    rf"|(?P<amount>{_AMOUNT})|(?P<dash>(?<!\w)-|-(?=\w))"
    r"|(?P<symbol>-|!(?=\w)|\((?= ?[-$€£¥]? ?[\d.,]+\))|\[ ?\]|(?<=\d)['\"]+(?!\w)"
    r"|(?<=\w)'s\b|[^\w\s.,;:!()\[\]{}\"'…。、「」『』《》])"
    r"|(?P<word>[^\W_]+(?:'(?!s\b)[^\W_]+)*)",
    re.IGNORECASE,
)
_NO_ARTICLE = "|".join((*_ORDINALS, "hour", "day", "week", "month", "year"))  # a third, $5 million a day
_WIDE = {0xFF01 + place: 0x21 + place for place in range(94)} | str.maketrans(
    "\u3000’‘`´“”«»−–—‐‑", " ''''" + 4 * '"' + "-----"
)
"""Letters and digits of the width of a Chinese character; quotes and dashes that mean the same."""
_REWRITES = [
    (re.compile(pattern), instead)
    for pattern, instead in (
        (rf"[{UNSEEN}]|\*\*|__|</?answer>", ""),
        (r"(?m)^\s*[-*•]\s+(?![-\d.$€£¥\s])", " "),  # of a list; before a figure it may be a sign
        (r"\s+", " "),
        (r"(?<!\w)([\"'])(.{0,200}?)\1(?!\w)", r"\2"),
        ("([A-Za-z\u0391-\u03a9\u03b1-\u03c9\u0415\u0435])[\u0300-\u036f]+", r"\1"),  # of Greek and of ё, too
        (r"\b(?![ap]\.m\.)(\w)\.(\w)\.(?:(\w)\.)?(?!\w)", r"\1\2\3"),  # U.S.
        (rf"\b[Tt]he (?=\S)|(?<![\d%kM] )\ban? (?!(?:{_NO_ARTICLE})\b)(?=\S)|^ ?An? (?=[a-z])", ""),
        (r"(?i)\b(?:approximately|approx\.?|roughly|circa)(?= [$€£¥]?\d)", "about"),
        (r"(?i)\bcan't\b|\bcannot\b", "can not"),
        (r"(?i)n't\b", " not"),
        (r"(?i)\b(it|that)'s\b", r"\1 is"),
        (r"&(?=\s)", " and "),
    )
]


@lru_cache(maxsize=4096)
def tokens(text: str) -> tuple[Token, ...]:
    """The tokens of a text in their order."""
    plain = unicodedata.normalize("NFD", text.translate(_WIDE))
    for pattern, instead in _REWRITES:
        plain = pattern.sub(instead, plain)
    plain = unicodedata.normalize("NFC", plain)
    found = [token for match in _TOKEN.finditer(plain) for token in _read(match)]
    return tuple(_with_ranges(_with_units(found)))


def items(text: str) -> list[tuple[Any, ...]]:
    """The names or single words of a list, sorted; nothing where an item is something else."""
    parts = [item for part in re.split(r"[,;\n]|\band\b|&", text) if (item := tokens(part))]
    names = all(token.named for item in parts for token in item)
    words = all(len(item) == 1 and item[0].kind == "word" for item in parts)
    return sorted(tuple(token.value for token in item) for item in parts) if names or words else []


def _read(match: re.Match[str]) -> list[Token]:
    """What a match stands for; a date or a time that cannot be is read as its parts."""
    kind, written = match.lastgroup or "", match.group()
    folded = written.casefold()
    if match["amount"]:
        return [_amount(match)]
    if kind in ("date", "month", "time"):
        token = _time(folded) if kind == "time" else _date(folded, written)
        parts = re.findall(r"\w+|[^\w\s.,]", written)
        return [token] if token else [Token("word", part.casefold(), part) for part in parts]
    if kind == "phone":
        return [Token("word", "-".join(re.findall(r"\d+", written)), written)]
    if kind in ("dash", "symbol"):
        return [Token(kind, folded, written)]
    return _words(kind, folded.replace("'", ""), written.replace("'", ""))


def _words(kind: str, folded: str, written: str) -> list[Token]:
    day = WEEKDAYS.get(folded[:3], "")
    if folded == day or (not written.islower() and folded in (day[:3], day[:4], day[:5])):
        return [Token("weekday", day, written)]
    if folded in _ORDINALS:
        return [Token("ordinal", _ORDINALS.index(folded) + 1, written)]
    if folded in ("yes", "no"):
        return [Token("yes-no", folded, written)]
    if kind == "word" and folded.isascii() and re.search(r"\d", folded):  # KX7PQ2 is KX7-PQ2
        parts = re.findall(r"\d+|\D+", written)
        return [_number(part) if part.isdigit() else Token("word", part.casefold(), part) for part in parts]
    return [Token("word", folded, written)]


def _amount(match: re.Match[str]) -> Token:
    currency = (match["behind"] or match["currency"] or "").casefold()
    zeros = _ZEROS[match["scale"].casefold()] if match["scale"] else 0
    is_negative = bool(match["sign"] or match["inner"])
    if match["nth"]:
        return Token("ordinal", int(re.sub(r"\D", "", match["figure"])), match.group())
    if match["worded"]:
        words = re.findall(r"[a-z]+", match["worded"].casefold())
        token = Token("number", Decimal(sum(_WORTH[word] for word in words)))
    else:
        token = _number(match["figure"], is_money=bool(currency), is_scaled=bool(zeros))
    if isinstance(token.value, Decimal):
        value = token.value.scaleb(zeros) * (-1 if is_negative else 1)
    else:
        value = "-" * is_negative + token.value
    if currency:
        return Token("money", (_CURRENCIES.get(currency, currency), value), match.group())
    return Token("percent" if match["percent"] else token.kind, value, match.group())


def _number(figure: str, *, is_money: bool = False, is_scaled: bool = False) -> Token:
    """A number as its value; as it is written where that may mean two things."""
    plain = figure.replace(",", "")
    whole, _, part = plain.partition(".")
    if len(whole) > 1 and whole.startswith("0"):  # a code, an extension
        return Token("word", plain, figure)
    ends_in_zero = part.strip("0") != "" and part.endswith("0") and not is_money
    may_be_other = not is_scaled and (len(part) == 3 or ends_in_zero)
    return Token("number", plain if may_be_other else Decimal(plain), figure)


def _date(text: str, written: str) -> Token | None:
    """A date, or a month with or without its year; a lower-case `may` is none."""
    figures = re.findall(r"\d+", text)
    name = re.search("|".join(_MONTHS), text)
    if name:
        figures.insert(0, str(next(n for n, month in enumerate(_MONTHS, 1) if month == name[0])))
    elif len(figures[0]) == 4:  # 2001-10-15
        figures = [*figures[1:], figures[0]]
    month, day, *years = map(int, figures if len(figures) > 1 else (*figures, 0))
    if len(figures) == 1 or len(figures[1]) == 4:
        return None if not day and written.islower() else Token("month", (day or None, month), written)
    if month > 12:
        month, day = day, month
    year = years[0] if years else None
    if year is not None and len(figures[2]) == 2:
        year += 1900 if year >= 70 else 2000
    return Token("date", (year, month, day), written) if 1 <= month <= 12 and 1 <= day <= 31 else None


def _time(text: str) -> Token | None:
    hour, minute = [*map(int, re.findall(r"\d+", text)), 0, 0][:2]
    half = re.search(r"([ap])\.?m|noon|midnight", text)
    if hour > 23 or minute > 59 or (half and half[1] and not 1 <= hour <= 12):
        return None
    if half:
        return Token("time", (hour % 12 + 12 * (half[0] == "noon" or half[1] == "p"), minute, True), text)
    return Token("time", (hour, minute, hour > 12 or text.startswith("0")), text)


def _with_units(found: list[Token]) -> list[Token]:
    """Rates and units behind amounts in one form: `$5/day` and `$5 daily` are `$5 per day`, hrs are hour."""
    out: list[Token] = []
    for token in found:
        behind_amount = bool(out) and (out[-1].kind in AMOUNTS or out[-1].value == "many")
        behind_unit = len(out) > 1 and out[-2].kind in AMOUNTS and out[-1].kind == "word"
        if token.value in ("per", "a", "an", "each", "every", "/") and (behind_amount or behind_unit):
            token = _PER
        elif token.kind == "word" and behind_amount and token.value in RATES:
            out.append(_PER)
            token = Token("word", RATES[token.value], token.written)
        elif token.kind == "word" and (behind_amount or out[-1:] == [_PER]):
            token = _unit(token)
        out.append(token)
    return out


def _unit(token: Token) -> Token:
    """A unit in the singular and in full. The case of a short one counts: MW is no mW."""
    word = str(token.value)
    single = word[:-1] if len(word) > 2 and word.endswith("s") and not word.endswith("ss") else word
    full = _UNITS.get(token.written) or _UNITS.get(single) or (token.written if len(word) < 4 else single)
    return Token("word", full, token.written)


def _with_ranges(found: Sequence[Token]) -> list[Token]:
    """`from 5 to 9`, `5-9` and `between 5 and 9` with one symbol between the ends; other dashes say nothing."""
    out: list[Token] = []
    for place, token in enumerate(found):
        ends = (found[place - 1], found[place + 1]) if 0 < place < len(found) - 1 else ()
        spans = bool(ends) and all(end.kind in (*AMOUNTS, *POINTS) for end in ends)
        opens = out[-2].value if len(out) > 1 else ""
        ties = token.kind == "dash" or token.value in ("to", "through", "until", "till")
        if spans and (ties or (token.value == "and" and opens == "between")):
            if opens in ("from", "between"):
                del out[-2]
            token = Token("symbol", "to", token.written)
        if token.kind != "dash":
            out.append(token)
    return out

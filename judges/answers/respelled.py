"""A reference in other spellings of the same: `500 MW` is `500 megawatts`, `Q3 2001` the third quarter of 2001.

Only what has one meaning is here. So `500 mw` is not (milliwatts?), nor a name without its initial (another person?),
nor a second legal form: Dynegy is Dynegy Inc., but Dynegy Corp. may be another company, as Dynegy Holdings is.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

_WATTS = {"kilo": "kW", "mega": "MW", "giga": "GW"}
_FEET = {"thousand": "Mcf", "million": "MMcf", "billion": "Bcf", "trillion": "Tcf"}
_QUARTERS = ("first", "second", "third", "fourth")
_STREETS = {"St": "Street", "Ave": "Avenue", "Blvd": "Boulevard", "Rd": "Road", "Dr": "Drive", "Ln": "Lane"}
_COMPANIES = {"Inc": "Incorporated", "Corp": "Corporation", "Co": "Company", "Ltd": "Limited"}
_LONG = {short.casefold(): full for full, short in _FEET.items()} | {v: f"{k}watt" for k, v in _WATTS.items()}
_SHORT = {full: short for table in (_STREETS, _COMPANIES) for short, full in table.items()}
_HOUSE = r"(\b\d+[A-Z]?(?: [NSEW]\.?)?(?: [A-Z][\w'-]*| \d+(?:st|nd|rd|th)){1,3} )"
"""The number of a house and the name of its street: what follows it is no saint and no doctor."""

_SPELLINGS = (
    (re.compile(r"(?i)\bbasis points?\b"), lambda m: "bp"),
    (re.compile(r"(?i)(?<=\d)\s?bps?\b"), lambda m: " basis points"),
    (
        re.compile(rf"(?i)\b({'|'.join(_WATTS)})watts?(?:([- ]?)hours?)?\b"),
        lambda m: _WATTS[m[1].casefold()] + "h" * (m[2] is not None),
    ),
    (
        re.compile(r"(\d|/|\bper)\s?(kW|MW|GW)(h?)\b"),
        lambda m: f"{m[1]} {_LONG[m[2]]}{' hour' if m[3] else ''}{'s' * m[1].isdigit()}",
    ),
    (re.compile(rf"(?i)\b({'|'.join(_FEET)}) cubic f(?:ee|oo)t\b"), lambda m: _FEET[m[1].casefold()]),
    (re.compile(r"(?i)(?<=\d)\s?(mm?cf|[bt]cf)\b"), lambda m: f" {_LONG[m[1].casefold()]} cubic feet"),
    (re.compile(r"(?i)(?<=\d)\s?bbls?\b"), lambda m: " barrels"),
    (re.compile(r"(?i)(?<=\d)\s?barrels?\b"), lambda m: " bbl"),
    (re.compile(r"(?<![\w-])Q([1-4])(?![\w-])"), lambda m: f"{_QUARTERS[int(m[1]) - 1]} quarter"),
    (
        re.compile(r"(?i)\b(first|second|third|fourth|([1-4])(?:st|nd|rd|th)) quarter\b"),
        lambda m: f"Q{m[2] or _QUARTERS.index(m[1].casefold()) + 1}",
    ),
    (re.compile(rf"{_HOUSE}({'|'.join(_STREETS)})\b\.?(?=,|$)"), lambda m: m[1] + _STREETS[m[2]]),
    (re.compile(rf"{_HOUSE}({'|'.join(_STREETS.values())})(?=,|$)"), lambda m: m[1] + _SHORT[m[2]]),
    (re.compile(rf"(?<=\w) ({'|'.join(_COMPANIES)})$"), lambda m: f" {_COMPANIES[m[1]]}"),
    (re.compile(rf"(?<=\w) ({'|'.join(_COMPANIES.values())})$"), lambda m: f" {_SHORT[m[1]]}"),
    (re.compile(r"^\(?([2-9]\d\d)(?:\)|[-./ ])\s?(\d{3})[-. ](\d{4})$"), lambda m: m[1] + m[2] + m[3]),
    (re.compile(r"^([2-9]\d\d)(\d{3})(\d{4})$"), lambda m: f"{m[1]}-{m[2]}-{m[3]}"),
)
_LEGAL = re.compile(
    r"([A-Z][\w&'.-]+(?: [\w&'.-]+)*?),? (?:Inc|Incorporated|Corp|Corporation|Ltd|plc|LLC|L\.L\.C|LLP|LP|L\.P)"
)
"""A company with its legal form. `Co.` and `Company` may be more: the Gas Company is no gas."""


def respelled(reference: str, question: str = "") -> Iterator[str]:
    """The reference's other spellings, each with one kind of word changed.

    Args:
        reference: a right answer.
        question: what was asked. If it names the company itself, it may ask for which one of that name.
    """
    text = reference.strip().removesuffix(".")
    for pattern, instead in _SPELLINGS:
        other = pattern.sub(instead, text)
        if other != text:
            yield other
    company = _LEGAL.fullmatch(text)
    if company and company[1].casefold() not in question.casefold():
        yield company[1]

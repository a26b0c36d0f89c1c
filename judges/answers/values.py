"""Text as tokens: words and symbols as they stand, and values that can be written in many ways.

`tokens("Tuesday, March 5 at 2:30 pm: -$4.2 million a month")` is a weekday, the date 5 March (of an unknown year), the
word `at`, the time 14:30, -4200000 USD, and the words `per` and `month`. Punctuation between words is left out. What
can change a value stays: signs, `+`, `#`, `>`, `?`, and the `A` of `plan A`. Dates with slashes are month/day/year,
those with points day.month.year. Months may be German, French or Spanish beside a day or a year (30. Juni, 1er mai).

`1,200` is a thousand. So are `1'200` and, with a blank that keeps a line together, `1 200`. `1.200` is a decimal, but a
thousand in `1.200,50` and before euros or francs, where three decimals are rare. `3,5` is a decimal beside these and
before a percent sign; elsewhere it may be two numbers.
"""

from __future__ import annotations

import re
import unicodedata
from decimal import Decimal
from functools import lru_cache

from judges.common.text import UNSEEN

from .joined import joined
from .token import AMOUNTS, Token

_MONTHS = "january february march april may june july august september october november december".split()  # noqa: SIM905
_MONTH = rf"(?:sept|{'|'.join(f'{name[:3]}(?:{name[3:]})?' for name in _MONTHS)})\b\.?"
_ABROAD = {
    "januar": 1, "janvier": 1, "enero": 1, "februar": 2, "fevrier": 2, "febrero": 2, "marz": 3, "mars": 3, "marzo": 3,
    "april": 4, "avril": 4, "abril": 4, "mai": 5, "mayo": 5, "juni": 6, "juin": 6, "junio": 6, "juli": 7, "juillet": 7,
    "julio": 7, "august": 8, "aout": 8, "agosto": 8, "september": 9, "septembre": 9, "septiembre": 9, "oktober": 10,
    "octobre": 10, "octubre": 10, "november": 11, "novembre": 11, "noviembre": 11, "dezember": 12, "decembre": 12,
    "diciembre": 12,
}  # fmt: skip
"""Months in German, French and Spanish, without accents: read beside a day or a year."""
WEEKDAYS = "monday tuesday wednesday thursday friday saturday sunday".split()  # noqa: SIM905
_WEEKDAY_FORMS = {f: d for d in WEEKDAYS for f in (d, d[:3])} | {
    "tues": "tuesday", "weds": "wednesday", "thur": "thursday", "thurs": "thursday",
}  # fmt: skip
_ORDINALS = "first second third fourth fifth sixth seventh eighth ninth tenth eleventh twelfth".split()  # noqa: SIM905
_CURRENCIES = {
    "$": "usd", "us$": "usd", "dollar": "usd", "dollars": "usd", "€": "eur", "euro": "eur", "euros": "eur", "£": "gbp",
    "¥": "jpy", "yen": "jpy", "a$": "aud", "au$": "aud", "c$": "cad", "ca$": "cad", "₹": "inr",
}  # fmt: skip

_FIGURE = r"(?:\d{1,3}(?:,\d{3})+(?:\.\d+)?|\d+(?:\.\d+)?|\.\d+)"
_HALF = r"\s*[ap]\.?m\b\.?"
_DAY = r"\d{1,2}(?:st|nd|rd|th)?"
_SHORT_YEAR = r",?\s*'\d\d\b(?!')"
_TOKEN = re.compile(
    "|".join(
        (
            r"(?P<address>[\w.+-]+@[\w-]+(?:\.[\w-]+)+)",
            r"(?P<iso>\b\d{4}(?:-\d\d?-|/\d\d?/)\d\d?\b)",
            rf"(?P<day_first>\b{_DAY}(?:\s+(?:of\s+)?|-){_MONTH}(?:,?\s+\(?\d{{4}}\b|-(?:\d{{4}}|\d\d)\b|{_SHORT_YEAR})?)",
            rf"(?P<month_first>\b{_MONTH}\s+(?:the\s+)?{_DAY}\b(?![:.,]\d|,\d)(?:,?\s+\(?\d{{4}}\b(?!:)|{_SHORT_YEAR})?)",
            rf"(?P<month>\b{_MONTH}(?:,?\s+(?:of\s+)?\d{{4}}\b|{_SHORT_YEAR})?)",
            r"(?P<points>(?<![\w.])\d\d?\.\d\d?\.\d{4}\b(?!\.\d))",
            r"(?P<slashed>(?<![\w/.])\d\d?/\d\d?(?:/(?:\d{4}|\d\d))?\b(?![/%]|\.\d))",
            r"(?P<clock_word>\b(?:12(?::00)?\s+)?(?:noon|midnight)\b)",
            rf"(?P<clock>\b\d\d?[:h]\d\d(?::\d\d)?(?:{_HALF}|\b)|\b\d\d?(?:\.\d\d)?{_HALF}|\b\d\d?\s?o'?clock\b)",
            r"(?P<dotted>\bv?\d+(?:\.\d+){2,}\w*|\b(?!\d+\.\d+[a-z]{1,3}\b)(?=[\w-]*[a-z])[\w-]+(?:\.[\w-]+)+)",
            r"(?P<currency>(?<![a-z])(?:us|au?|ca?|nz|hk|s|r|mx)?\$|[€£¥₹]"
            r"|\b(?:usd|eur|gbp|jpy|aud|cad|chf|inr|dollars?|euros?|yen)\b)",
            r"(?P<sign>(?:^|(?<=[\s(:;,=$€£¥₹]))-(?=[$€£¥₹]|\.?\d|(?:us|au?|ca?)\$|(?<!\d -)\s[$€£¥₹]))",
            rf"(?P<number>(?<![\w.,]){_FIGURE}(?:st|nd|rd|th)?(?=[a-z]{{1,3}}\b|(?!\w|[.,]\d)))",
            r"(?P<percentage>%|\bper ?cent\b|\bprozent\b)",
            r"(?P<symbol>(?<=\w)-(?=[\s.,;:)!]|$)|!(?=\w)|\((?=\s?[-$€£¥₹]\s?\d))",
            r"(?P<dash>[-–—])",
            r"(?P<owner>(?<=\w)'s\b)",
            r"(?P<word>[^\W_]+(?:'(?!s\b)[^\W_]+)*)",
            r"(?P<other>[^\s.,;:!()\[\]{}\"'_…])",
        )
    ),
    re.IGNORECASE,
)
_WIDE = {0xFF01 + place: 0x21 + place for place in range(94)} | str.maketrans("\u3000。、「」『』《》", ' .,""""""')
"""Letters, digits and marks of the width of a Chinese character, and the marks that only such text has."""
_START, _BLANK = r"(?<![\w.,'])", "['\u00a0\u2009\u202f]"
_EURO = r"(?:€|\b(?:eur|euros?|chf)\b)"


def _without_groups(match: re.Match[str]) -> str:
    return re.sub(r"\D", "", match[0])


_WRITTEN = (
    (re.compile(r"[’‘`´]"), "'"),
    (re.compile(r"[“”«»]|\*\*|__"), '"'),
    (re.compile("−"), "-"),
    (re.compile(r"(?<=\d)[.,][-–—]+(?!\d)"), ""),  # 50,- and 50.—
    (re.compile(f"[{UNSEEN}]"), ""),
    (re.compile(rf"{_START}[1-9]\d{{0,2}}(?:{_BLANK}\d{{3}})+(?!{_BLANK}?\d)"), _without_groups),
    (re.compile(rf"{_START}(\d{{1,3}}(?:\.\d{{3}})+),(\d\d?)(?!\d)"), lambda m: f"{m[1].replace('.', '')}.{m[2]}"),
    (re.compile(rf"(?i){_START}[1-9]\d{{0,2}}(?:[. ]\d{{3}})+(?=\s?{_EURO})"), _without_groups),
    (re.compile(rf"(?i){_START}(\d+),(\d\d?)(?=\s?(?:%|prozent\b|mio\b|mrd\b|{_EURO}))"), r"\1.\2"),
    (re.compile(rf"(?i)({_EURO}\s?\d+),(\d\d?)(?![\d,])"), r"\1.\2"),
    (re.compile(r"(?<![\w#])#:?\s*(?=\d)"), " "),  # a number's sign, not that of C#
    (re.compile(r"<([\w.+-]+@[\w.-]+|(?:https?://|www\.)[^\s<>]+)>"), r" \1 "),
    (re.compile(r"(?i)\b(?:mailto:|https?://(?:www\.)?|www\.)([^\s<>\"']*\w)/?"), r"\1"),
    (
        re.compile(r"(?<![\w.,+$€£-])(?:\+?1[-. ]\s?)?\(?(\d{3})\)?[-./ ]\s?(\d{3})[-. ](\d{4})(?![\w-]|[.,]\d)"),
        r"\1-\2-\3",  # a phone number of America
    ),
    (re.compile(r"(?<![\w.,)])\+1[-. ]?(?=[2-9]\d{9}(?!\d))"), ""),  # +17135550142
    (re.compile(r"(?m)^\s*[-*•]\s+"), " "),
    (re.compile(r"\[ \]"), " ☐ "),  # a box without its tick
    (re.compile(r"(?ms)^[ \t]*1[.)][ \t]+(?=.*^[ \t]*2[.)] )|(?<=\n)[ \t]*(?:[2-9]|1\d)[.)][ \t]+"), " "),
    (re.compile("([A-Za-z\u0391-\u03a9\u03b1-\u03c9\u0415\u0435])[\u0300-\u036f]+"), r"\1"),  # of Greek, and of ё, too
    (
        re.compile(
            rf"(?i)(?<![\w.,/-])(\d\d?)(?:\.|er)?\s+(?:de\s+)?({'|'.join(_ABROAD)})\b(?:\s+de(?=\s+\d{{4}}\b))?"
        ),
        lambda m: f"{m[1]} {_MONTHS[_ABROAD[m[2].casefold()] - 1]}",
    ),
    (
        re.compile(rf"(?i)\b(?!mars\b)({'|'.join(_ABROAD)})\s+(?:de\s+)?(?=\d{{4}}\b)"),
        lambda m: f"{_MONTHS[_ABROAD[m[1].casefold()] - 1].title()} ",
    ),
    (re.compile(r"(?i)(?<![\w.:,])(\d\d?)(?:[:.](\d\d))? ?Uhr\b"), lambda m: f"{m[1]}:{m[2] or '00'}"),
    (re.compile(r"(?i)</?(?:final[_ -]?)?answer>"), " "),
    (re.compile(r"(?i),? as well as "), " and "),
    (re.compile(r"(?<=\d-\d\d)T(?=\d\d:)"), " "),
    (re.compile(r"\b((?:[A-Za-z]\.){2,})(?!\w)"), lambda m: m[1].replace(".", "") if m[1][1:2] == "." else m[1]),
    (re.compile(r"(?i)\bcan't\b|\bcannot\b"), "can not"),
    (re.compile(r"(?i)n't\b"), " not"),
    (re.compile(r"(?i)\b(it|that|there|what|who|where|when|he|she)'s\b"), r"\1 is"),
    (re.compile(r"&(?=\s)"), " and "),
    (re.compile(r"(?i)(?<!\bnot )\bboth (?=\w+(?: \w+){0,2} and \w)"), ""),
    (re.compile(r"(?i)\b(quarter|Q[1-4]) of (?=\d{4}\b)"), r"\1 "),
    (re.compile(r"(?i)(\d\s?(?:mm?cf|[bt]cf)(?=d\b)|\d\s?[a-z]+(?: cubic feet)?(?=/d\b))/?d"), r"\1 per day"),
)


@lru_cache(maxsize=2048)
def tokens(text: str) -> tuple[Token, ...]:
    """The tokens of a text in their order."""
    plain = unicodedata.normalize("NFD", text.translate(_WIDE))
    for pattern, instead in _WRITTEN:
        plain = pattern.sub(instead, plain)
    plain = unicodedata.normalize("NFC", plain)
    found: list[Token] = []
    for match in _TOKEN.finditer(plain):
        kind, written = match.lastgroup or "", match.group()
        if kind == "word" and written.casefold() in ("a", "an", "the") and _is_article(plain, match, found):
            continue
        found += _read(kind, written)
    return tuple(joined(found))


def _is_article(plain: str, match: re.Match[str], found: list[Token]) -> bool:
    """Whether `a` is an article, not the name of plan A, and not the rate of `$5 a month`."""
    follows = re.match(r"[ \n]+[\"'(]*(\w+)", plain[match.end() :])
    if not follows or (match.group() == "a" and follows[1].casefold() in _ORDINALS):  # a third
        return False
    word = match.group()
    if word.casefold() == "the":
        return True
    rate = any(token.kind in (*AMOUNTS, "currency") for token in found[-2:])
    return not rate and (word.islower() or (not found and follows[1][0].islower()))


def _read(kind: str, written: str) -> list[Token]:
    """What one match stands for; a date or a time that cannot be is read as its parts."""
    folded = written.casefold()
    if kind in ("iso", "day_first", "month_first", "slashed", "points", "month", "clock"):
        token = _clock(folded) if kind == "clock" else _date(kind, folded, written)
        if token:
            return [token]
        return [Token("word", part.casefold(), part) for part in re.findall(r"\w+|[^\w\s.,]", written)]
    if kind == "clock_word":
        return [Token("time", (12 if folded.endswith("noon") else 0, 0, 0, True), written)]
    if kind == "currency":
        return [Token("currency", _CURRENCIES.get(folded, folded), written)]
    if kind == "number":
        return [_number(folded)]
    if kind in ("sign", "dash", "percentage"):
        return [Token(kind, folded, written)]
    if kind in ("symbol", "other", "owner"):
        return [Token("symbol", "'s" if kind == "owner" else folded, written)]
    return _words(kind, folded.replace("'", ""), written.replace("'", ""))


def _words(kind: str, folded: str, written: str) -> list[Token]:
    if folded in _WEEKDAY_FORMS and (len(folded) > 5 or not written.islower()):
        return [Token("weekday", _WEEKDAY_FORMS[folded], written)]
    if folded in _ORDINALS:
        return [Token("ordinal", _ORDINALS.index(folded) + 1, written)]
    if folded in ("yes", "no"):
        return [Token("yes-no", folded, written)]
    if kind == "word" and folded.isascii() and re.search(r"\d", folded):  # KX7PQ2 is KX7-PQ2
        return [_number(p) if p.isdigit() else Token("word", p.casefold(), p) for p in re.findall(r"\d+|\D+", written)]
    return [Token("word", folded, written)]


def _number(text: str) -> Token:
    digits = text.replace(",", "")
    if digits[-2:] in ("st", "nd", "rd", "th"):
        return Token("ordinal", int(digits[:-2]) if digits[:-2].isdigit() else digits, text)
    whole, _, part = digits.partition(".")
    if len(whole) > 1 and whole.startswith("0"):  # a code, an extension: 0042 is not 42
        return Token("word", digits, text)
    return Token("number", Decimal(digits), text, part if part.strip("0") else "")


def _date(kind: str, text: str, written: str) -> Token | None:
    figures = re.findall(r"\d+", text)
    numbers = [*map(int, figures)]
    if kind == "iso":
        return _checked(numbers[0], numbers[1], numbers[2], written)
    if kind == "slashed":
        year = _year(figures[2:])
        return _checked(year, numbers[0], numbers[1], written) or _checked(year, numbers[1], numbers[0], written)
    if kind == "points":
        day, month, year = numbers
        return _checked(year, month, day, written) or _checked(year, day, month, written)
    name = re.search(r"[a-z]{3,}", re.sub(r"\d+(?:st|nd|rd|th)?|\bof\b|\bthe\b", " ", text))
    assert name, "the pattern has a month"
    month = next(number for number, full in enumerate(_MONTHS, 1) if full.startswith(name[0][:3]))
    if kind != "month":
        return _checked(_year(figures[1:]), month, numbers[0], written)
    if not numbers and written[0].islower() and name[0] in ("may", "march", "mar", "jan", "dec"):
        return None
    return Token("month", (_year(figures), month), written)


def _year(figures: list[str]) -> int | None:
    """The first of the figures, if there is one; of two digits it is a year from 1970 on."""
    year = int(figures[0]) if figures else None
    return year if year is None or len(figures[0]) > 2 else year + (1900 if year >= 70 else 2000)


def _checked(year: int | None, month: int, day: int, written: str) -> Token | None:
    fits = 1 <= month <= 12 and 1 <= day <= 31
    return Token("date", (year, month, day), written) if fits else None


def _clock(text: str) -> Token | None:
    hour, minute, second = ([int(digits) for digits in re.findall(r"\d+", text)] + [0, 0])[:3]
    half = re.search(r"([ap])\.?m", text)
    if hour > 23 or minute > 59 or second > 59 or (half and not 1 <= hour <= 12):
        return None
    if half:
        return Token("time", (hour % 12 + 12 * (half[1] == "p"), minute, second, True), text)
    return Token("time", (hour, minute, second, hour > 12 or hour == 0 or text.startswith("0")), text)

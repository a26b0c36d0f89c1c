"""Tokens joined to values: number words, signs, currencies, percent, rates, units and ranges."""

from __future__ import annotations

from decimal import Decimal

from .token import AMOUNTS, DASHED, POINTS, RANGE, RATES, Token

_SMALL = (  # noqa: SIM905
    "zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen sixteen seventeen"
    " eighteen nineteen"
).split()
_TENS = "twenty thirty forty fifty sixty seventy eighty ninety".split()  # noqa: SIM905
_SPELLED = {w: n for n, w in enumerate(_SMALL)} | {w: 10 * n for n, w in enumerate(_TENS, 2)}
_SCALES = {
    "hundred": 2, "k": 3, "thousand": 3, "m": 6, "mm": 6, "mio": 6, "million": 6, "b": 9, "bn": 9, "mrd": 9,
    "billion": 9, "trillion": 12,
}  # fmt: skip
_SHORT_SCALES = ("m", "mm", "b")  # of money; else metres, or bytes
_UNITS = {
    "hr": "hour", "min": "minute", "sec": "second", "wk": "week", "mo": "month", "yr": "year", "lb": "pound",
    "ft": "foot", "feet": "foot", "kg": "kilogram", "km": "kilometer", "kilometre": "kilometer",
}  # fmt: skip
_PER = ("per", "a", "an", "each", "every", "/")
_CASED = {"mw", "kw", "gw", "mb", "kb", "gb", "tb", "mm", "m"}


def joined(found: list[Token]) -> list[Token]:
    """The tokens as they were read, with those that are one value joined."""
    return _ranges(_amounts(_spelled(found)))


def _spelled(found: list[Token]) -> list[Token]:
    """Number words as numbers (three hundred and fifty), and scales behind numbers (4.2 million)."""
    out: list[Token] = []
    place = 0
    while place < len(found):
        token = found[place]
        place += 1
        word = token.value if token.kind == "word" else None
        if word not in _SPELLED and token.kind != "number":
            out.append(token)
            continue
        spelled = word in _SPELLED
        total, part = Decimal(0), Decimal(_SPELLED[word]) if spelled else token.value
        digits = token.digits
        while place < len(found):
            after = found[place].value if found[place].kind == "word" else None
            joined = after == "and" and spelled and place + 1 < len(found) and found[place + 1].value in _SPELLED
            if after in _SCALES and (after not in _SHORT_SCALES or _of_money(out[-1:], found[place + 1 : place + 2])):
                scaled = part.scaleb(_SCALES[after])
                _scale_beginning(out, part, _SCALES[after])
                total, part = (total, scaled) if after == "hundred" and spelled else (total + scaled, Decimal(0))
                digits = ""
                if not spelled:
                    place += 1
                    break
            elif spelled and joined and (total or part >= 100):
                pass
            elif spelled and after in _SPELLED and total + part and _goes_on(part, _SPELLED[after]):
                part += _SPELLED[after]
            elif spelled and found[place].kind == "dash" and part and part % 10 == 0 and 20 <= part % 100 <= 90:
                pass
            else:
                break
            place += 1
        out.append(Token("number", total + part, token.written, digits))
    return out


def _scale_beginning(out: list[Token], end: Decimal, zeros: int) -> None:
    """Of `5 to 10 million`, 5 is millions, too, unless it is more than the other figure."""
    at = len(out) - (3 if out and out[-1].kind == "currency" else 2)
    if at < 0 or out[at].kind != "number" or out[at].value >= end:
        return
    if _ties(out[at + 1]) or (out[at + 1].value == "and" and "between" in [t.value for t in out[max(0, at - 2) : at]]):
        out[at] = Token("number", out[at].value.scaleb(zeros), out[at].written)


def _of_money(before: list[Token], after: list[Token]) -> bool:
    """Whether a number and its scale stand behind a currency or before one."""
    return any(t.kind in ("currency", "sign") for t in before) or any(t.kind == "currency" for t in after)


def _goes_on(part: Decimal, then: int) -> bool:
    """Whether a number word goes on with the next one: twenty-five, three hundred twelve, four thousand two."""
    return part % 100 == 0 if then >= 10 else part % 10 == 0 and part % 100 != 10


def _amounts(found: list[Token]) -> list[Token]:
    """Signs, currencies and percent joined with their numbers; rates and units in one form."""
    out: list[Token] = []
    for token in found:
        last, before = (out[-1] if out else None), (out[-2] if len(out) > 1 else None)
        if token.kind == "number":
            value, currency = token.value, None
            while out and out[-1].kind in ("sign", "currency"):
                sign = out.pop()
                value, currency = (-value, currency) if sign.kind == "sign" else (value, sign.value)
            token = (
                Token("money", (currency, value), token.written)
                if currency
                else Token("number", value, token.written, token.digits)
            )
        elif token.kind == "currency" and last and last.kind in ("number", "money"):
            known, value = last.value if last.kind == "money" else ("usd", last.value)
            if known in (token.value, "usd"):
                out[-1] = Token("money", (token.value, value), last.written)
                continue
        elif token.kind == "percentage" and last and last.kind == "number":
            out[-1] = Token("percent", last.value, last.written)
            continue
        elif token.value in _PER and last and last.kind in ("number", "money", "percent"):
            token = Token("word", "per", "per")
        elif token.kind == "word" and last and (last.kind in AMOUNTS or last.value == "per"):
            if token.value in RATES:
                out.append(Token("word", "per", "per"))
                token = Token("word", RATES[token.value], token.value)
            else:
                token = _unit(token)
        elif token.value in _PER and before and before.kind in AMOUNTS and last and last.kind == "word":
            token = Token("word", "per", "per")
        out.append(token)
    return out


def _unit(token: Token) -> Token:
    """A unit in one form: hrs is hour, days is day. The case of a short one counts: MW is no mW."""
    word = str(token.value)
    single = word[:-1] if len(word) > 2 and word.endswith("s") and not word.endswith("ss") else word
    single = _UNITS.get(word) or _UNITS.get(single) or single
    return Token("word", token.written if word in _CASED else single, token.written)


def _ranges(found: list[Token]) -> list[Token]:
    """`from 5 to 9 June`, `2-4 pm`, `between 5 and 9 %`: each as two values with `RANGE` between."""
    out: list[Token] = []
    for place, token in enumerate(found):
        after = found[place + 1] if place + 1 < len(found) else None
        last = out[-1] if out else None
        if (_ties(token) or token.value == "and") and last and after and _spans(last, after):
            opener = -3 if len(out) > 2 and out[-2].kind == "weekday" else -2
            opens = out[opener].value if len(out) >= -opener else None
            if token.value != "and" or opens == "between":
                if opens in ("from", "between"):
                    del out[opener]
                between_amounts = {last.kind, after.kind} <= {*AMOUNTS}
                token = Token("symbol", RANGE, DASHED if token.kind == "dash" and between_amounts else "to")
        elif len(out) > 1 and last and last.value == RANGE:
            out[-2], token = _alike(out[-2], token)
        if token.kind != "dash":
            out.append(token)
    return [t if t.kind not in ("sign", "currency", "percentage") else Token("symbol", t.value, t.written) for t in out]


def _ties(token: Token) -> bool:
    return token.kind == "dash" or token.value in ("to", "through", "thru", "until", "till")


def _spans(one: Token, other: Token) -> bool:
    """Whether the two may be the ends of a range."""
    kinds = {one.kind, other.kind}
    return kinds <= {*AMOUNTS} or bool(kinds & {*POINTS} and kinds <= {*POINTS, "number"})


def _alike(one: Token, other: Token) -> tuple[Token, Token]:
    """The ends of a range, of which one may leave to the other what kind of value it is."""
    if "date" in (one.kind, other.kind):
        return _same_month(one, other), _same_month(other, one)
    if other.kind == "time":
        return _same_half(one, other), other
    for kind in ("money", "percent"):
        if {one.kind, other.kind} == {"number", kind}:
            known = one if one.kind == kind else other
            one, other = (t if t is known else _of_kind(t, known) for t in (one, other))
    return one, other


def _of_kind(number: Token, known: Token) -> Token:
    value = (known.value[0], number.value) if known.kind == "money" else number.value
    return Token(known.kind, value, number.written)


def _same_half(start: Token, end: Token) -> Token:
    """The start of `2-4 pm` as a time of the same half of the day, where it is before the end."""
    if start.kind == "number" and start.value in range(1, 13):
        hour, minute, is_known = int(start.value), 0, False
    elif start.kind == "time":
        hour, minute, _, is_known = start.value
    else:
        return start
    time = (hour % 12 + 12 * (end.value[0] >= 12), minute, 0, True)
    return Token("time", time, start.written) if not is_known and "m" in end.written and time < end.value else start


def _same_month(day: Token, date: Token) -> Token:
    fits = day.kind == "number" and date.kind == "date" and day.value == int(day.value) and 1 <= day.value <= 31
    return Token("date", (*date.value[:2], int(day.value)), day.written) if fits else day

"""Is an answer refuted by rule? Only if it and every reference are values, and it is another one."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from decimal import Decimal

from .beside import TURNS, stem, unframed
from .token import VALUES, Token, agrees

_EXCUSED = {"is", "was", "are", "were", "be", "at", "on", "in", "to"}
_SCALED = {"or", "hundr", "hundred", "thousand", "million", "billion", "dozen"}


def refutation(said: Sequence[Token], references: Sequence[Sequence[Token]], asked: Sequence[Token]) -> str:
    """Why an answer is wrong; empty where it may be right.

    Args:
        said: the answer.
        references: the right answers, without what explains them.
        asked: the question. Its own words may be repeated; where it counts in thousands, nothing is refuted.
    """
    if not all(map(_is_value, references)) or _SCALED & {*map(stem, asked)}:
        return ""
    answer, _ = unframed(list(said), [])
    own = [token for token in answer if token.kind in VALUES and token not in asked]
    excused = _EXCUSED | {stem(token) for token in asked if token.kind == "word" and token.value not in TURNS}
    if any(token.kind not in VALUES and stem(token) not in excused for token in answer):
        return ""
    known = [token for form in references for token in form if token.kind in VALUES]
    known = [token for token in known if not any(o.value != token.value and agrees(token, o) for o in known)]
    kinds = [_kind(token) for token in own]
    if not own or len(set(kinds)) < len(kinds) or not {*kinds} <= {*map(_kind, known)}:
        return ""
    if any(_may_mean(one, other) for one in own for other in known):
        return _other_currency(own, known)
    return f"The answer is another {kinds[0]} than the reference."


def _kind(token: Token) -> str:
    return "number" if token.kind == "money" else token.kind


def _is_value(form: Sequence[Token]) -> bool:
    """Whether a reference is one value, or a date with its weekday; 1/2 may be a fraction."""
    kinds = [token.kind for token in form if token.kind != "weekday" or len(form) == 1]
    return len(kinds) == 1 and kinds[0] in VALUES and not any(re.fullmatch(r"\d+/\d+", t.written) for t in form)


def _may_mean(one: Token, other: Token) -> bool:
    """Whether the two could mean the same: rounded, without the sign, day and month or `.` and `,` turned round."""
    if {_kind(one), _kind(other)} <= {"number", "percent"}:
        if (one.kind == "percent") != (other.kind == "percent"):  # 0.25 and 25 %
            return True
        said, known = (abs(token.value[1] if token.kind == "money" else token.value) for token in (one, other))
        rounding = Decimal(1).scaleb(int(said.normalize().as_tuple().exponent)) / 2 if said else 0
        figures = [re.sub(r"\D", "", token.written) for token in (one, other)]
        if len(figures[1]) == 10:  # a phone number of America, with and without the 1 of its country
            figures[0] = re.sub(r"^1(?=\d{10}$)", "", figures[0])
        return abs(said - known) <= rounding or figures[0] == figures[1] != ""
    turned = one
    if one.kind == "date":
        turned = replace(one, value=(one.value[0], one.value[2], one.value[1]))
    return any(agrees(a, b) for a, b in ((one, other), (other, one), (turned, other), (other, turned)))


def _other_currency(own: Sequence[Token], known: Sequence[Token]) -> str:
    """Why equal amounts are not the same. Dollars may be meant for each other."""
    said, right = ({token.value[0] for token in some if token.kind == "money"} for some in (own, known))
    dollars = {"usd", "aud", "cad", "nzd", "hkd"}
    if not said or not right or said & right or (said & dollars and right & dollars):
        return ""
    return "The answer is in another currency than the reference."

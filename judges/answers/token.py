"""A token: a word or a symbol as it stands, or a value that can be written in many ways."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

AMOUNTS = ("number", "money", "percent")
POINTS = ("date", "month", "time", "weekday")
VALUES = (*AMOUNTS, *POINTS, "ordinal", "yes-no")
RANGE = "to"
DASHED = "-"
"""How a `RANGE` of amounts is written that may be none: 3-5 days, but a number of a phone, too."""
RATES = {"daily": "day", "weekly": "week", "monthly": "month", "annual": "year", "annually": "year", "yearly": "year"}


@dataclass(frozen=True, slots=True)
class Token:
    """A token. Compare with `agrees`, which knows what a value may leave open.

    Attributes:
        kind: word, symbol, or one of `VALUES`.
        value: what counts in a comparison: of a date (year or None, month, day); of a time (hour, minute, second,
            whether the half of the day is known); of money (currency, amount).
        written: as it was written.
        digits: of a number, its decimals as they were written: 1.10 is no 1.1.
    """

    kind: str
    value: Any
    written: str = field(default="", compare=False)
    digits: str = field(default="", compare=False)

    @property
    def named(self) -> bool:
        """Whether a word is written with a capital, so that it may be a name."""
        return self.kind == "word" and not self.written.islower()


def undashed(some: Iterable[Token]) -> list[Token]:
    """The tokens without dashes between amounts, as they are where a dash is no more than a blank."""
    return [token for token in some if token.value != RANGE or token.written != DASHED]


def agrees(said: Token, known: Token) -> bool:
    """Whether `said` says `known`, and nothing that `known` leaves open.

    A year, a half of the day and a currency may be left unsaid.
    """
    one, other = said.value, known.value
    if said.kind == "number" and known.kind == "money":
        return one == other[1]
    if said.kind != known.kind:
        return False
    if said.kind == "number":
        return one == other and said.digits == known.digits
    if said.kind in ("date", "month"):
        return one[1:] == other[1:] and one[0] in (None, other[0])
    if said.kind == "time" and not one[3]:
        return one[1:3] == other[1:3] and (one[0] == other[0] or (other[3] and one[0] % 12 == other[0] % 12 != 0))
    return one == other

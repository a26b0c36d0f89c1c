"""From days to numbers of mails, and back to the bounds that a mail's own time must keep.

Mails are numbered by the moment at which they were sent, from the newest to the oldest, but a day is the mail's own: 23
o'clock on Monday in Houston comes after 1 o'clock on Tuesday in London. So the mails of a span of days lie in a range
of numbers in which, at both ends, a few are of another day. These few are told apart by `sent_at`.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

from email_env.search.connections import Connections

_NO_ROW = 1 << 62


@dataclass(frozen=True, slots=True)
class Span:
    """The mails of some days: those numbered from `first` to before `end` with `earliest` <= `sent_at` < `latest`.

    From `sure_first` to before `sure_end` the number alone says so.
    """

    first: int
    end: int
    sure_first: int
    sure_end: int
    earliest: str
    latest: str


class Days:
    """The table `days` of a database: the first number of all mail up to a day, and one past the last from it on."""

    def __init__(self, connections: Connections) -> None:
        self._connections = connections
        self._look_up = lru_cache(maxsize=4096)(self._read)

    def span(self, until: str, sent_after: str | None, sent_before: str | None) -> Span:
        """The mails up to the day `until` that were sent on or after the second day and before the third."""
        first, sure_first = self._look_up("first_id", "<=", until), self._look_up("end_id", ">", until)
        latest = f"{until}U"  # behind every time of the day
        if sent_before is not None and sent_before < latest:
            first, sure_first = self._look_up("first_id", "<", sent_before), self._look_up("end_id", ">=", sent_before)
            latest = sent_before
        if sent_after is None:
            return Span(first, _NO_ROW, sure_first, _NO_ROW, "", latest)
        end, sure_end = self._look_up("end_id", ">=", sent_after), self._look_up("first_id", "<", sent_after)
        return Span(first, end, sure_first, sure_end, sent_after, latest)

    def _read(self, column: str, sign: str, day: str) -> int:
        order = "DESC" if sign[0] == "<" else "ASC"
        found = (
            self._connections.get()
            .execute(f"SELECT {column} FROM days WHERE day {sign} ? ORDER BY day {order} LIMIT 1", (day,))
            .fetchone()
        )
        if found:
            return found[0]
        return _NO_ROW if column == "first_id" else 0

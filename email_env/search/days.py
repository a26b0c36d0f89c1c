"""From days to numbers of mails, and back to the bounds that a mail's own time must keep.

Mails are numbered by the moment at which they were sent, from the newest to the oldest, but a day is the mail's own: 23
o'clock on Monday in Houston comes after 1 o'clock on Tuesday in London. So the mails of a span of days lie in a range
of numbers in which, at both ends, a few are of another day. These few are told apart by `sent_at`.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache

from email_env.search.connections import Connections

_NO_ROW = 1 << 62


class Days:
    """The table `days` of a database: the first number of all mail up to a day, and one past the last from it on."""

    def __init__(self, connections: Connections) -> None:
        self._connections = connections
        self._look_up = lru_cache(maxsize=4096)(self._read)
        self.span = lru_cache(maxsize=4096)(self._span)

    def _span(self, until: str, after: str | None, before: str | None) -> Mapping[str, int | str]:
        """The mails up to the day `until` that were sent on or after the day `after` and before the day `before`.

        They are those numbered from `first` to before `end` with `earliest` <= `sent_at` < `latest`. From `sure_first`
        to before `sure_end` the number alone says so.
        """
        first, sure_first = self._look_up("first_id", "<=", until), self._look_up("end_id", ">", until)
        latest = f"{until}U"  # behind every time of the day
        if before is not None and before < latest:
            first, sure_first = self._look_up("first_id", "<", before), self._look_up("end_id", ">=", before)
            latest = before
        end = sure_end = _NO_ROW
        if after is not None:
            end, sure_end = self._look_up("end_id", ">=", after), self._look_up("first_id", "<", after)
        return {
            "first": first,
            "end": end,
            "sure_first": sure_first,
            "sure_end": sure_end,
            "earliest": after or "",
            "latest": latest,
        }

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

"""From days to numbers of mails, and back to the bounds that a mail's own time must keep.

Mails are numbered by the moment at which they were sent, from the newest to the oldest, but a day is the mail's own: 23
o'clock on Monday in Houston comes after 1 o'clock on Tuesday in London. So the mails of a span of days lie in a range
of numbers in which, at both ends, a few are of another day. These few are told apart by `sent_at`.
"""

import sqlite3

_NO_ROW = 1 << 62


def span(connection: sqlite3.Connection, until: str, after: str | None, before: str | None) -> dict[str, int | str]:
    """The mails up to the day `until` that were sent on or after the day `after` and before the day `before`.

    They are those numbered from `first` to before `end` with `earliest` <= `sent_at` < `latest`. From `sure_first` to
    before `sure_end` the number alone says so. The table `days` has the first number of all mail up to a day, and one
    past the last from it on.
    """

    def look_up(column: str, sign: str, day: str) -> int:
        order = "DESC" if sign[0] == "<" else "ASC"
        rows = connection.execute(f"SELECT {column} FROM days WHERE day {sign} ? ORDER BY day {order} LIMIT 1", (day,))
        found = rows.fetchone()
        return found[0] if found else (_NO_ROW if column == "first_id" else 0)

    first, sure_first = look_up("first_id", "<=", until), look_up("end_id", ">", until)
    latest = f"{until}U"  # behind every time of the day
    if before is not None and before < latest:
        first, sure_first = look_up("first_id", "<", before), look_up("end_id", ">=", before)
        latest = before
    end = sure_end = _NO_ROW
    if after is not None:
        end, sure_end = look_up("end_id", ">=", after), look_up("first_id", "<", after)
    return {
        "first": first,
        "end": end,
        "sure_first": sure_first,
        "sure_end": sure_end,
        "earliest": after or "",
        "latest": latest,
    }

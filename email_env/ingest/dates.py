"""Dates of mail in the zone that the mail names; missing and implausible ones are kept but marked.

A mail's own day is the one that its writer and most of its readers saw, and the one that other programs show. In UTC
one mail in ten of the Enron corpus has another day.
"""

import re
from datetime import UTC, datetime, timedelta, timezone
from email.utils import parsedate_tz

NO_DATE = "1970-01-01T00:00:00Z"
MIN_YEAR, MAX_YEAR = 1982, 2037
"""Dates outside these years are kept but marked. Mail has had its form since 1982 (RFC 822). Lost dates appear as 0001,
2044, or 31 December 1979 in American time."""

_MAX_ZONE = timedelta(hours=14)  # no place is farther from UTC, and SQLite takes no more
_ISO = re.compile(  # as programs write it, also with a blank before the zone
    r"\s*(\d{4}-\d\d-\d\d(?:[T ]\d\d:\d\d(?::\d\d(?:[.,]\d+)?)?)?)\s*([+-]\d\d(?::?\d\d)?|Z)?(?!\d)", re.ASCII
)
_LOOSE_ZONE = re.compile(r"(:\d\d) *+(?:(?:GMT|UTC) *+)?([+-])(\d\d?):?(\d\d)?(?!\d)", re.ASCII)
_LOST_YEAR = re.compile(r"\s(0\d{3})\s", re.ASCII)  # the stdlib takes 0001 for 2001
_SEPARATOR = re.compile(
    r"\b[A-Z][a-z]{2} ([A-Z][a-z]{2}) +(\d{1,2}) (\d\d:\d\d(?::\d\d)?)(?: ([+-]\d{4}|[A-Z]{1,5}))? (\d{4})\b"
    r"(?: ([+-]\d{4}))?",
    re.ASCII,
)


def parse_date(text: str) -> tuple[str, bool]:
    """A Date header or an ISO time as (`YYYY-MM-DDTHH:MM:SS` with `Z` or `-07:00` behind it, whether to trust it)."""
    try:
        if iso := _ISO.match(text):
            return timestamp(datetime.fromisoformat("".join(iso.groups(""))))
        fields = parsedate_tz(_LOOSE_ZONE.sub(_usual_zone, text, count=1))
        if fields is None:
            return NO_DATE, False
        year, month, day, hour, minute, second, *_, zone_seconds = fields
        year = int(lost[1]) if (lost := _LOST_YEAR.search(text)) else year
        zone = timezone(timedelta(seconds=zone_seconds or 0))
        return timestamp(datetime(year, month, day, hour, minute, min(second, 59), tzinfo=zone))
    except Exception:  # parsedate_tz raises many kinds on hostile input
        return NO_DATE, False


def separator_date(line: str) -> str:
    """The date of a line `From a@b Tue Feb 20 09:00:00 2024` of an mbox as a Date header has it; "" without one."""
    match = _SEPARATOR.search(line)
    if not match:
        return ""
    month, day, clock, zone, year, late_zone = match.groups("")
    return f"{day} {month} {year} {clock} {zone or late_zone or '+0000'}"


def timestamp(sent: datetime) -> tuple[str, bool]:
    """A time as (`YYYY-MM-DDTHH:MM:SS` with its zone, whether to trust it); without a zone it is UTC."""
    if abs(sent.utcoffset() or timedelta()) > _MAX_ZONE:
        sent = sent.astimezone(UTC)
    text = sent.isoformat(timespec="seconds")
    shown = f"{text}Z" if sent.tzinfo is None else text.replace("+00:00", "Z")
    return shown, MIN_YEAR <= sent.year <= MAX_YEAR


def _usual_zone(loose: re.Match[str]) -> str:
    """`:00 GMT+2`, `:00 GMT+0200` or `:00+02:00` as `:00 +0200`, which the stdlib needs."""
    clock, sign, hours, minutes = loose.groups("00")
    return f"{clock} {sign}{hours:0>2}{minutes}"

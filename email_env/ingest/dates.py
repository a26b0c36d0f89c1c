"""Dates of mail in UTC; missing and implausible ones are kept but marked."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from email.utils import parsedate_tz

NO_DATE = "1970-01-01T00:00:00Z"
MIN_YEAR, MAX_YEAR = 1982, 2037
"""Dates outside these years are kept but marked. Mail has had its form since 1982 (RFC 822). Lost dates appear as 0001,
2044, or 31 December 1979 in American time, which is the beginning of 1980 in UTC."""

_USUAL = re.compile(
    r"(?:[A-Za-z]{3},\s*)?(\d{1,2}) ([A-Za-z]{3}) (\d{4}) (\d\d:\d\d:)(\d\d) ([+-])(\d\d)(\d\d)\b", re.ASCII
)
_MONTH_NAMES = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
_MONTHS = {name: f"{number:02}" for number, name in enumerate(_MONTH_NAMES, start=1)}


def parse_date(text: str) -> tuple[str, bool]:
    """A Date header as (UTC time `YYYY-MM-DDTHH:MM:SSZ`, whether it can be trusted)."""
    match = _USUAL.match(text)
    try:
        if match:
            day, month, year, clock, second, sign, zone_h, zone_m = match.groups()
            iso = f"{year}-{_MONTHS[month.lower()]}-{day:0>2}T{clock}{min(second, '59')}"
            sent, zone = datetime.fromisoformat(iso), timedelta(hours=int(zone_h), minutes=int(zone_m))
            if sign == "-":
                zone = -zone
        else:
            fields = parsedate_tz(text)
            if fields is None:
                return NO_DATE, False
            sent, zone = datetime(*fields[:6]), timedelta(seconds=fields[9] or 0)
    except Exception:  # parsedate_tz raises many kinds on hostile input
        return NO_DATE, False
    try:
        sent -= zone
    except OverflowError:  # the first or last day of all time, beyond trust anyway
        pass
    return timestamp(sent)


def utc_timestamp(sent: datetime) -> tuple[str, bool]:
    """Like `timestamp`, for a time with a zone."""
    try:
        return timestamp(sent.astimezone(UTC).replace(tzinfo=None))
    except OverflowError:  # the first or last day of all time, beyond trust anyway
        return timestamp(sent.replace(tzinfo=None))


def timestamp(sent: datetime) -> tuple[str, bool]:
    """A UTC time without its zone as (`YYYY-MM-DDTHH:MM:SSZ`, whether it can be trusted)."""
    return sent.isoformat(timespec="seconds") + "Z", MIN_YEAR <= sent.year <= MAX_YEAR

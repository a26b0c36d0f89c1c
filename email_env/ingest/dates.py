"""Dates of mail in the zone that the mail names; missing and implausible ones are kept but marked.

A mail's own day is the one that its writer and most of its readers saw, and the one that other programs show. In UTC
one mail in ten of the Enron corpus has another day.
"""

from __future__ import annotations

import re
from datetime import date, datetime, timedelta
from email.utils import parsedate_tz
from functools import lru_cache

NO_DATE = "1970-01-01T00:00:00Z"
MIN_YEAR, MAX_YEAR = 1982, 2037
"""Dates outside these years are kept but marked. Mail has had its form since 1982 (RFC 822). Lost dates appear as 0001,
2044, or 31 December 1979 in American time."""

_MAX_ZONE_MINUTES = 14 * 60  # no place is farther from UTC, and SQLite takes no more
_USUAL = re.compile(
    r"(?:[A-Za-z]{3},\s*)?(\d{1,2}) ([A-Za-z]{3}) (\d{4}) ((?:[01]\d|2[0-3]):[0-5]\d:)(\d\d) ([+-])(\d\d)(\d\d)\b",
    re.ASCII,
)
_ISO = re.compile(  # as programs write it, also with a blank before the zone
    r"\s*(\d{4}-\d\d-\d\d)(?:[T ](\d\d:\d\d(?::\d\d(?:[.,]\d+)?)?)\s*(?:([+-]\d\d)(?::?(\d\d))?)?)?(?!\d)",
    re.ASCII | re.IGNORECASE,
)
_LOOSE_ZONE = re.compile(r"(?<=:\d\d) *+(?:(?:GMT|UTC) *+)?([+-])(\d\d?):?(\d\d)?(?!\d)", re.ASCII)
_SEPARATOR = re.compile(
    r"\b[A-Z][a-z]{2} ([A-Z][a-z]{2}) +(\d{1,2}) (\d\d:\d\d(?::\d\d)?)(?: ([+-]\d{4}|[A-Z]{1,5}))? (\d{4})\b"
    r"(?: ([+-]\d{4}))?",
    re.ASCII,
)
_MONTH_NAMES = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
_MONTHS = {name: f"{number:02}" for number, name in enumerate(_MONTH_NAMES, start=1)}


def parse_date(text: str) -> tuple[str, bool]:
    """A Date header as (`YYYY-MM-DDTHH:MM:SS` with `Z` or `-07:00` behind it, whether it can be trusted)."""
    match = _USUAL.match(text)
    try:
        if match:
            day, month, year, clock, second, sign, hours, minutes = match.groups()
            iso_day, is_plausible = _day(day, month, year)
            local = f"{iso_day}T{clock}{min(second, '59')}"
            if zone := _zone(sign, int(hours) * 60 + int(minutes)):
                return local + zone, is_plausible
            return _stamp(datetime.fromisoformat(local), sign, int(hours) * 60 + int(minutes))
        if iso := _ISO.match(text):
            day, clock, hours, minutes = iso.groups()
            zone = f"{hours}:{minutes or '00'}" if hours else ""
            return timestamp(datetime.fromisoformat(f"{day}T{clock or '00:00'}{zone}"))
        fields = parsedate_tz(_LOOSE_ZONE.sub(_usual_zone, text, count=1))
        if fields is None:
            return NO_DATE, False
        zone_minutes = (fields[9] or 0) // 60
        return _stamp(datetime(*fields[:6]), "-" if zone_minutes < 0 else "+", abs(zone_minutes))
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
    """A time as (`YYYY-MM-DDTHH:MM:SS` with its zone, whether it can be trusted); without a zone it is UTC."""
    zone = (sent.utcoffset() or timedelta()) // timedelta(minutes=1)
    return _stamp(sent.replace(tzinfo=None), "-" if zone < 0 else "+", abs(zone))


@lru_cache(maxsize=4096)
def _day(day: str, month: str, year: str) -> tuple[str, bool]:
    """(`YYYY-MM-DD`, whether the year can be trusted); ValueError or KeyError where there is no such day."""
    found = date.fromisoformat(f"{year}-{_MONTHS[month.lower()]}-{day:0>2}")
    return found.isoformat(), MIN_YEAR <= found.year <= MAX_YEAR


@lru_cache(maxsize=256)
def _zone(sign: str, minutes: int) -> str:
    """`Z` or `-07:00`; "" for a zone that no place has."""
    if minutes > _MAX_ZONE_MINUTES:
        return ""
    return f"{sign}{minutes // 60:02}:{minutes % 60:02}" if minutes else "Z"


def _usual_zone(loose: re.Match[str]) -> str:
    """`GMT+2`, `GMT+0200` or `+02:00` as ` +0200`, which the stdlib needs."""
    sign, hours, minutes = loose.groups("00")
    return f" {sign}{hours:0>2}{minutes}"


def _stamp(local: datetime, sign: str, zone_minutes: int) -> tuple[str, bool]:
    zone = _zone(sign, zone_minutes)
    if not zone:
        zone = "Z"
        try:
            local += timedelta(minutes=zone_minutes if sign == "-" else -zone_minutes)
        except OverflowError:  # the first or last day of all time, beyond trust anyway
            pass
    return local.isoformat(timespec="seconds") + zone, MIN_YEAR <= local.year <= MAX_YEAR

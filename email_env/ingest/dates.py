"""Dates of mail in the zone that the mail names. A date is right or unknown: what can mean two days is unknown.

A mail's own day is the one that its writer and most of its readers saw, and the one that other programs show. In UTC
one mail in ten of the Enron corpus has another day.

A date is a day in one of four forms, a clock and a zone. Months are read in English, which RFC 5322 has.
"""

import re
from datetime import datetime, timedelta
from typing import cast

NO_DATE = "1970-01-01T00:00:00Z"
MIN_YEAR, MAX_YEAR = 1982, 2037
"""Dates before are kept but not trusted, dates after are unknown: they would hide a mail from every question. Mail has
had its form since 1982 (RFC 822). Lost dates appear as 0001, 2044, or 31 December 1979 in American time."""

_MAX_ZONE = 1400  # hours and minutes: no place is farther from UTC, and SQLite takes no more
_NAMES = (
    "January", "February", "March", "April", "May", "June",
    "July", "August", "September", "October", "November", "December",
)  # fmt: skip
_MONTHS = {name[:end].lower(): month for month, name in enumerate(_NAMES, 1) for end in range(3, len(name) + 1)}
_WORD = r"[^\W\d_]{3,}+"
_FORMS = tuple(
    re.compile(rf"\s*+(?:[^\W\d_]++[\s.,]*+)?{form}(?!\d)")
    for form in (
        rf"(?P<day>\d\d?)(?:st|nd|rd|th)?[\s-]*+(?P<month>{_WORD})\.?[\s,-]*+(?P<year>\d{{2,4}})",  # RFC 5322
        rf"(?P<year>\d{{4}})([-/. ])(?P<month>\d\d?|{_WORD})\2(?P<day>\d\d?)",  # ISO 8601
        rf"(?P<month>{_WORD})\.?\s++(?P<day>\d\d?)(?:st|nd|rd|th)?\s*+,?\s*+(?P<year>\d{{4}})",
        r"(?P<day>\d\d?)([/.-])(?P<month>\d\d?)\2(?P<year>\d{4})",  # or month, day: `_in_order`
    )
)
_CLOCK = re.compile(
    r"[\sT,]*+(?:at\s++)?+(?:(\d\d?)[:.](\d\d)(?:[:.](\d\d)(?:[.,]\d++)?+)?+(?:\s*+([AP])\.?M\b\.?+)?+)?+"
    r"\s*+[(\['\"]?+(?:(?:GMT|UTC?)?+\s*+([+-]?)([0-9]{1,2}):?([0-9]{2})?(?![0-9])|([^][\s()'\",;.]*+))",
    re.IGNORECASE,
)
_ZONES = {"EST": "-05:00", "EDT": "-04:00", "CST": "-06:00", "CDT": "-05:00", "MST": "-07:00", "MDT": "-06:00"}
_ZONES |= {"PST": "-08:00", "PDT": "-07:00", "Z": "Z", "UT": "Z", "GMT": "Z", "UTC": "Z"}
_SINCE_1970 = re.compile(r"\s*(\d{9,19})(?:\.\d*)?\s*", re.ASCII)
_YEAR_LAST = re.compile(  # asctime's form, also behind the `From a@b` of an mbox
    r"\b[A-Z][a-z]{2} ([A-Z][a-z]{2}) +(\d{1,2}) (\d\d:\d\d(?::\d\d)?(?: [AP]M)?)(?: ([+-]\d{4}|[A-Z]{1,5}))? (\d{4})\b"
    r"(?: ([+-]\d{4}))?",
    re.ASCII,
)


def parse_date(text: str) -> tuple[str, bool]:
    """A date as (`YYYY-MM-DDTHH:MM:SS` with `Z` or `-07:00` behind it, whether to trust it).

    Of a zone whose name is not in RFC 5322, or where something else stands behind the clock, the day and the clock are
    kept and not trusted; no zone is UTC. A number alone is the time since 1970, in seconds or, by its length, in
    thousandths, millionths or billionths of one.
    """
    try:
        for form in _FORMS:
            if match := form.match(text):
                hour, minute, second, half, *zone = cast(re.Match[str], _CLOCK.match(text, match.end())).groups("")
                return _timestamp(_time(*_day(match), hour, minute, second, half), *_zone(*zone))
        if number := _SINCE_1970.fullmatch(text):
            thousands = (len(number[1]) - 9) // 3
            return _timestamp(datetime(1970, 1, 1) + timedelta(seconds=int(number[1]) // 1000**thousands))
        if match := _YEAR_LAST.search(text):
            month, day, clock, zone, year, late_zone = match.groups("")
            return parse_date(f"{day} {month} {year} {clock} {zone or late_zone}")
    except (ValueError, OverflowError):  # there is no such day, hour or zone
        pass
    return NO_DATE, False


def _timestamp(sent: datetime, zone: str = "Z", is_known: bool = True) -> tuple[str, bool]:
    """A time by a clock of a zone, in whole seconds, as (`YYYY-MM-DDTHH:MM:SS` and the zone, whether to trust it)."""
    return (sent.isoformat() + zone, is_known and sent.year >= MIN_YEAR) if sent.year <= MAX_YEAR else (NO_DATE, False)


def _day(match: re.Match[str]) -> tuple[int, int, int]:
    """(year, month, day) of one of `_FORMS`; ValueError for numbers that can mean two days."""
    year, month, day = match["year"], match["month"], int(match["day"])
    number = _MONTHS.get(month.lower()) or int(month)
    if match.re is _FORMS[-1]:
        if day <= 12 and number <= 12 and day != number:
            raise ValueError(f"{match[0]!r} can mean two days")
        day, number = max(day, number), min(day, number)
    century = 0 if len(year) == 4 else 2000 if year < "50" and len(year) == 2 else 1900  # RFC 5322, 4.3
    return int(year) + century, number, day


def _time(year: int, month: int, day: int, hour: str, minute: str, second: str, half: str) -> datetime:
    """A time; 24:00 is the end of the day, and a leap second its last. ValueError for 15 AM."""
    hours, minutes, seconds = int(hour or 0), int(minute or 0), int(second or 0)
    if half and hours <= 12:
        hours = hours % 12 + 12 * (half in "Pp")
    elif half in ("A", "a"):
        raise ValueError(f"there is no hour {hour} AM")
    if (hours, minutes, seconds) == (24, 0, 0):
        return datetime(year, month, day) + timedelta(days=1)
    return datetime(year, month, day, hours, minutes, 59 if seconds == 60 else seconds)


def _zone(sign: str, hours: str, minutes: str, name: str) -> tuple[str, bool]:
    """(`Z` or `-07:00`, whether the zone is known); `Z` where it is not."""
    if name:
        return _ZONES.get(name.upper(), "Z"), name.upper() in _ZONES
    hours, minutes = hours or "0", minutes or "00"
    if not int(hours + minutes):
        return "Z", True
    is_known = sign and int(hours + minutes) <= _MAX_ZONE and minutes < "60"
    return (f"{sign}{hours:0>2}:{minutes}", True) if is_known else ("Z", False)

"""A calendar (iCalendar, RFC 5545) as lines that people read: what, when, where, who."""

from __future__ import annotations

import re

from judges.common.text import unix_lines

_SHOWN = {
    "SUMMARY": "Event",
    "DTSTART": "Start",
    "DTEND": "End",
    "DUE": "Due",
    "DURATION": "Duration",
    "LOCATION": "Place",
    "ORGANIZER": "Organizer",
    "ATTENDEE": "Attendee",
    "RRULE": "Repeats",
    "STATUS": "Status",
    "DESCRIPTION": "",
}
_UNITS = ("w", "d", "h", "min")
_COMPONENTS = ("VEVENT", "VTODO")
_FOLD = re.compile(r"\n[ \t]")
_LINE = re.compile(r'([A-Za-z-]++)((?:;[^;:"]*+(?:"[^"]*+"[^;:"]*+)*+)*+):(.*)')
_TIME = re.compile(r"(\d{4})(\d\d)(\d\d)(?:T(\d\d)(\d\d)\d\d(Z?))?")
_LENGTH = re.compile(r"P(?:(\d+)W)?(?:(\d+)D)?(?:T(?:(\d+)H)?(?:(\d+)M)?(?:\d+S)?)?")
_ZONE = re.compile(r";TZID=\"?([^;\"]+)", re.IGNORECASE)
_NAME = re.compile(r";CN=\"?([^;\"]+)", re.IGNORECASE)
_ESCAPED = re.compile(r"\\(.)")


def calendar_text(text: str) -> str:
    """The events and tasks of a calendar; a text that has none is returned as it is."""
    events: list[list[str]] = []
    inside = False
    for line in _FOLD.sub("", unix_lines(text)).split("\n"):
        match = _LINE.match(line)
        name, parameters, value = match.groups() if match else ("", "", "")
        if name.upper() in ("BEGIN", "END"):
            inside = name.upper() == "BEGIN" and value.strip().upper() in _COMPONENTS
            if inside:
                events.append([])
        elif inside and (label := _SHOWN.get(name.upper())) is not None:
            shown = _shown(name.upper(), parameters, value.strip())
            if shown:
                events[-1].append(f"{label}: {shown}" if label else shown)
    return "\n\n".join("\n".join(event) for event in events if event) or text


def _shown(name: str, parameters: str, value: str) -> str:
    if name in ("ORGANIZER", "ATTENDEE"):
        address = value[7:] if value.lower().startswith("mailto:") else value
        person = _NAME.search(parameters)
        return f"{person[1]} <{address}>" if person and person[1] != address else address
    if match := _TIME.fullmatch(value):
        year, month, day, hour, minute, utc = match.groups()
        zone = _ZONE.search(parameters)
        clock = f" {hour}:{minute}" if hour else ""
        return f"{year}-{month}-{day}{clock}{' UTC' if utc else f' {zone[1]}' if zone and hour else ''}"
    if name == "DURATION" and (match := _LENGTH.fullmatch(value)):
        return " ".join(f"{count} {unit}" for count, unit in zip(match.groups(), _UNITS, strict=True) if count)
    return _ESCAPED.sub(lambda found: "\n" if found[1] in "nN" else found[1], value)

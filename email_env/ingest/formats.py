"""Text that comes in a form of its own, as people read it: HTML, iCalendar (RFC 5545) and `format=flowed` (RFC 3676).

A library reads HTML, because mail has it of every kind: this file only says what of it is text.
"""

import re
from collections import Counter
from html import unescape

from judges.common.text import one_line, unix_lines

_NO_TAG = re.compile(r"<(?![A-Za-z/!?])")
_BLOCKS = (
    "address|article|aside|center|d[dlt]|details|fieldset|figcaption|figure|footer|form|header|legend|main|nav|option"
    "|section|summary|button"
)
_BLOCK = re.compile(rf"<(?=/?(?:{_BLOCKS})\b)", re.IGNORECASE)  # the library takes these tags out first
_PRE = re.compile(r"(</?pre\b[^<>]*+>)", re.IGNORECASE)
_TAG = r"""(?:[^<>"']|"[^"]*+"|'[^']*+')*+>"""
_ANY_TAG = re.compile(rf"<{_TAG}")
_LOOK = re.compile(rf"</?(?:a|b|big|code|em|font|i|nobr|s|small|span|strike|strong|tt|u)\b{_TAG}", re.IGNORECASE)
_UNNESTED = (  # these have no end, or end where the next begins
    "area|base|br|col|dd|dt|embed|hr|img|input|li|link|meta|optgroup|option|p|rp|rt|source|tbody|td|tfoot|th|thead|tr"
    "|track|wbr"
)
_NESTED = re.compile(rf"<(?!/?(?:{_UNNESTED})\b)(/?[a-z][^\s/<>]*+)", re.IGNORECASE)
_MAX_OPEN = 300

_EVENT_LINES = {
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
_COMPONENTS = ("VEVENT", "VTODO")
_FOLD = re.compile(r"\n[ \t]")
_LINE = re.compile(r'([A-Za-z-]++)((?:;[^;:"]*+(?:"[^"]*+"[^;:"]*+)*+)*+):(.*)')
_TIME = re.compile(r"(\d{4})(\d\d)(\d\d)(?:T(\d\d)(\d\d)\d\d(Z?))?")
_ZONE = re.compile(r";TZID=\"?([^;\"]+)", re.IGNORECASE)
_NAME = re.compile(r";CN=\"?([^;\"]+)", re.IGNORECASE)
_ESCAPED = re.compile(r"\\(.)")
_SIGNATURE = "-- "


def page_text(page: str) -> str:
    """The text of an HTML page, one line a block; scripts, styles and comments are no text.

    Tags that only say how letters look are taken out first, and of a page that leaves more tags open than any program
    does, all are: where tags cross each other, and where one ends others far above it, what the standard wants done
    takes time that grows with the square of their number.
    """
    from justhtml import JustHTML  # a third of a second, and most mail is plain

    page = _LOOK.sub("", page)
    tags = Counter(map(str.lower, _NESTED.findall(page)))
    if sum(max(0, number - tags[f"/{name}"]) for name, number in tags.items() if name[0] != "/") > _MAX_OPEN:
        return "\n".join(filter(None, map(one_line, unescape(_ANY_TAG.sub("\n", page)).split("\n"))))
    parts = _PRE.split(page)
    for place in range(1, len(parts) - 1, 2):
        if not parts[place].startswith("</"):
            parts[place + 1] = parts[place + 1].replace("\n", "<br>")
    whole = _BLOCK.sub("<br><", _NO_TAG.sub("&lt;", " ".join("".join(parts).split())))
    bodies = JustHTML(whole).query("body")
    blocks = bodies[0].to_text(separator="\n", separator_blocks_only=True, strip=False) if bodies else ""
    return "\n".join(filter(None, map(one_line, blocks.split("\n"))))


def calendar_text(text: str) -> str:
    """The events and tasks of a calendar: what, when, where, who. A text that has none is returned as it is."""
    events: list[list[str]] = []
    inside = False
    for line in _FOLD.sub("", unix_lines(text)).split("\n"):
        match = _LINE.match(line)
        name, parameters, value = (match[1].upper(), match[2], match[3].strip()) if match else ("", "", "")
        if name in ("BEGIN", "END"):
            inside = name == "BEGIN" and value.upper() in _COMPONENTS
            if inside:
                events.append([])
        elif inside and value and (label := _EVENT_LINES.get(name)) is not None:
            shown = _event_value(name, parameters, value)
            events[-1].append(f"{label}: {shown}" if label else shown)
    return "\n\n".join("\n".join(event) for event in events if event) or text


def _event_value(name: str, parameters: str, value: str) -> str:
    if name in ("ORGANIZER", "ATTENDEE"):
        address = value[7:] if value.lower().startswith("mailto:") else value
        person = _NAME.search(parameters)
        return f"{person[1]} <{address}>" if person and person[1] != address else address
    if match := _TIME.fullmatch(value):
        year, month, day, hour, minute, utc = match.groups()
        zone = _ZONE.search(parameters)
        clock = f" {hour}:{minute}" if hour else ""
        return f"{year}-{month}-{day}{clock}{' UTC' if utc else f' {zone[1]}' if zone and hour else ''}"
    return _ESCAPED.sub(lambda found: "\n" if found[1] in "nN" else found[1], value)


def unflowed(text: str, *, delete_space: bool) -> str:
    """Flowed text with each paragraph on one line: one that ends with a blank goes on in the next of its quote depth.

    Args:
        text: with `\\n` line ends.
        delete_space: `DelSp=yes`: the blank at the end of a line is no part of the text, as between words of Chinese.
    """
    lines: list[list[str]] = []
    open_depth = -1  # of the paragraph that goes on; -1 where none does
    for line in text.split("\n"):
        unquoted = line.lstrip(">")
        depth = len(line) - len(unquoted)
        words = unquoted.removeprefix(" ")  # put there so that a line does not look quoted
        goes_on = words.endswith(" ") and words != _SIGNATURE
        if depth != open_depth or words == _SIGNATURE:
            lines.append([">" * depth + " " if depth else ""])
        lines[-1].append(words[:-1] if goes_on and delete_space else words)
        open_depth = depth if goes_on else -1
    return "\n".join("".join(parts) for parts in lines)

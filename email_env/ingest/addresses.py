"""Addresses out of From, To, Cc and Bcc headers as real mail has them.

The stdlib's parser rejects forms that are common in old mail (`k..allen@enron.com`, `e-mail <.bob@enron.com>`,
`<walker"."blair@enron.com>`). This one accepts whatever can serve as the name of a mailbox, and never raises. It does
not check whether an address could receive mail.
"""

from __future__ import annotations

import re

_NEEDS_CARE = re.compile(r"[<>\"'():;\s]")
_ANGLE = re.compile(r"<([^<>]*)>")
_COMMENT = re.compile(r"\(([^()]*)\)")
_JUNK = str.maketrans("", "", '<>"(),;\x00')


def parse_addresses(header: str) -> tuple[str, ...]:
    """The lower-case addresses of a header, each once, in order; display names are left out."""
    if not header:
        return ()
    if not _NEEDS_CARE.search(plain := header.replace(", ", ",")):
        return tuple(dict.fromkeys(filter(None, plain.lower().split(","))))
    found: dict[str, None] = {}
    for part in _split(header):
        address = part.lower() if not _NEEDS_CARE.search(part) else parse_mailbox(part)[0]
        if address:
            found[address] = None
    return tuple(found)


def parse_sender(header: str) -> tuple[str, str]:
    """The first mailbox of a From header as (address, display name)."""
    if "," not in header and not _NEEDS_CARE.search(header):
        return header.lower(), ""
    if header.count("@") > 1:
        header = next((part for part in _split(header) if "@" in part), header)
    return parse_mailbox(header)


def parse_mailbox(part: str) -> tuple[str, str]:
    """One mailbox as (address, display name); either may be "".

    >>> parse_mailbox('"Keller, Anna" <Anna.Keller@Example.com>')
    ('anna.keller@example.com', 'Keller, Anna')
    """
    part = part.strip()
    angle = _ANGLE.search(part)
    if angle:
        address, name = angle[1], part[: angle.start()]
    elif comment := _COMMENT.search(part):
        address, name = part[: comment.start()] + " " + part[comment.end() :], comment[1]
    else:
        address, name = part, ""
    words = address.translate(_JUNK).strip("'").split()
    with_at = [word for word in words if "@" in word]
    if with_at:
        address = with_at[-1]
    else:  # several words without an @ are a display name or a group such as "undisclosed recipients"
        address = words[0] if len(words) == 1 and not words[0].endswith(":") else ""
    return address.strip("'").lower(), display_name(name)


def display_name(text: str) -> str:
    """A person's name without quotes, directory paths (`</O=ENRON/...>`) and addresses in angle brackets."""
    name = " ".join(text.partition("<")[0].replace('"', " ").split()).strip("' ")
    return "" if "@" in name else name


def _split(header: str) -> list[str]:
    """Splits at commas and semicolons that are outside quotes and angle brackets."""
    if '"' not in header and "<" not in header and ";" not in header:
        return [part for part in map(str.strip, header.split(",")) if part]
    parts: list[str] = []
    start, quoted, angled = 0, False, False
    careful = header.count('"') % 2 == 0  # where a quote is missing, no quote can be trusted: every comma separates
    for position, char in enumerate(header):
        if char == '"' and careful:
            quoted = not quoted
        elif char == "<" and not quoted:
            angled = True
        elif char == ">" and not quoted:
            angled = False
        elif char in ",;" and not quoted and not (angled and careful):
            parts.append(header[start:position])
            start, angled = position + 1, False
    parts.append(header[start:])
    return [part for part in map(str.strip, parts) if part]

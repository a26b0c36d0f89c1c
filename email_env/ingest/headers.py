"""The header block of a message, split by our own code, because real mail breaks the stdlib's rules.

For the stdlib, a Subject that goes on in an unindented line turns all later headers into body. Most mail of the Enron
corpus has its headers in one order, which one expression reads at once. Any other block is read header by header, with
the same outcome.
"""

from __future__ import annotations

import re
from codecs import BOM_UTF8
from email.header import decode_header
from typing import NamedTuple

from email_env.ingest.text import decode, decode_named
from judges.common.text import without_controls


class Headers(NamedTuple):
    """What follows the colon of the first header of each name, folded as it came; "" where there is none."""

    message_id: str = ""
    date: str = ""
    sender: str = ""
    to: str = ""
    subject: str = ""
    cc: str = ""
    content_type: str = ""
    transfer_encoding: str = ""
    bcc: str = ""
    x_from: str = ""
    x_to: str = ""
    x_cc: str = ""
    received: str = ""
    delivered: str = ""
    mailing_list: str = ""
    disposition: str = ""


_NAMES = (
    "message-id",
    "date",
    "from",
    "to",
    "subject",
    "cc",
    "content-type",
    "content-transfer-encoding",
    "bcc",
    "x-from",
    "x-to",
    "x-cc",
    "received",
    "delivered-to",
    "list-id",
    "content-disposition",
)
_ALSO = {  # headers that say the same as one of these
    "x-original-to": "delivered-to",
    "envelope-to": "delivered-to",
    "list-post": "list-id",
    "mailing-list": "list-id",
}
_ANY = re.compile(  # a header goes on in every line that does not start the next one, indented or not
    rf"^({'|'.join((*_NAMES, *_ALSO))})[ \t]*:(.*(?:\n(?![!-9;-~]+[ \t]*:).*)*)",
    re.IGNORECASE | re.MULTILINE | re.ASCII,
)
_LINE = r"([^\n]*+)\n"
_LINES = r"([^\n]*+(?:\n[ \t][^\n]*+)*+)\n"
_USUAL = re.compile(
    rf"Message-ID:{_LINE}Date:{_LINE}From:{_LINES}(?:To:{_LINES})?+Subject:{_LINES}(?:Cc:{_LINES})?+"
    rf"Mime-Version:[^\n]*+\nContent-Type:{_LINE}Content-Transfer-Encoding:{_LINE}(?:Bcc:{_LINES})?+"
    r"X-From:([^\n]*+)(?:\nX-To:([^\n]*+))?+(?:\nX-cc:([^\n]*+))?+(?:\nX-(?!(?i:to|cc):)[A-Za-z]++:[^\n]*+)*+\Z"
)
_START = re.compile(rb"(?:From [^\n]*\n)?[!-9;-~]+[ \t]*:")
_BLANKS = re.compile(rb"\n[ \t]+\r?\n(?![ \t]|[!-9;-~]+[ \t]*:)")  # no header and no more of one follows
_JOURNAL = b"\nX-MS-Journal-Report:"
_FIRST_MARK = re.compile(rb"^--[^\r\n]*[^\s]", re.MULTILINE)
_LETTER = re.compile(rb"^Content-Type[ \t]*:\s*message/rfc822\b", re.IGNORECASE | re.MULTILINE)


def split_message(data: bytes) -> tuple[Headers, bytes]:
    """The headers that matter and the undecoded body; a byte order mark and blanks may stand before them.

    Of a journal report of Exchange, which names nobody but a server and an archive, these are those of the mail in it.
    """
    data = data.removeprefix(BOM_UTF8).lstrip()
    if b"\n" not in data:  # of Macs before 2001
        data = data.replace(b"\r", b"\n")
    if not data.startswith(b"Message-ID:") and not _START.match(data):
        return Headers(), data
    block, body = _halves(data)
    if _JOURNAL in block and (journaled := _journaled(body)):
        block, body = _halves(journaled)
    text = decode_named(block.replace(b"\r\n", b"\n") if b"\r" in block else block)
    return usual_headers(text) or any_headers(text), body


def usual_headers(text: str) -> Headers | None:
    """The headers of a block in the order that the corpus has; None for any other block."""
    match = _USUAL.match(text)
    return Headers(*match.groups("")) if match else None


def any_headers(text: str) -> Headers:
    """The headers of any block; the first of a repeated header counts, which of `Received` is the last hop."""
    found: dict[str, str] = {}
    for name, value in _ANY.findall(text):
        found.setdefault(name.lower(), value)
    for name, same in _ALSO.items():
        if name in found:
            found[same] = f"{found[same]}, {found[name]}" if same in found else found[name]
    return Headers(*(found.get(name, "") for name in _NAMES))


def unfolded(value: str) -> str:
    """The value of a header on one line."""
    return (" ".join(map(str.strip, value.split("\n"))) if "\n" in value else value).strip()


def readable(header: str) -> str:
    """A header on one line, with its RFC 2047 words decoded."""
    text = unfolded(header)
    if "=?" not in text:
        return text
    try:
        parts = decode_header(text)
    except Exception:  # bad base64, bad charset names, ...
        return text
    words = (p if isinstance(p, str) else decode(p, (c or "").lower()) for p, c in parts)
    return without_controls("".join(words))


def _journaled(body: bytes) -> bytes:
    """The message in the parts of a journal report; empty where there is none."""
    mark = _FIRST_MARK.search(body)
    parts = re.split(rb"^" + re.escape(mark[0]) + rb"(?:--)?[ \t]*\r?$\n?", body, flags=re.MULTILINE) if mark else []
    for part in parts:
        block, message = _halves(part)
        if _LETTER.search(block) and _START.match(message.lstrip()):
            return message.lstrip()
    return b""


def _halves(data: bytes) -> tuple[bytes, bytes]:
    """What stands before and behind the first blank line, which may have blanks if no header follows."""
    end = data.find(b"\n\n")
    crlf = data.find(b"\n\r\n", 0, end if end >= 0 else len(data))
    if crlf >= 0:
        block, body = data[:crlf], data[crlf + 3 :]
    else:
        block, body = (data[:end], data[end + 2 :]) if end >= 0 else (data, b"")
    blanks = _BLANKS.search(data, 0, len(block) + 2)
    return (data[: blanks.start()], data[blanks.end() :]) if blanks else (block, body)

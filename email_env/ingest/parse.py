"""From the bytes of a message to a `ParsedMail`; any bytes whatever give one, never an exception.

The header block is split by hand, because real mail breaks the stdlib's rules: a Subject that goes on in an unindented
line would turn all later headers into body. Bodies of one plain part are decoded here; anything with MIME structure
goes through the stdlib's compat32 parser. Attachments are left out, and of alternatives the plain text is taken.
"""

from __future__ import annotations

import email
import html
import quopri
import re
from datetime import datetime, timedelta
from email.header import decode_header
from email.message import Message
from email.utils import parsedate_tz
from hashlib import blake2b

from email_env.ingest.addresses import display_name, parse_addresses, parse_sender
from email_env.ingest.mail import ParsedMail

NO_DATE = "1970-01-01T00:00:00Z"
MIN_YEAR, MAX_YEAR = 1982, 2037
"""Dates outside these years are kept but marked. Mail has its form since 1982 (RFC 822); lost dates turn up as 0001,
2044 or 31 December 1979, which is the first moment of 1980 in UTC."""

_LINE_END = re.compile(r"\r?\n")
_WANTED = re.compile(  # a header goes on in every line that does not start the next one, indented or not
    r"^(message-id|date|from|to|cc|bcc|subject|x-from|content-type|content-transfer-encoding)[ \t]*:"
    r"(.*(?:\n(?![!-9;-~]+[ \t]*:).*)*)",
    re.IGNORECASE | re.MULTILINE | re.ASCII,
)
_HEADER_START = re.compile(rb"(?:From [^\n]*\n)?[!-9;-~]+[ \t]*:")
_DATE = re.compile(
    r"(?:[A-Za-z]{3},\s*)?(\d{1,2}) ([A-Za-z]{3}) (\d{4}) (\d{2}):(\d{2}):(\d{2}) ([+-])(\d{2})(\d{2})\b", re.ASCII
)
_MONTH_NAMES = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
_MONTHS = {name: number for number, name in enumerate(_MONTH_NAMES, start=1)}
_CHARSET = re.compile(r"charset\s*=\s*\"?'?([A-Za-z0-9._:-]+)", re.IGNORECASE)
_TRUSTED_CHARSET = re.compile(r"(?:utf[-_]?(?:8|16|32)|iso-|latin|windows-|cp\d|koi8|big5|gb|euc|shift|sjis|mac|tis)")
_PLAIN_ENCODINGS = frozenset({"", "7bit", "8bit", "binary"})
_TAG_NAME = re.compile(r"/?[a-z][a-z0-9]*|!--", re.IGNORECASE)
_BREAK_TAGS = frozenset({"br", "/p", "/div", "/tr", "/li", "/h1", "/h2", "/h3", "/h4"})
_HIDDEN_UNTIL = {"script": "/script", "style": "/style", "!--": "--"}
_CONTROL = re.compile("[\\x00-\\x08\\x0b\\x0c\\x0e-\\x1f\\x7f\\ud800-\\udfff]")
_CONTROL_BYTES = bytes({*range(32), 127} - {9, 10, 13})
_MESSAGE_ID = re.compile(r"<([^<>\s]+)>")
_NOT_ASCII_BASED = ("utf-16", "utf16", "utf_16", "utf-32", "utf32", "utf_32", "iso-2022")


def parse_message(data: bytes, source: str = "") -> ParsedMail:
    """Reads one RFC 822 message.

    Args:
        data: the message; CRLF, LF and mixed line ends are understood.
        source: label that `ParsedMail.source` carries on.

    Returns:
        The message. What cannot be understood is empty: bytes that are no mail have no addresses. A message without
        a Message-ID gets one made from its bytes.
    """
    headers, body = _split_message(data)
    sent_at, date_ok = parse_date(headers.get("date", ""))
    from_addr, from_name = parse_sender(_unquoted(headers.get("from", "")))
    to = parse_addresses(_unquoted(headers.get("to", "")))
    cc = tuple(a for a in parse_addresses(_unquoted(headers.get("cc", ""))) if a not in to)
    bcc = tuple(a for a in parse_addresses(_unquoted(headers.get("bcc", ""))) if a not in to and a not in cc)
    return ParsedMail(
        message_id=parse_message_id(headers.get("message-id", "")) or made_up_id(data),
        sent_at=sent_at,
        date_ok=date_ok,
        from_addr=from_addr,
        from_name=from_name or display_name(_unquoted(headers.get("x-from", ""))),
        to=to,
        cc=cc,
        bcc=bcc,
        subject=one_line(_unquoted(headers.get("subject", ""))),
        body=_body(headers, body),
        source=source,
    )


def parse_date(text: str) -> tuple[str, bool]:
    """A Date header as (UTC time `YYYY-MM-DDTHH:MM:SSZ`, whether it can be trusted)."""
    match = _DATE.match(text)
    try:
        if match:
            day, month, year, hour, minute, second, sign, zone_h, zone_m = match.groups()
            sent = datetime(int(year), _MONTHS[month.lower()], int(day), int(hour), int(minute), min(int(second), 59))
            zone = timedelta(hours=int(zone_h), minutes=int(zone_m)) * (-1 if sign == "-" else 1)
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


def timestamp(sent: datetime) -> tuple[str, bool]:
    """A UTC time without its zone as (`YYYY-MM-DDTHH:MM:SSZ`, whether it can be trusted)."""
    return sent.isoformat(timespec="seconds") + "Z", MIN_YEAR <= sent.year <= MAX_YEAR


def parse_message_id(header: str) -> str:
    """The id of a Message-ID header without its angle brackets; "" where there is none."""
    match = _MESSAGE_ID.search(header)
    return match[1] if match else "".join(header.split()).strip("<>")


def made_up_id(data: bytes) -> str:
    """A stable id for a message that has none."""
    return f"{blake2b(data, digest_size=12).hexdigest()}@no-message-id"


def _split_message(data: bytes) -> tuple[dict[str, str], bytes]:
    """The headers that matter (lower-case name -> first value, unfolded) and the undecoded body."""
    if not _HEADER_START.match(data):
        return {}, data
    block, body = _halves(data)
    headers: dict[str, str] = {}
    for name, text in _WANTED.findall(_decode(block, "")):
        if "\n" in text:
            text = " ".join(map(str.strip, _LINE_END.split(text)))
        headers.setdefault(name.lower(), text.strip())  # the first of a repeated header counts
    return headers, body


def _halves(data: bytes) -> tuple[bytes, bytes]:
    """What stands before and behind the first blank line."""
    end = data.find(b"\n\n")
    crlf = data.find(b"\n\r\n", 0, end if end >= 0 else len(data))
    if crlf >= 0:
        return data[:crlf], data[crlf + 3 :]
    return (data[:end], data[end + 2 :]) if end >= 0 else (data, b"")


def _body(headers: dict[str, str], data: bytes) -> str:
    content_type = headers.get("content-type", "").lower()
    encoding = headers.get("content-transfer-encoding", "").strip().lower()
    if not content_type or content_type.startswith("text/plain"):
        if encoding == "quoted-printable":
            data = quopri.decodestring(data)
        if encoding in _PLAIN_ENCODINGS or encoding == "quoted-printable":
            return _unix(_decode(data, _charset(content_type)))
    return clean_body(_mime_text(headers, data))  # entities may stand for control characters


def _mime_text(headers: dict[str, str], data: bytes) -> str:
    """The text of a message with MIME structure: its plain parts, else its HTML parts with the tags taken out."""
    mime = "".join(f"{n}: {headers[n]}\n" for n in ("content-type", "content-transfer-encoding") if n in headers)
    plain: list[str] = []
    rich: list[str] = []
    try:
        message = email.message_from_bytes(mime.encode("utf-8", "replace") + b"\n" + data)
        for part in message.walk():
            if part.is_multipart() or part.get_content_disposition() == "attachment":
                continue
            kind = part.get_content_type()
            if kind == "text/plain":
                plain.append(_part_text(part))
            elif kind == "text/html":
                rich.append(_part_text(part))
    except Exception:  # the stdlib's parser raises many kinds on hostile structure; the raw text is better than none
        return _decode(data, "")
    return "\n".join(plain) if any(map(str.strip, plain)) else _without_tags("\n".join(rich))


def _part_text(part: Message) -> str:
    payload = part.get_payload(decode=True)
    return _decode(payload, _charset(str(part.get("content-type", "")))) if isinstance(payload, bytes) else ""


def _without_tags(text: str) -> str:
    """HTML as text, in one pass: hostile markup costs no more than its length."""
    before, *chunks = " ".join(text.split()).split("<")
    kept = [before]
    hidden_until = ""
    for chunk in chunks:
        tag, closed, rest = chunk.partition(">")
        match = _TAG_NAME.match(tag)
        name = match[0].lower() if match else ""
        if not hidden_until and name in _HIDDEN_UNTIL:
            hidden_until = _HIDDEN_UNTIL[name]
        if hidden_until == "--":
            _, end, rest = chunk.partition("-->")
            if end:
                hidden_until = ""
                kept.append(rest)
        elif hidden_until:
            if name == hidden_until:
                hidden_until = ""
                kept.append(rest)
        elif closed and (name or tag[:1] in "!/?"):
            kept.append("\n" if name in _BREAK_TAGS else " ")
            kept.append(rest)
        else:
            kept.append("<" + chunk)
    return html.unescape("".join(kept))


def _charset(content_type: str) -> str:
    match = _CHARSET.search(content_type)
    return match[1].lower() if match else ""


def _decode(data: bytes, charset: str) -> str:
    """Text of undeclared or wrongly declared bytes: as declared, else UTF-8, else Windows-1252, else Latin-1.

    Only charsets of real mail are tried: Python also knows "unicode_escape", "idna" and the like. Control characters
    are left out.
    """
    if data.isascii() and not charset.startswith(_NOT_ASCII_BASED):
        return data.translate(None, _CONTROL_BYTES).decode("ascii")
    for name in (charset if _TRUSTED_CHARSET.match(charset) else "", "utf-8", "cp1252"):
        try:
            if name:
                return _CONTROL.sub("", data.decode(name))
        except (LookupError, UnicodeError):
            continue
    return _CONTROL.sub("", data.decode("latin-1"))


def _unquoted(text: str) -> str:
    """A header with its RFC 2047 words decoded."""
    if "=?" not in text:
        return text
    try:
        parts = decode_header(text)
    except Exception:  # bad base64, bad charset names, ...
        return text
    words = (p if isinstance(p, str) else _decode(p, (c or "").lower()) for p, c in parts)
    return _CONTROL.sub("", "".join(words))


def one_line(text: str) -> str:
    """Text without control characters, every run of white space one blank."""
    return " ".join(_CONTROL.sub(" ", text).split())


def clean_body(text: str) -> str:
    """Text with `\\n` line ends, without control characters and without blank lines around it."""
    return _unix(_CONTROL.sub("", text))


def without_controls(text: str) -> str:
    """Text without the characters that no database, terminal or report should see."""
    return _CONTROL.sub("", text)


def _unix(text: str) -> str:
    if "\r" in text:
        text = text.replace("\r\n", "\n").replace("\r", "\n")
    return text.strip("\n \t")

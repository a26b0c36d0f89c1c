"""The text of a message: its plain parts, or where it has none, its HTML without the tags.

A body of one plain part is decoded here; anything else goes through the stdlib's compat32 parser. Attachments are left
out.
"""

from __future__ import annotations

import email
import html
import quopri
import re
from email.message import Message

from email_env.ingest.text import clean_body, decode, unix_lines

_CHARSET = re.compile(r"charset\s*=\s*\"?'?([A-Za-z0-9._:-]+)", re.IGNORECASE)
_PLAIN_ENCODINGS = frozenset({"", "7bit", "8bit", "binary"})
_TAG_NAME = re.compile(r"/?[a-z][a-z0-9]*|!--", re.IGNORECASE)
_BREAK_TAGS = frozenset({"br", "/p", "/div", "/tr", "/li", "/h1", "/h2", "/h3", "/h4"})
_HIDDEN_UNTIL = {"script": "/script", "style": "/style", "!--": "--"}


def body_text(content_type: str, transfer_encoding: str, data: bytes) -> str:
    """The text of a body under these two headers; all bytes give a text."""
    kind, encoding = content_type.lower(), transfer_encoding.lower()
    if not kind or kind.startswith("text/plain"):
        if encoding == "quoted-printable":
            data = quopri.decodestring(data)
        if encoding in _PLAIN_ENCODINGS or encoding == "quoted-printable":
            return unix_lines(decode(data, _charset(kind)))
    named = (("content-type", content_type), ("content-transfer-encoding", transfer_encoding))
    mime = "".join(f"{name}: {value}\n" for name, value in named if value)
    return clean_body(_mime_text(mime, data))  # entities may stand for control characters


def _mime_text(mime: str, data: bytes) -> str:
    """The text of a message with MIME structure: its plain parts, else its HTML parts with the tags taken out."""
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
        return decode(data, "")
    return "\n".join(plain) if any(map(str.strip, plain)) else _without_tags("\n".join(rich))


def _part_text(part: Message) -> str:
    payload = part.get_payload(decode=True)
    return decode(payload, _charset(str(part.get("content-type", "")))) if isinstance(payload, bytes) else ""


def _without_tags(text: str) -> str:
    """HTML as text, in one pass, so that the cost of hostile markup is bounded by its length."""
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

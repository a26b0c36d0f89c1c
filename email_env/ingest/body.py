"""What a message says: its text, the names of its attachments, and the text of those attachments that are text.

A body of one plain part is decoded here; anything else goes through the stdlib's compat32 parser. Of alternatives, the
plain one is taken, unless it is a stub beside an HTML page that says more ("Your program cannot show this mail").
"""

from __future__ import annotations

import email
import quopri
import re
import unicodedata
from base64 import b64decode
from collections.abc import Sequence
from email.message import Message
from email.policy import Compat32
from functools import lru_cache
from typing import NamedTuple, cast

from email_env.ingest.calendar import calendar_text
from email_env.ingest.flowed import unflowed
from email_env.ingest.headers import readable
from email_env.ingest.markup import enriched_text, markup_text
from email_env.ingest.text import clean_body, codec_of, decode, decode_named
from judges.common.text import one_line, unix_lines

MAX_ATTACHED_CHARS = 5_000
"""Of the text of all attachments together, so much is kept."""
MAX_ATTACHMENTS = 100
MAX_MARKUP_CHARS = 1_000_000
"""Of all HTML of a message; of one that has more hardly anything is text, and reading this much takes two seconds."""
MAX_STUB_CHARS = 500
"""A plain alternative that is longer is no stub."""

_CHARSET = re.compile(r"charset\s*=\s*\"?'?([A-Za-z0-9._:-]+)", re.IGNORECASE)
_BASE64 = re.compile(r"(?:[A-Za-z0-9+/]*+[ \t\r]*+\n)*+(?:[A-Za-z0-9+/]*+={1,2}[ \t\r]*+(?:\n|\Z))?", re.ASCII)
_NO_BASE64 = re.compile(r"[^A-Za-z0-9+/=\s]")
_BASE64_LINE = re.compile(r"^[A-Za-z0-9+/]{32,}=*\s*$", re.MULTILINE)
_FIRST_PART = re.compile(rb'\s*--([^\s"]+)[ \t]*\r?\n(?=Content-[A-Za-z-]+:)', re.IGNORECASE)
_CALENDAR_FOLD = re.compile(rb"\r?\n[ \t]")
_ENCODING = re.compile(r"[\w-]+")
_DELETE_SPACE = re.compile(r"delsp\s*=\s*\"?yes", re.IGNORECASE)
_PLAIN_ENCODINGS = frozenset({"", "7bit", "8bit", "binary", "quoted-printable"})
_CACHED_CHARS = 500
_NOT_SHOWN = ("text/x-amp-html", "text/watch-html", "text/css")  # the first two say what the HTML beside them says
_LETTERS = ("message/rfc822", "message/global")
_NO_LETTERS = re.compile(r"https?://\S+|\W+")
_MAX_NAME_CHARS = 200
_MAX_DEPTH = 50
_HEAD_BYTES = 2048


class Content(NamedTuple):
    """What a message says.

    Attributes:
        body: its own text.
        attachments: names of the attached files, each once.
        attached: the text of attached files, calendars and messages, each below its name or its letterhead.
    """

    body: str
    attachments: tuple[str, ...] = ()
    attached: str = ""


def read_content(content_type: str, transfer_encoding: str, data: bytes, disposition: str = "") -> Content:
    """The content of a body under these headers of MIME; all bytes give one."""
    is_short = len(content_type) + len(transfer_encoding) <= _CACHED_CHARS
    if form := (_plain_form if is_short else _plain_form.__wrapped__)(content_type, transfer_encoding):
        charset, is_quoted, is_flowed = form
        text = decode(quopri.decodestring(data) if is_quoted else data, charset)
        return Content(_plain(text, content_type) if is_flowed else unix_lines(text))
    named = {"content-type": content_type, "content-transfer-encoding": transfer_encoding}
    if not content_type.lower().startswith(("text/html", "text/plain")):  # these are text, whatever they are called
        named["content-disposition"] = disposition
    mime = "".join(f"{name}: {value}\n" for name, value in named.items() if value)
    try:
        message = _parsed(mime.encode("utf-8", "replace") + b"\n" + data)
        reader = _Reader(message)
        body = reader.text(message)
    except Exception:  # the stdlib's parser raises many kinds on hostile structure; the raw text is better than none
        return Content(clean_body(decode(data, "")))
    attached = clean_body("\n\n".join(reader.attached))[:MAX_ATTACHED_CHARS]
    return Content(clean_body(body), tuple(reader.names)[:MAX_ATTACHMENTS], attached)


@lru_cache(maxsize=256)  # most mail has one of a few forms
def _plain_form(content_type: str, transfer_encoding: str) -> tuple[str, bool, bool] | None:
    """(charset, whether quoted-printable, whether flowed) of a body that is one plain part; None for any other."""
    kind, encoding = content_type.lower(), transfer_encoding.lower()
    if (kind and not kind.startswith("text/plain")) or encoding not in _PLAIN_ENCODINGS:
        return None
    return _charset(kind), encoding == "quoted-printable", "flowed" in kind


class _AsSent(Compat32):
    """Headers with their undecoded bytes, where the stdlib would put `\ufffd` for each that is not ASCII."""

    def header_fetch_parse(self, name: str, value: str) -> str:
        return value


def _parsed(data: bytes) -> Message:
    return email.message_from_bytes(data, policy=_AsSent())


class _Reader:
    """Goes through the parts of a message; `names` and `attached` collect what is beside its text, each once."""

    def __init__(self, message: Message) -> None:
        self._message = message
        self.names: dict[str, None] = {}
        self.attached: dict[str, None] = {}
        self._markup_left = MAX_MARKUP_CHARS

    def text(self, part: Message, depth: int = 0, *, rich: bool = True) -> str:
        """The text of a part and all within it; without that of HTML where it is not `rich`."""
        kind = part.get_content_type()
        if depth > _MAX_DEPTH or kind == "message/delivery-status":
            return ""
        if part.is_multipart():
            within = _within(part, kind)
            if kind == "multipart/alternative":
                return self._best(within, depth)
            if kind in _LETTERS:
                self._name(part)
            before = len(self.attached)
            texts = [self.text(one, depth + 1, rich=rich) for one in within]
            text = "\n".join(text for text in texts if text.strip())
            if kind not in _LETTERS:
                return text
            inner = list(self.attached)[before:]  # what is attached to a message stands below it
            self.attached[f"{self._letterhead(within[0])}\n\n{text}"] = None
            for said in inner:
                self.attached[said] = self.attached.pop(said)
            return ""
        if self._is_attachment(part, kind):
            self._attach(part, kind)
            return ""
        if kind in _NOT_SHOWN:
            return ""
        if kind == "text/calendar":
            self.attached[self._calendar(part)] = None
            return ""
        if kind == "text/html":
            return self._page(part) if rich else ""
        if kind == "text/rfc822-headers":  # of the mail that bounced
            self.attached[self._letterhead(_parsed(self._decoded(part).encode("utf-8", "surrogateescape")))] = None
            return ""
        if whole := _with_its_boundary(part, kind):
            return self.text(whole, depth + 1, rich=rich)
        return self._text_of(part, kind)

    def _best(self, parts: Sequence[Message], depth: int) -> str:
        """The plain one of alternatives, or what the others say where it is a stub."""
        plain = next((part for part in parts if part.get_content_type() == "text/plain"), None)
        said = self._text_of(plain, "text/plain") if plain else ""
        is_short = len(said.strip()) <= MAX_STUB_CHARS
        others = [self.text(part, depth + 1, rich=is_short) for part in parts if part is not plain]
        longest = max(others, key=len, default="") if is_short else ""
        return longest if _letters(longest) > 2 * _letters(said) else said

    def _is_attachment(self, part: Message, kind: str) -> bool:
        """Whether a part is a file of its own, not text of the mail nor a picture in it."""
        disposition = part.get_content_disposition()
        if disposition == "attachment" or not part.get_filename():
            return disposition == "attachment"
        return not (kind.startswith("image/") and part["content-id"])

    def _name(self, part: Message) -> str:
        """The name of a file; it counts as attached."""
        name = one_line(self._header(part.get_filename() or ""))
        name = unicodedata.normalize("NFC", name)[:_MAX_NAME_CHARS]  # of Macs
        if name:
            self.names[name] = None
        return name

    def _letterhead(self, message: Message) -> str:
        """The headers of a message within a message that one wants to know."""
        found = ((name, one_line(self._header(message.get(name, "")))) for name in ("From", "Date", "Subject"))
        return "\n".join(f"{name}: {value}" for name, value in found if value)

    def _header(self, value: str) -> str:
        """What a header says."""
        data = b"" if value.isascii() else value.encode("utf-8", "surrogateescape")
        return readable(self._named_or_guessed(data) if data else value)

    def _text_of(self, part: Message, kind: str) -> str:
        """The text of a leaf; "" where it has none. Where the boundary of parts is lost, the whole is text."""
        if kind == "text/enriched":
            return enriched_text(self._decoded(part))
        if kind.startswith(("text/", "multipart/")):
            return _plain(self._decoded(part), part.get("content-type", ""))
        return ""

    def _calendar(self, part: Message) -> str:
        """Its lines are unfolded first: some programs fold inside a letter of UTF-8."""
        payload = _payload(part)
        data = _CALENDAR_FOLD.sub(b"", payload) if isinstance(payload, bytes) else b""
        return calendar_text(self._named_or_guessed(data, _charset(part.get("content-type", ""))))

    def _decoded(self, part: Message) -> str:
        payload, charset = _payload(part), _charset(part.get("content-type", ""))
        if not isinstance(payload, bytes):
            return ""
        if part.get_content_type() == "text/html" and not codec_of(charset):
            return decode_named(payload, _HEAD_BYTES)
        return self._named_or_guessed(payload, charset)

    def _named_or_guessed(self, data: bytes, charset: str = "") -> str:
        """The text of bytes. Where no charset is named, they are UTF-8 or have the one that another part names."""
        try:
            charset = charset or (data.decode() and "")
        except UnicodeDecodeError:
            charset = next(filter(None, self._message.get_charsets()), "")
        return decode(data, charset)

    def _attach(self, part: Message, kind: str) -> None:
        name = self._name(part)
        text = ""
        if kind == "text/calendar" or name.lower().endswith(".ics"):
            text = self._calendar(part)
        elif kind == "text/html":
            text = self._page(part)
        elif kind.startswith("text/"):
            text = self._text_of(part, kind)
        if text.strip():
            self.attached[f"[{name}]\n{text}" if name else text] = None

    def _page(self, part: Message) -> str:
        page = self._decoded(part)[: self._markup_left]
        self._markup_left -= len(page)
        return markup_text(page)


def _within(part: Message, kind: str) -> Sequence[Message]:
    """The parts of a part; a message within it may be packed, which the standards forbid."""
    within = cast(Sequence[Message], part.get_payload())
    encoding = part.get("content-transfer-encoding", "")
    if kind in _LETTERS and "base64" in encoding.lower() and not within[0].keys():
        within[0]["content-transfer-encoding"] = encoding
        return [_parsed(cast(bytes, _payload(within[0])))]
    return within


def _with_its_boundary(part: Message, kind: str) -> Message | None:
    """What should have parts and has none, read by the boundary with which it begins; None for anything else."""
    data = _payload(part) if kind.startswith("multipart/") else None
    mark = _FIRST_PART.match(data) if isinstance(data, bytes) else None
    return _parsed(b'Content-Type: %b; boundary="%b"\n\n%b' % (kind.encode(), mark[1], data)) if mark else None


def _plain(text: str, content_type: str) -> str:
    """Plain text with `\\n` line ends, and with its paragraphs on one line each where it was sent so."""
    text = unix_lines(text)
    if "flowed" not in content_type.lower():
        return text
    return unflowed(text, delete_space=_DELETE_SPACE.search(content_type) is not None)


def _letters(text: str) -> int:
    """How many letters and digits a text has outside web addresses."""
    return len(_NO_LETTERS.sub("", text))


def _payload(part: Message) -> object:
    """The bytes of a leaf. Behind base64 may stand plain text: servers of lists put it there."""
    text = part.get_payload()
    encoding = _ENCODING.search(part.get("content-transfer-encoding", ""))
    if encoding:  # the stdlib decodes none with a blank or semicolon behind it
        part.replace_header("content-transfer-encoding", encoding[0])
    if isinstance(text, str) and encoding and encoding[0].lower() == "base64":
        packed = _BASE64.match(text)
        behind = text[packed.end() :] if packed else ""
        if packed and _NO_BASE64.search(behind) and not _BASE64_LINE.search(behind):
            padded = "".join(packed[0].split())
            return b64decode(padded + "=" * (-len(padded) % 4)) + b"\n" + behind.encode("utf-8", "surrogateescape")
    return part.get_payload(decode=True)


def _charset(content_type: str) -> str:
    match = _CHARSET.search(content_type)
    return match[1].lower() if match else ""

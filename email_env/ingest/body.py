"""What a message says: its text, the names of its attachments, and the text of those attachments that are text.

Of alternatives, the plain one is taken, unless it is a stub beside an HTML page that says more ("Your program cannot
show this mail"). Other kinds of text are read as plain text, and not as alternatives where these two are.

Every part whose text is not read is named: by the name of its file, or else by its kind, as `application/pkcs7-mime` of
a mail that only its reader's key opens. A picture is no attachment where a page of the message shows it.
"""

import re
import unicodedata
from collections.abc import Mapping, Sequence
from functools import cached_property
from html import unescape
from urllib.parse import unquote

from email_env.ingest.formats import calendar_text, page_text, unflowed
from email_env.ingest.headers import readable
from email_env.ingest.parts import Part, Parts, as_sent
from email_env.ingest.text import codec_of, decode, decode_named, is_utf8
from judges.common.text import one_line, unix_lines

MAX_ATTACHED_CHARS = 5_000
"""Of the text of all attachments together, so much is kept."""
MAX_ATTACHMENTS = 100
MAX_PAGE_CHARS = 1_000_000
"""Of all HTML of a message; of one that has more hardly anything is text, and reading this much takes two seconds."""
MAX_STUB_CHARS = 500
"""A plain alternative that is longer is no stub."""

_CHARSET = re.compile(r"charset\s*=\s*\"?'?([A-Za-z0-9._:-]+)", re.IGNORECASE)
_CALENDAR_FOLD = re.compile(rb"\r?\n[ \t]")
_DELETE_SPACE = re.compile(r"delsp\s*=\s*\"?yes", re.IGNORECASE)
_NO_LETTERS = re.compile(r"https?://\S+|\W+")
_SHOWN = re.compile(rb"cid:([^\s\"'<>)]+)")
_UUENCODED = re.compile(r"\nbegin [0-7]{3,4} +(\S[^\n]*)\n(?:[!-`][ -`]*+(?:\n|\Z))++ ?\n?(?:end[ \t]*(?=\n|\Z)|\Z)")
_MAX_NAME_CHARS = 200
_HEAD_BYTES = 2048


def read_content(headers: Mapping[str, str], data: bytes) -> tuple[str, tuple[str, ...], str]:
    """What a body under these headers says, of which those of MIME count; all bytes say something.

    Returns:
        Its own text; the names of the attached files, each once; the text of attached files, calendars and messages,
        each below its name or its letterhead.
    """
    message = Part(headers, as_sent(data))
    try:
        Parts().take_apart(message)
        reader = _Reader(message)
        body = reader.text(message)
    except Exception:  # the stdlib raises many kinds on hostile headers; the raw text is better than none
        return unix_lines(decode(data, "")), (), ""
    attached = unix_lines("\n\n".join(dict.fromkeys(filter(None, reader.attached))))[:MAX_ATTACHED_CHARS]
    names = dict.fromkeys(filter(None, reader.names))
    return unix_lines(body), tuple(names)[:MAX_ATTACHMENTS], attached


class _Reader:
    """Goes through the parts of a message; `names` and `attached` collect what is beside its text."""

    def __init__(self, message: Part) -> None:
        self._message = message
        self.names: list[str] = []
        self.attached: list[str] = []
        self._page_chars_left = MAX_PAGE_CHARS

    def text(self, part: Part, *, rich: bool = True) -> str:
        """The text of a part and all within it; without that of HTML where it is not `rich`."""
        kind = part.kind
        if part.within:
            if kind == "multipart/alternative":
                return self._best(part.within)
            if kind == "message/rfc822":
                return self._attach_letter(part, part.within[0])
            texts = (self.text(one, rich=rich) for one in part.within)
            return "\n".join(text for text in texts if text.strip())
        if self._is_attachment(part, kind):
            self._attach(part, kind)
        elif kind == "text/calendar":
            self.attached.append(self._calendar(part))
        elif kind == "text/html" and rich:
            return self._page(part)
        elif kind != "text/html" and kind.startswith(("text/", "multipart/")):  # lost its boundary: the whole is text
            return self._plain(part)
        return ""

    def _best(self, parts: Sequence[Part]) -> str:
        """The plain one of alternatives, or what the others say where it is a stub."""
        parts = [part for part in parts if not _is_other_text(part)] or parts
        plain = next((part for part in parts if part.kind == "text/plain"), None)
        said = self._plain(plain) if plain else ""
        is_short = len(said.strip()) <= MAX_STUB_CHARS
        others = [self.text(part, rich=is_short) for part in parts if part is not plain]
        longest = max(others, key=len, default="") if is_short else ""
        return longest if _letters(longest) > 2 * _letters(said) else said

    def _is_attachment(self, part: Part, kind: str) -> bool:
        """Whether a part is a file of its own, not text of the mail nor a picture in it."""
        if part is self._message and kind in ("text/plain", "text/html"):
            return False
        if part.message.get_content_disposition() == "attachment":
            return True
        if kind.startswith(("text/", "multipart/", "message/")):  # as the report of a bounce
            return bool(part.message.get_filename())
        return not kind.startswith("image/") or part.header("content-id").strip("<> ") not in self._shown

    @cached_property
    def _shown(self) -> set[str]:
        """The Content-Ids of the pictures that pages of the message show."""
        pages = (part.content() for part in self._message.walk() if part.kind == "text/html")
        shown = (name.decode("utf-8", "replace") for page in pages for name in _SHOWN.findall(page))
        return {unquote(unescape(name)) for name in shown}

    def _attach(self, part: Part, kind: str) -> None:
        name = self._name(part)
        self.names.append(name or ("" if kind.startswith("text/") else kind))
        text = ""
        if kind == "text/calendar" or name.lower().endswith(".ics"):
            text = self._calendar(part)
        elif kind == "text/html":
            text = self._page(part)
        elif kind.startswith("text/"):
            text = self._plain(part)
        if text.strip():
            self.attached.append(f"[{name}]\n{text}" if name else text)

    def _attach_letter(self, part: Part, letter: Part) -> str:
        """A message within a message counts as attached, and stands before what is attached to it."""
        self.names.append(self._name(part))
        place = len(self.attached)
        self.attached.append("")
        headers = ((name, one_line(self._header(letter.header(name.lower())))) for name in ("From", "Date", "Subject"))
        letterhead = "\n".join(f"{name}: {value}" for name, value in headers if value)
        self.attached[place] = f"{letterhead}\n\n{self.text(letter)}"
        return ""

    def _name(self, part: Part) -> str:
        """The name of a file."""
        name = one_line(self._header(part.message.get_filename() or ""))[:_MAX_NAME_CHARS]
        return unicodedata.normalize("NFC", name)  # Macs write letters in parts

    def _header(self, value: str) -> str:
        """What a header says."""
        return readable(value if value.isascii() else self._decoded(value.encode("utf-8", "surrogateescape")))

    def _page(self, part: Part) -> str:
        data, charset = part.content(), _charset(part.header("content-type"))
        page = self._decoded(data, charset) if codec_of(charset) else decode_named(data, _HEAD_BYTES)
        page = page[: self._page_chars_left]
        self._page_chars_left -= len(page)
        return page_text(page)

    def _calendar(self, part: Part) -> str:
        """Its lines are unfolded first: some programs fold inside a letter of UTF-8."""
        data = _CALENDAR_FOLD.sub(b"", part.content())
        return calendar_text(self._decoded(data, _charset(part.header("content-type"))))

    def _plain(self, part: Part) -> str:
        """Plain text with `\\n` line ends, and with its paragraphs on one line each where it was sent so."""
        content_type = part.header("content-type").lower()
        text = unix_lines(self._decoded(part.content(), _charset(content_type)))
        if "begin " in text:
            text = _UUENCODED.sub(self._file_in_text, f"\n{text}").removeprefix("\n")
        if "flowed" not in content_type:
            return text
        return unflowed(text, delete_space=_DELETE_SPACE.search(content_type) is not None)

    def _file_in_text(self, uuencoded: re.Match[str]) -> str:
        """Names a file that stands in the text itself, as mail had it before MIME."""
        self.names.append(one_line(uuencoded[1])[:_MAX_NAME_CHARS])
        return ""

    def _decoded(self, data: bytes, charset: str = "") -> str:
        """The text of bytes. Where no charset is named, they are UTF-8 or have the one that another part names."""
        return decode(data, charset or ("" if is_utf8(data) else self._usual_charset))

    @cached_property
    def _usual_charset(self) -> str:
        return next(filter(None, (_charset(part.header("content-type")) for part in self._message.walk())), "")


def _is_other_text(part: Part) -> bool:
    """Whether a part is text, but of none of the usual kinds."""
    return part.kind.startswith("text/") and part.kind not in ("text/plain", "text/html", "text/calendar")


def _letters(text: str) -> int:
    """How many letters and digits a text has outside web addresses."""
    return len(_NO_LETTERS.sub("", text))


def _charset(content_type: str) -> str:
    match = _CHARSET.search(content_type)
    return match[1].lower() if match else ""

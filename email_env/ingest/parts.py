"""A message as the tree of its parts, found by our own code; the stdlib's `Message` reads parameters, and unpacks.

The stdlib compares every line with the boundary of every part around it, and makes objects without end of a message
that is all boundaries. It also reads the parameters of a header in time that grows with the square of their number.
"""

import re
from collections.abc import Iterator, Mapping
from email.message import Message
from email.policy import Compat32
from functools import cached_property
from typing import cast

MAX_DEPTH = 50
MAX_PARTS = 1_000
"""What is in more parts than `MAX_DEPTH`, or behind so many, is not taken apart."""
MAX_PARAMETERS = 100
"""Of a header; a long name of a file comes in pieces, of which each is one."""

_MIME = ("content-type", "content-transfer-encoding", "content-disposition")
_HEADER = re.compile(r"([!-9;-~]++):([^\n]*+(?:\n[ \t][^\n]*+)*+)(?:\n|\Z)")
_HEADERS = re.compile(rf"(?:{_HEADER.pattern})*+")
_AS_IT_IS = ("", "7bit", "8bit", "binary")
_LINE_END = re.compile(r"(--)?[ \t]*+\r?(?:\n|\Z)")


class _AsSent(Compat32):
    """Headers with their undecoded bytes, where the stdlib would put `\ufffd` for each that is not ASCII."""

    def header_fetch_parse(self, name: str, value: str) -> str:
        return value


_POLICY = _AsSent()


class Part:
    """A part or a message.

    Attributes:
        headers: each on one line, by lower-case name.
        text: the bytes of its body as the stdlib keeps bytes.
        kind: its content type, in lower case.
        within: its parts.
    """

    def __init__(self, headers: Mapping[str, str], text: str, usual_kind: str = "text/plain") -> None:
        self.headers = headers
        self.text = text
        kind = self.header("content-type").partition(";")[0].strip().lower() or usual_kind
        self.kind = kind if kind.count("/") == 1 else "text/plain"
        self.within: list[Part] = []

    def header(self, name: str) -> str:
        """What a header says; "" where it is missing."""
        return self.headers.get(name, "")

    def walk(self) -> Iterator["Part"]:
        """This one and all within it."""
        yield self
        for part in self.within:
            yield from part.walk()

    @cached_property
    def message(self) -> Message:
        """The stdlib's view of the headers of MIME."""
        message = Message(_POLICY)
        for name in _MIME:
            if value := self.header(name):
                message[name] = ";".join(value.split(";")[:MAX_PARAMETERS])
        return message

    def content(self) -> bytes:
        """The bytes of a leaf, unpacked; those of a uuencoded file stay so, because its name is in them."""
        encoding = self.header("content-transfer-encoding").lower()
        data = self.text.encode("ascii", "surrogateescape")
        if encoding in _AS_IT_IS:
            return data
        self.message.set_payload(self.text)
        unpacked = cast(bytes, self.message.get_payload(decode=True)) or b""
        return data if b"\0" in unpacked and "uu" in encoding else unpacked


class Parts:
    """Takes one message apart."""

    def __init__(self) -> None:
        self._left = MAX_PARTS

    def take_apart(self, part: Part, depth: int = 0) -> None:
        """Finds the parts within a part."""
        if depth == MAX_DEPTH:
            return
        if part.kind == "message/rfc822":
            part.within = [_part(as_sent(part.content().lstrip()))]
        elif part.kind.startswith("multipart/") and (boundary := part.message.get_boundary()):
            separator = as_sent(boundary.encode("utf-8", "surrogateescape"))
            part.text, *pieces = self._pieces(f"\n{part.text}", f"\n--{separator}")
            usual_kind = "message/rfc822" if part.kind == "multipart/digest" else "text/plain"
            part.within = [_part(piece, usual_kind) for piece in pieces]
        for one in part.within:
            self.take_apart(one, depth + 1)

    def _pieces(self, text: str, separator: str) -> list[str]:
        """What stands before the first line `--boundary` and behind each, up to the next one or to `--boundary--`."""
        before, *others = text.split(separator, self._left)
        pieces = [[before]]
        for piece in others:
            end = _LINE_END.match(piece)
            if end and end[1]:
                break
            if end:
                pieces.append([piece[end.end() :]])
            else:  # a longer boundary that begins so
                pieces[-1] += separator, piece
        self._left -= len(pieces) - 1
        return ["".join(piece).removesuffix("\r") for piece in pieces]


def as_sent(data: bytes) -> str:
    """Bytes as the stdlib keeps them in a `Message`."""
    return data.decode("ascii", "surrogateescape")


def _part(text: str, usual_kind: str = "text/plain") -> Part:
    """A part with its headers; they end at the first line that is none, because some forget the blank line."""
    end = cast(re.Match[str], _HEADERS.match(text)).end()
    headers = {
        name.lower(): " ".join(map(str.strip, value.split("\n"))).strip()
        for name, value in reversed(_HEADER.findall(text[:end]))
    }
    return Part(headers, text[end:].removeprefix("\r").removeprefix("\n"), usual_kind)

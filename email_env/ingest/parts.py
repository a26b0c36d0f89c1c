"""A message as the tree of its parts: the stdlib's `Message`, whose parts are found by our own code.

The stdlib compares every line with the boundary of every part around it, and makes objects without end of a message
that is all boundaries. It also reads the parameters of a header in time that grows with the square of their number.
"""

import re
from email.message import Message
from email.policy import Compat32
from typing import Any, cast

MAX_DEPTH = 50
MAX_PARTS = 1_000
"""What is in more parts than `MAX_DEPTH`, or behind so many, is not taken apart."""
MAX_PARAMETERS = 100
"""Of a header; a long name of a file comes in pieces, of which each is one."""

_HEADER = re.compile(r"([!-9;-~]++):([^\n]*+(?:\n[ \t][^\n]*+)*+)(?:\n|\Z)")
_HEADERS = re.compile(rf"(?:{_HEADER.pattern})*+")
_AS_IT_IS = ("", "7bit", "8bit", "binary")
_LINE_END = re.compile(r"(--)?[ \t]*+\r?(?:\n|\Z)")


class _AsSent(Compat32):
    """Headers with their undecoded bytes, where the stdlib would put `\ufffd` for each that is not ASCII."""

    def header_fetch_parse(self, name: str, value: str) -> str:
        return value


_POLICY = _AsSent()


class Part(Message):
    """A part or a message; `text` has the bytes of its body as the stdlib keeps bytes."""

    def __init__(self, text: str) -> None:
        super().__init__(_POLICY)
        self.text = text

    def add(self, name: str, value: str) -> None:
        """Gives it a header, on one line."""
        line = " ".join(map(str.strip, value.split("\n"))).strip() if "\n" in value else value.strip()
        self[name] = line if line.count(";") < MAX_PARAMETERS else ";".join(line.split(";")[:MAX_PARAMETERS])

    def content(self) -> bytes:
        """The bytes of a leaf, unpacked; those of a uuencoded file stay so, because its name is in them."""
        encoding = self.get("content-transfer-encoding", "").lower()
        data = self.text.encode("ascii", "surrogateescape")
        if encoding in _AS_IT_IS:
            return data
        self.set_payload(self.text)
        unpacked = cast(bytes, self.get_payload(decode=True)) or b""
        return data if b"\0" in unpacked and "uu" in encoding else unpacked


class Parts:
    """Takes one message apart."""

    def __init__(self) -> None:
        self._left = MAX_PARTS

    def take_apart(self, part: Part, depth: int = 0) -> None:
        """Finds the parts within a part."""
        kind = part.get_content_type()
        within: list[Part] = []
        if kind.startswith("message/rfc822") and depth < MAX_DEPTH:
            within = [_part(as_sent(part.content().lstrip()))]
        elif kind.startswith("multipart/") and depth < MAX_DEPTH and (boundary := part.get_boundary()):
            part.text, *pieces = self._pieces(
                f"\n{part.text}", "\n--" + as_sent(boundary.encode("utf-8", "surrogateescape"))
            )
            within = list(map(_part, pieces))
        for one in within:
            if kind == "multipart/digest":
                one.set_default_type("message/rfc822")
            self.take_apart(one, depth + 1)
        if within:
            part.set_payload(cast(Any, within))

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


def _part(text: str) -> Part:
    """A part with its headers; they end at the first line that is none, because some forget the blank line."""
    end = cast(re.Match[str], _HEADERS.match(text)).end()
    part = Part(text[end:].removeprefix("\r").removeprefix("\n"))
    for name, value in _HEADER.findall(text[:end]):
        part.add(name, value)
    return part

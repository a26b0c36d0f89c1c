"""What every source gives: a stream of mail, and how far it has been read."""

from collections.abc import Callable, Generator, Iterable, Iterator
from dataclasses import dataclass, field
from typing import IO

from email_env.ingest.parse import parse_message
from email_env.mail import ParsedMail, RawMail, Skip, SkipReason
from email_env.scenarios.scenario import Scenario

MAX_MESSAGE_BYTES = 32 * 1024 * 1024
"""A message over this size is skipped unread."""
MARK = "::"
"""In a label, behind the name of one of several sources, or of an archive or a table in a folder."""

OUTLOOK = (".pst", ".ost", ".msg")
OUTLOOK_ADVICE = " readpst makes mbox files of a .pst, and msgconvert an .eml of a .msg."
_NAMED = 5
_USUAL_BYTES = 1 << 16


@dataclass(frozen=True, slots=True)
class Note:
    """What the user should know about a source, though no message is left out."""

    text: str


Entry = RawMail | ParsedMail | Skip | Note
Reader = Callable[[str, IO[bytes]], Iterator[Entry]]
"""Makes mail of the bytes of a file; takes its name, for errors and labels."""


@dataclass(frozen=True, slots=True)
class Source:
    """A stream of mail with what a progress display and the database's metadata need.

    Attributes:
        name: as the database's metadata names it.
        mails: the mail, which can be read once. Close it if it is not read to its end.
        scenarios: questions that come with the mail.
        notes: what the user should know about what has been read of `mails`.
        total: size of the whole in the unit of `position`; 0 as long as it is not known.
        position: how far `mails` has been read, in bytes, files or messages.
        checksum: SHA-256 of the source's bytes once `mails` has been read to its end; "" before, and for sources that
            are no single file.
    """

    name: str
    mails: Generator[ParsedMail | Skip, None, None]
    scenarios: list[Scenario] = field(default_factory=list[Scenario])
    notes: list[str] = field(default_factory=list[str])
    total: Callable[[], int] = lambda: 0
    position: Callable[[], int] = lambda: 0
    checksum: Callable[[], str] = lambda: ""


def counted_source(
    name: str, pieces: Iterable[Iterable[Entry]], total: int, scenarios: Iterable[Scenario] = ()
) -> Source:
    """A source whose progress is counted in pieces: files, or records of one mail each."""
    begun = 0

    def counted() -> Generator[Entry, None, None]:
        nonlocal begun
        for piece in pieces:
            begun += 1
            yield from piece

    notes: list[str] = []
    return Source(name, parsed(name, counted(), notes), list(scenarios), notes, lambda: total, lambda: begun)


def parsed(name: str, entries: Iterable[Entry], notes: list[str]) -> Generator[ParsedMail | Skip, None, None]:
    """The entries with every raw mail parsed; notes go to the list. `name` is that of the source."""
    packed: list[str] = []
    number = 0
    try:
        for entry in entries:
            if isinstance(entry, RawMail):
                yield parse_message(entry.data, entry.source, entry.filed, entry.emlx_flags)
            elif isinstance(entry, Note):
                notes.append(entry.text)
            else:
                if isinstance(entry, Skip) and entry.reason is SkipReason.PACKED:
                    number += 1
                    if number <= _NAMED:
                        packed.append(entry.source)
                yield entry
    finally:
        if packed:
            more = f" and {number - _NAMED:,} more" if number > _NAMED else ""
            advice = OUTLOOK_ADVICE if any(each.lower().endswith(OUTLOOK) for each in packed) else ""
            notes.append(
                f"{name}: packed files in it are not opened: {', '.join(packed)}{more}. If mail is in them, unpack them"
                f" and name what comes out.{advice}"
            )


def is_too_large(size_bytes: int) -> bool:
    """Whether a message of this size is to be skipped unread."""
    return size_bytes > MAX_MESSAGE_BYTES


def whole_message(handle: IO[bytes]) -> bytes | None:
    """The bytes of a file that is one message; None where it is too large."""
    data = handle.read(_USUAL_BYTES)
    if len(data) == _USUAL_BYTES:  # asked for at once, room for the largest would be made for every message
        data += handle.read(MAX_MESSAGE_BYTES)
    return None if is_too_large(len(data)) else data


def storable(label: str) -> str:
    """The label of a message as text that a database and a report can hold."""
    if label.isascii() and label.isprintable():
        return label
    return label.encode("utf-8", "replace").decode("utf-8").replace("\x00", "?")

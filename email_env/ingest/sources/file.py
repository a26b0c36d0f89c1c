"""One file of a folder or an archive, read for what it is: an mbox, gzipped or not, a table, or else one message.

What else is packed is not opened, and counted as such; so are files of Outlook's. Apple Mail's `.emlx` is a message
between a line with its length in bytes and a property list.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from typing import IO, Any, cast

from email_env.errors import SourceError
from email_env.ingest.sources.gzipped import is_gzipped, unpacked
from email_env.ingest.sources.mbox import begins_mbox, mbox_mails
from email_env.ingest.sources.records import jsonl_mails
from email_env.ingest.sources.source import MARK, Entry, Note, is_too_large
from email_env.ingest.sources.table import csv_mails
from email_env.mail import RawMail, Skip, SkipReason

Reader = Callable[[str, IO[bytes]], Iterator[Entry]]

_TABLES: dict[str, Reader] = {".csv": csv_mails, ".jsonl": jsonl_mails}
_BEGINNING_BYTES = 4096
_PACKED = (b"PK\x03\x04", b"BZh", b"\xfd7zXZ\x00", b"\x28\xb5\x2f\xfd", b"7z\xbc\xaf\x27\x1c", b"Rar!\x1a\x07")
OUTLOOK = (".pst", ".ost", ".msg")
_OUTLOOK = (b"!BDN", b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1")
_TAR, _TAR_AT = (b"ustar\x00", b"ustar  \x00"), 257
_TRASHED = re.compile(r"(?:^|/)cur/[^/]*[:;!]2,[A-Za-z]*T[A-Za-z]*\Z")  # as Maildirs mark it
_EMLX_LENGTH = re.compile(rb"(\d{1,12})[ \t]*\r?\n")


def file_mails(label: str, size_bytes: int, handle: IO[bytes]) -> Iterator[Entry]:
    """The mail of a file. A message may not be too large; an mbox or a table may have any size.

    Raises:
        SourceError: a table turns out to be damaged after some of its mail has been read, or a gzipped file anywhere.
    """
    beginning: bytes = cast(Any, handle).peek(_BEGINNING_BYTES)
    if table := next((read for suffix, read in _TABLES.items() if label.lower().endswith(suffix)), None):
        yield from contained(label, table(label, handle), MARK)
    elif _TRASHED.search(label):
        yield Skip(label, SkipReason.DELETED)
    elif begins_mbox(beginning):
        yield from contained(label, mbox_mails(label, handle), "/")
    elif is_gzipped(handle):
        yield from gzipped_mails(label, label, handle)
    elif is_packed(beginning) or (label.lower().endswith(OUTLOOK) and beginning.startswith(_OUTLOOK)):
        yield Skip(label, SkipReason.PACKED)
    elif is_too_large(size_bytes):
        yield Skip(label, SkipReason.TOO_LARGE)
    else:
        data = handle.read()
        yield RawMail(label, _message_of_emlx(data) if label.lower().endswith(".emlx") else data)


def gzipped_mails(label: str, name: str, handle: IO[bytes]) -> Iterator[Entry]:
    """The mail of a gzipped mbox, which may have any size; `name` is that of the file, for errors.

    Raises:
        SourceError: it is damaged, cut short, or made to exhaust the machine.
    """
    plain = unpacked(name, handle)
    if begins_mbox(cast(Any, plain).peek(_BEGINNING_BYTES).lstrip(b"\r\n")):
        yield from contained(label, mbox_mails(name, plain), "/", is_sure=True)
    else:
        yield Skip(label, SkipReason.PACKED)


def is_packed(beginning: bytes) -> bool:
    """Whether a file that begins so holds others, or was packed by another program than gzip."""
    return beginning.startswith(_PACKED) or beginning.startswith(_TAR, _TAR_AT)


def _message_of_emlx(data: bytes) -> bytes:
    length = _EMLX_LENGTH.match(data)
    return data[length.end() : length.end() + int(length[1])] if length else data


def contained(label: str, entries: Iterable[Entry], mark: str, *, is_sure: bool = False) -> Iterator[Entry]:
    """The entries of a file in a folder or an archive, labelled with its place there.

    Raises:
        SourceError: it turns out to be damaged after some of its mail has been read, or it `is_sure` that the file is
            what it is read for: mail would be missing without a word. Any other file is no mail, and is skipped.
    """
    begun = is_sure
    try:
        for entry in entries:
            begun = True
            yield entry if isinstance(entry, Note) else replace(entry, source=f"{label}{mark}{entry.source}")
    except SourceError:
        if begun:
            raise
        yield Skip(label, SkipReason.UNREADABLE)

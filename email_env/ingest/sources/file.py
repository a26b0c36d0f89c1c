"""One file of a folder or an archive, read for what it is: an mbox, a table, or else one message.

Apple Mail's `.emlx` is a message between a line with its length in bytes and a property list.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from typing import IO, Any, cast

from email_env.errors import SourceError
from email_env.ingest.sources.mbox import begins_mbox, mbox_mails
from email_env.ingest.sources.records import jsonl_mails
from email_env.ingest.sources.source import MARK, Entry, Note, is_too_large
from email_env.ingest.sources.table import csv_mails
from email_env.mail import RawMail, Skip, SkipReason

Reader = Callable[[str, IO[bytes]], Iterator[Entry]]

_TABLES: dict[str, Reader] = {".csv": csv_mails, ".jsonl": jsonl_mails}
_BEGINNING_BYTES = 4096
_EMLX_LENGTH = re.compile(rb"(\d{1,12})[ \t]*\r?\n")


def file_mails(label: str, size_bytes: int, handle: IO[bytes]) -> Iterator[Entry]:
    """The mail of a file. A message may not be too large; an mbox or a table may have any size.

    Raises:
        SourceError: a table turns out to be damaged after some of its mail has been read.
    """
    if table := next((read for suffix, read in _TABLES.items() if label.lower().endswith(suffix)), None):
        yield from contained(label, table(label, handle), MARK)
    elif begins_mbox(cast(Any, handle).peek(_BEGINNING_BYTES)):
        yield from contained(label, mbox_mails(label, handle), "/")
    elif is_too_large(size_bytes):
        yield Skip(label, SkipReason.TOO_LARGE)
    else:
        data = handle.read()
        yield RawMail(label, _message_of_emlx(data) if label.lower().endswith(".emlx") else data)


def _message_of_emlx(data: bytes) -> bytes:
    length = _EMLX_LENGTH.match(data)
    return data[length.end() : length.end() + int(length[1])] if length else data


def contained(label: str, entries: Iterable[Entry], mark: str) -> Iterator[Entry]:
    """The entries of a file in a folder or an archive, labelled with its place there.

    Raises:
        SourceError: it turns out to be damaged after some of its mail has been read: mail would be missing without a
            word. Before that, a file is no mail, and is skipped.
    """
    begun = False
    try:
        for entry in entries:
            begun = True
            yield entry if isinstance(entry, Note) else replace(entry, source=f"{label}{mark}{entry.source}")
    except SourceError:
        if begun:
            raise
        yield Skip(label, SkipReason.UNREADABLE)

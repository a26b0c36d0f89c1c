"""A table of whole messages: the columns `file` and `message` of Kaggle's emails.csv.

One expression matches a row that has these two columns in this order, with the message in quotes. The standard library
reads every other row, which takes four times as long.
"""

from __future__ import annotations

import csv
import re
import sys
from collections.abc import Iterator
from typing import IO

from email_env.errors import SourceError
from email_env.ingest.sources.source import Entry, is_too_large, storable
from email_env.mail import RawMail, Skip, SkipReason

_BLOCK_BYTES = 1 << 20
_USUAL_NAMES = ["file", "message"]
_USUAL_ROW = re.compile(rb'(?:"([^"\r\n]*+)"|([^",\r\n]*+)),"([^"]*+(?:""[^"]*+)*+)"\r?\n')


def csv_mails(name: str, handle: IO[bytes]) -> Iterator[Entry]:
    """The rows of a table.

    Raises:
        SourceError: it has no column `message`, or is no table.
    """
    csv.field_size_limit(min(sys.maxsize, 2**31 - 1))  # the default, 131,072 characters, is below real mail
    table = _Table(handle)
    rows = csv.reader(table.lines())
    try:
        names = [column.strip().lower() for column in next(rows, [])]
        if "message" not in names:
            raise SourceError(f"{name!r} has no column `message`; its first line is {', '.join(names)[:200]!r}.")
        message, file = names.index("message"), names.index("file") if "file" in names else None
        while True:
            if names == _USUAL_NAMES:
                yield from table.usual_rows()
            if (row := next(rows, None)) is None:
                return
            label = storable(row[file]) if file is not None and file < len(row) else f"line {table.line}"
            if len(row) == len(names):
                yield _mail(label, row[message].encode("utf-8", "surrogateescape"))
            else:
                yield Skip(label, SkipReason.UNREADABLE)
    except (csv.Error, OSError, UnicodeError) as error:
        raise SourceError(f"{name!r} cannot be read at line {table.line}: {error}.") from error


def _mail(label: str, data: bytes) -> Entry:
    return Skip(label, SkipReason.TOO_LARGE) if is_too_large(len(data)) else RawMail(label, data)


class _Table:
    """The bytes of a table, taken row by row or line by line; `line` is the number of the last line taken."""

    def __init__(self, handle: IO[bytes]) -> None:
        self.line = 0
        self._handle = handle
        self._block = handle.read(_BLOCK_BYTES).removeprefix(b"\xef\xbb\xbf")
        self._at = 0

    def usual_rows(self) -> Iterator[Entry]:
        """The rows of the usual form, up to the first of another form or the first that is not read completely yet."""
        while match := _USUAL_ROW.match(self._block, self._at):
            self.line += self._block.count(b"\n", self._at, match.end())
            self._at = match.end()
            label = match[2] if match[1] is None else match[1]
            yield _mail(storable(label.decode("utf-8", "surrogateescape")), match[3].replace(b'""', b'"'))

    def lines(self) -> Iterator[str]:
        """One line after another from here."""
        while True:
            end = self._block.find(b"\n", self._at) + 1
            line = self._block[self._at : end or None]
            self._at = end
            if not end:
                line += self._handle.readline()
                self._block = self._handle.read(_BLOCK_BYTES)
            if not line:
                return
            self.line += 1
            yield line.decode("utf-8", "surrogateescape")

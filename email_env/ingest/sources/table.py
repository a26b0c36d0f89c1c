"""A table of whole messages: the columns `file` and `message` of Kaggle's emails.csv."""

from __future__ import annotations

import csv
import io
import sys
from collections.abc import Iterator
from typing import IO

from email_env.errors import SourceError
from email_env.ingest.mail import RawMail, Skip, SkipReason
from email_env.ingest.sources.source import Entry, is_too_large, storable


def csv_mails(name: str, handle: IO[bytes]) -> Iterator[Entry]:
    """The rows of a table.

    Raises:
        SourceError: it has no column `message`, or is no table.
    """
    csv.field_size_limit(min(sys.maxsize, 2**31 - 1))  # the default, 131,072 characters, is below real mail
    text = io.TextIOWrapper(handle, encoding="utf-8-sig", errors="surrogateescape", newline="")
    rows = csv.reader(text)
    try:
        names = [column.strip().lower() for column in next(rows, [])]
        if "message" not in names:
            raise SourceError(f"{name!r} has no column `message`; its first line is {', '.join(names)[:200]!r}.")
        message, file = names.index("message"), names.index("file") if "file" in names else None
        for row in rows:
            label = storable(row[file]) if file is not None and file < len(row) else f"line {rows.line_num}"
            if len(row) != len(names):
                yield Skip(label, SkipReason.UNREADABLE)
                continue
            data = row[message].encode("utf-8", "surrogateescape")
            yield Skip(label, SkipReason.TOO_LARGE) if is_too_large(len(data)) else RawMail(label, data)
    except (csv.Error, OSError, UnicodeError) as error:
        raise SourceError(f"{name!r} cannot be read at line {rows.line_num}: {error}.") from error
    finally:
        text.detach()  # the handle is its owner's to close

"""Tables of mail: whole messages in CSV, or records in JSONL, Parquet or the hub data set `corbt/enron-emails`.

A CSV file has the columns `file` and `message`, as Kaggle's emails.csv. A record has those of the hub data set:
message_id, subject, from, to[], cc[], bcc[], date, body, file_name; cc, bcc and file_name may be missing. Records were
parsed by somebody else, but their addresses, dates and texts still go through our own rules.
"""

import csv
import io
import json
import sys
from collections.abc import Iterable, Iterator, Mapping
from typing import IO, Any, cast

from email_env.errors import HubError, SourceError
from email_env.ingest.parse import envelope, made_up_id, parse_message_id
from email_env.ingest.sources.source import MAX_MESSAGE_BYTES, Entry, Source, counted_source, is_too_large, storable
from email_env.mail import ParsedMail, RawMail, Skip, SkipReason
from email_env.scenarios import hub
from judges.common.text import unix_lines, without_controls

_REQUIRED = ("message_id", "subject", "from", "to", "date", "body")
_HEADERS = ("subject", "from", "to", "cc", "bcc", "date")
_BATCH_ROWS = 1000
_BLOCK_BYTES = 1 << 16
_ELSEWHERE = "Another source of the same mail: enron_mail_20150507.tar.gz, as a file or its web address."


def csv_mails(name: str, handle: IO[bytes]) -> Iterator[Entry]:
    """The messages of a CSV file, labelled by the column `file` if there is one.

    Raises:
        SourceError: it has no column `message`, or is no table.
    """
    csv.field_size_limit(min(sys.maxsize, 2**31 - 1))  # the default, 131,072 characters, is below real mail
    rows = csv.reader(_text_lines(handle))
    try:
        names = [column.strip().lower() for column in next(rows, [])]
        if "message" not in names:
            raise SourceError(f"{name!r} has no column `message`; its first line is {', '.join(names)[:200]!r}.")
        message, file = names.index("message"), names.index("file") if "file" in names else None
        for row in rows:
            label = storable(row[file]) if file is not None and file < len(row) else f"line {rows.line_num}"
            if len(row) != len(names):
                yield Skip(label, SkipReason.UNREADABLE)
            elif is_too_large(len(data := row[message].encode("utf-8", "surrogateescape"))):
                yield Skip(label, SkipReason.TOO_LARGE)
            else:
                yield RawMail(label, data)
    except csv.Error as error:
        raise SourceError(f"{name!r} cannot be read at line {rows.line_num}: {error}.") from error


def jsonl_mails(name: str, handle: IO[bytes]) -> Iterator[Entry]:
    """The mail of a JSONL file, one JSON object per line; blank lines are skipped.

    Raises:
        SourceError: its first object lacks a column.
    """
    return _mails(name, _json_lines(handle))


def parquet_mails(name: str, handle: IO[bytes]) -> Iterator[Entry]:
    """The mail of a Parquet file.

    Raises:
        SourceError: pyarrow is not installed, or the file is no Parquet file or lacks a column.
    """
    try:
        from pyarrow import ArrowException
        from pyarrow.parquet import ParquetFile
    except ImportError as error:
        raise SourceError(f"Reading {name!r} needs pyarrow: pip install 'email-rl[hub]'") from error

    def rows() -> Iterator[tuple[str, Any]]:
        number = 0
        try:
            for batch in ParquetFile(handle).iter_batches(batch_size=_BATCH_ROWS):
                for row in batch.to_pylist():
                    number += 1
                    yield f"row {number}", row
        except (ArrowException, OSError, ValueError) as error:
            raise SourceError(f"{name!r} cannot be read as Parquet after row {number}: {error}.") from error

    return _mails(name, rows())


def hub_source(location: str) -> Source:
    """The mail of a hub data set, streamed, or of a folder that holds one.

    Raises:
        SourceError: package `datasets` is not installed, or there is no such data set in reach.
    """
    try:
        dataset = hub.open_dataset(location, "train")
    except HubError as error:
        raise SourceError(f"{error} {_ELSEWHERE}") from error

    def rows() -> Iterator[tuple[str, Any]]:
        try:
            for number, row in enumerate(hub.rows(dataset, location), start=1):
                yield f"row {number}", row
        except HubError as error:
            raise SourceError(f"{error} {_ELSEWHERE}") from error

    records = ([entry] for entry in _mails(location, rows()))
    return counted_source(location, records, hub.row_count(dataset))


def record_mail(row: Mapping[str, Any], label: str) -> ParsedMail | Skip:
    """A record as mail; `label` names it where it has no file_name."""
    label = storable(_text(row.get("file_name"))) or label
    body = unix_lines(_text(row.get("body")))
    if is_too_large(len(body)):
        return Skip(label, SkipReason.TOO_LARGE)
    return ParsedMail(
        message_id=parse_message_id(_text(row.get("message_id"))) or made_up_id(repr(sorted(row.items())).encode()),
        body=body,
        source=label,
        **envelope({column: _text(row.get(column)) for column in _HEADERS}),
    )


def _mails(name: str, rows: Iterable[tuple[str, Any]]) -> Iterator[Entry]:
    checked = False
    for label, row in rows:
        if isinstance(row, Skip):
            yield row
        elif not isinstance(row, Mapping):
            yield Skip(label, SkipReason.UNREADABLE)
        else:
            missing = () if checked else [column for column in _REQUIRED if column not in row]
            if missing:
                raise SourceError(f"{name!r} has no column {', '.join(missing)}; it has {', '.join(map(str, row))}.")
            checked = True
            yield record_mail(row, label)


def _text_lines(handle: IO[bytes]) -> Iterator[str]:
    """Lines with their ends; an `io.TextIOWrapper` asks a file that is not the stdlib's for each whether it is open."""
    while block := handle.read(_BLOCK_BYTES) + handle.readline():
        yield from io.StringIO(block.decode("utf-8", "surrogateescape"), newline="")


def _json_lines(handle: IO[bytes]) -> Iterator[tuple[str, Any]]:
    number = 0
    while line := handle.readline(MAX_MESSAGE_BYTES + 1):
        number += 1
        label = f"line {number}"
        if is_too_large(len(line)):
            while line and not line.endswith(b"\n"):
                line = handle.readline(MAX_MESSAGE_BYTES)
            yield label, Skip(label, SkipReason.TOO_LARGE)
        elif line.strip():
            try:
                row = json.loads(line)
            except (ValueError, RecursionError):
                row = Skip(label, SkipReason.UNREADABLE)
            yield label, row


def _text(value: object) -> str:
    """A value as a header has it: a time in ISO form, several mailboxes with semicolons between them."""
    if isinstance(value, list | tuple):
        return "; ".join(map(_text, cast(Iterable[object], value)))
    return "" if value is None else without_controls(str(value))

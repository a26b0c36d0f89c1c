"""Mail as records in the schema of the hub data set `corbt/enron-emails`: JSONL, Parquet, or the data set itself.

Columns: message_id, subject, from, to[], cc[], bcc[], date, body, file_name; cc, bcc and file_name may be missing.
These mails were parsed by somebody else, but their addresses, dates and texts still go through our own rules.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from datetime import datetime
from hashlib import file_digest
from typing import IO, Any

from email_env.errors import HubError, SourceError
from email_env.ingest.addresses import parse_mailboxes, parse_sender
from email_env.ingest.dates import NO_DATE, parse_date, timestamp
from email_env.ingest.parse import made_up_id, parse_message_id
from email_env.ingest.sources.source import MAX_MESSAGE_BYTES, Entry, Source, counted_source, is_too_large, storable
from email_env.ingest.text import clean_body
from email_env.mail import ParsedMail, Skip, SkipReason
from email_env.scenarios import hub
from judges.common.text import one_line, without_controls

_REQUIRED = ("message_id", "subject", "from", "to", "date", "body")
_BATCH_ROWS = 1000
_ELSEWHERE = "Another source of the same mail: enron_mail_20150507.tar.gz, as a file or its web address."


def jsonl_mails(name: str, handle: IO[bytes]) -> Iterator[Entry]:
    """The mail of a JSONL file, one JSON object per line; blank lines are skipped.

    Raises:
        SourceError: its first object lacks a column.
    """
    return _mails(name, _json_lines(handle))


def parquet_source(location: str) -> Source:
    """The mail of a Parquet file.

    Raises:
        SourceError: pyarrow is not installed, or the file is no Parquet file or lacks a column.
    """
    try:
        from pyarrow import ArrowException
        from pyarrow.parquet import ParquetFile
    except ImportError as error:
        raise SourceError(f"Reading {location!r} needs pyarrow: pip install 'email-rl[hub]'") from error

    try:
        table = ParquetFile(location)
    except (ArrowException, OSError) as error:
        raise SourceError(f"{location!r} cannot be read as Parquet: {error}.") from error
    total: int = table.metadata.num_rows

    def rows() -> Iterator[tuple[str, Any]]:
        number = 0
        try:
            for batch in table.iter_batches(batch_size=_BATCH_ROWS):
                for row in batch.to_pylist():
                    number += 1
                    yield f"row {number}", row
        except (ArrowException, OSError, ValueError) as error:
            raise SourceError(f"{location!r} cannot be read after row {number}: {error}.") from error
        finally:
            table.close()

    def checksum() -> str:
        if source.position() < total:
            return ""
        with open(location, "rb") as handle:
            return file_digest(handle, "sha256").hexdigest()

    source = counted_source(location, _mails(location, rows()), total)
    return replace(source, checksum=checksum)


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

    return counted_source(location, _mails(location, rows()), hub.row_count(dataset))


def record_mail(row: Mapping[str, Any], label: str) -> ParsedMail | Skip:
    """A record as mail; `label` names it where it has no file_name."""
    label = storable(_text(row.get("file_name"))) or label
    body = clean_body(_text(row.get("body")))
    if is_too_large(len(body)):
        return Skip(label, SkipReason.TOO_LARGE)
    sent_at, date_ok = _sent(row.get("date"))
    from_addr, from_name = parse_sender(_text(row.get("from")))
    to, cc, bcc = (_mailboxes(row.get(column)) for column in ("to", "cc", "bcc"))
    return ParsedMail(
        message_id=parse_message_id(_text(row.get("message_id"))) or made_up_id(repr(sorted(row.items())).encode()),
        sent_at=sent_at,
        date_ok=date_ok,
        from_addr=from_addr,
        from_name=from_name,
        to=tuple(to),
        cc=tuple(a for a in cc if a not in to),
        bcc=tuple(a for a in bcc if a not in to and a not in cc),
        subject=one_line(_text(row.get("subject"))),
        body=body,
        source=label,
        names=tuple((address, name) for address, name in (cc | bcc | to).items() if name),
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
    return "" if value is None else without_controls(str(value))


def _mailboxes(value: object) -> dict[str, str]:
    headers = value if isinstance(value, list | tuple) else [value]
    return {address: name for header in headers for address, name in parse_mailboxes(_text(header)).items()}


def _sent(value: object) -> tuple[str, bool]:
    """(time, whether it can be trusted) from a date, ISO text or the text of a Date header. No zone means UTC."""
    if isinstance(value, str):
        try:
            value = datetime.fromisoformat(value)
        except ValueError:
            return parse_date(value)
    if not isinstance(value, datetime):
        return NO_DATE, False
    return timestamp(value)

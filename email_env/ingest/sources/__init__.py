"""Where mail comes from: `open_source` finds out what a source is and opens it, `open_sources` opens several as one.

Every source is read as a stream: archives are never unpacked, and downloads are not kept. Each kind of source has its
own file here. `source` has what they all give, and `stream` the bytes of files and downloads.
"""

from __future__ import annotations

import os
import re
from codecs import BOM_UTF8
from collections.abc import Callable, Iterator, Sequence
from difflib import get_close_matches
from pathlib import Path
from typing import IO

from email_env.errors import SourceError
from email_env.ingest.sources.archive import tar_mails
from email_env.ingest.sources.file import OUTLOOK, file_mails
from email_env.ingest.sources.folder import folder_source
from email_env.ingest.sources.gzipped import is_gzipped, unpacked
from email_env.ingest.sources.joined import joined_source
from email_env.ingest.sources.mbox import begins_mbox, mbox_mails
from email_env.ingest.sources.records import hub_source, jsonl_mails, parquet_source
from email_env.ingest.sources.source import MAX_MESSAGE_BYTES, Entry, Source, counted_source
from email_env.ingest.sources.stream import is_url, stream_source
from email_env.ingest.sources.table import csv_mails
from email_env.ingest.sources.zipped import zip_source
from email_env.scenarios.hub import MAILS, is_dataset

__all__ = ["FORMATS", "MAX_MESSAGE_BYTES", "Source", "open_source", "open_sources"]

_SUFFIXES = {
    ".tar.gz": "tar",
    ".tgz": "tar",
    ".tar": "tar",
    ".csv": "csv",
    ".jsonl": "jsonl",
    ".parquet": "parquet",
    ".mbox": "mbox",
    ".mbox.gz": "mbox",
    ".zip": "zip",
    ".eml": "eml",
    ".emlx": "eml",
}
_BEGINNINGS = {b"From ": "mbox", b"PAR1": "parquet", b"PK\x03\x04": "zip"}
_BEGINNING_BYTES = 4096
_HEADER = re.compile(rb"[!-9;-~]+:[ \t]")
_PACKED = {b"BZh": "bzip2", b"\xfd7zXZ": "xz", b"\x28\xb5\x2f\xfd": "zstd"}


def open_source(spec: str | Path | None = None, format: str | None = None) -> Source:
    """Opens a source.

    Args:
        spec: `demo`, a file, a folder, a web address or a hub data set; None for the hub data set of Enron's mail.
        format: one of `FORMATS`; None to find out by name and first bytes.

    Raises:
        SourceError: there is no such source, or its kind is not known. Reading `Source.mails` raises it too, where
            the source turns out to be damaged.
    """
    location = (format if format == "demo" else MAILS) if spec is None else str(spec)
    kind = _detected(location) if format is None else format
    if kind not in FORMATS:
        near = get_close_matches(kind, FORMATS, n=1)
        hint = f"; did you mean {near[0]!r}?" if near else ""
        raise SourceError(f"Unknown format {kind!r}{hint}. Formats: {', '.join(FORMATS)}.")
    if kind == "demo" and location != "demo":
        raise SourceError(
            f"Format demo is the bundled mailboxes, which are not in {location!r}. Name another format, or no source."
        )
    if is_url(location):
        if kind not in _FROM_URL:
            raise SourceError(f"A {kind} source cannot be read from {location!r}; download it and name the file.")
    elif kind not in ("demo", "hub") and not os.path.exists(location):
        raise SourceError(_no_mail(location))
    return FORMATS[kind](location)


def open_sources(specs: Sequence[str | Path] = (), format: str | None = None) -> Source:
    """Opens several sources as one; none for the hub data set of Enron's mail. Arguments and errors: `open_source`."""
    if len(specs) < 2:
        return open_source(specs[0] if specs else None, format)
    return joined_source([open_source(spec, format) for spec in specs])


def _detected(location: str) -> str:
    if location == "demo":
        return "demo"
    if location == MAILS:
        return "hub"
    path = Path(location.partition("?")[0] if is_url(location) else location)
    if not is_url(location):
        if os.path.isdir(location):
            return "hub" if is_dataset(path) else "folder"
        if not os.path.exists(location):
            raise SourceError(_no_mail(location))
    by_suffix = next((kind for suffix, kind in _SUFFIXES.items() if path.name.lower().endswith(suffix)), None)
    kind = by_suffix or (None if is_url(location) else _by_first_bytes(path))
    if kind is None:
        if path.suffix.lower() in OUTLOOK:
            raise SourceError(
                f"{path.name!r} is a file of Outlook's, which is not read. readpst makes mbox files of a .pst, and"
                " msgconvert an .eml of a .msg."
            )
        raise SourceError(f"Unknown kind of mail {path.name!r}. Name it with --format: {', '.join(_OF_FILES)}.")
    return kind


def _by_first_bytes(path: Path) -> str | None:
    try:
        with path.open("rb") as handle:
            if is_gzipped(handle):
                return "mbox" if begins_mbox(unpacked(str(path), handle).read(_BEGINNING_BYTES)) else "tar"
            beginning = handle.read(_BEGINNING_BYTES).removeprefix(BOM_UTF8)
    except OSError as error:
        raise SourceError(f"Cannot read {str(path)!r}: {error.strerror}.") from error
    packed = next((kind for start, kind in _PACKED.items() if beginning.startswith(start)), None)
    if packed:
        raise SourceError(
            f"{str(path)!r} is packed with {packed}, which is not read. Unpack it and name what comes out."
        )
    kind = next((kind for start, kind in _BEGINNINGS.items() if beginning.startswith(start)), None)
    return kind or ("eml" if _HEADER.match(beginning) else None)


def _no_mail(location: str) -> str:
    return (
        f"No mail at {location!r}. A source is `demo`, a folder of mail, a file ({', '.join(_SUFFIXES)}), the web"
        " address of one, or with --format hub a data set."
    )


def _eml_mails(name: str, handle: IO[bytes]) -> Iterator[Entry]:
    return file_mails(Path(name).name, os.path.getsize(name), handle)


def _demo(_location: str) -> Source:
    from email_env import demo

    corpus = demo.generate()
    return counted_source("demo", corpus.mails, len(corpus.mails), corpus.scenarios)


FORMATS: dict[str, Callable[[str], Source]] = {
    "demo": _demo,
    "hub": hub_source,
    "tar": lambda location: stream_source(location, tar_mails),
    "folder": folder_source,
    "mbox": lambda location: stream_source(location, mbox_mails),
    "zip": zip_source,
    "eml": lambda location: stream_source(location, _eml_mails),
    "csv": lambda location: stream_source(location, csv_mails),
    "jsonl": lambda location: stream_source(location, jsonl_mails),
    "parquet": parquet_source,
}
"""Kinds of source by the name that `--format` takes."""

_OF_FILES = [name for name in FORMATS if name not in ("demo", "hub")]
_FROM_URL = ("tar", "mbox", "csv", "jsonl")

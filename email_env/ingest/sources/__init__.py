"""Where mail comes from: `open_source` finds out what a source is and opens it.

Every source is read as a stream: archives are never unpacked, and downloads are not kept. Each kind of source has its
own file here. `source` has what they all give, and `stream` the bytes of files and downloads.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from difflib import get_close_matches
from pathlib import Path

from email_env.errors import SourceError
from email_env.ingest.sources.archive import tar_mails
from email_env.ingest.sources.folder import folder_source
from email_env.ingest.sources.mbox import mbox_mails
from email_env.ingest.sources.records import hub_source, jsonl_mails, parquet_source
from email_env.ingest.sources.source import MAX_MESSAGE_BYTES, Source, counted_source
from email_env.ingest.sources.stream import is_url, stream_source
from email_env.ingest.sources.table import csv_mails
from email_env.scenarios.hub import MAILS

__all__ = ["FORMATS", "MAX_MESSAGE_BYTES", "Source", "open_source"]

_SUFFIXES = {
    ".tar.gz": "tar",
    ".tgz": "tar",
    ".tar": "tar",
    ".csv": "csv",
    ".jsonl": "jsonl",
    ".parquet": "parquet",
    ".mbox": "mbox",
}
_BEGINNINGS = {b"From ": "mbox", b"PAR1": "parquet", b"\x1f\x8b": "tar"}
_PACKED = {b"PK\x03\x04": "zip", b"BZh": "bzip2", b"\xfd7zXZ": "xz", b"\x28\xb5\x2f\xfd": "zstd"}


def open_source(spec: str | Path | None = None, format: str | None = None) -> Source:
    """Opens a source.

    Args:
        spec: `demo`, a file, a folder, a web address or a hub data set; None for the hub data set of Enron's mail.
        format: one of `FORMATS`; None to find out by name and first bytes.

    Raises:
        SourceError: there is no such source, or its kind is not known. Reading `Source.mails` raises it too, where
            the source turns out to be damaged.
    """
    location = MAILS if spec is None else str(spec)
    kind = _detected(location) if format is None else format
    if kind not in FORMATS:
        near = get_close_matches(kind, FORMATS, n=1)
        hint = f"; did you mean {near[0]!r}?" if near else ""
        raise SourceError(f"Unknown format {kind!r}{hint}. Formats: {', '.join(FORMATS)}.")
    if is_url(location):
        if kind not in _FROM_URL:
            raise SourceError(f"A {kind} source cannot be read from {location!r}; download it and name the file.")
    elif kind not in ("demo", "hub") and not os.path.exists(location):
        raise SourceError(_no_mail(location))
    return FORMATS[kind](location)


def _detected(location: str) -> str:
    if location == "demo":
        return "demo"
    if location == MAILS:
        return "hub"
    path = Path(location.partition("?")[0] if is_url(location) else location)
    if not is_url(location):
        if os.path.isdir(location):
            return "hub" if any(any(path.glob(pattern)) for pattern in ("*.parquet", "data/*.parquet")) else "folder"
        if not os.path.exists(location):
            raise SourceError(_no_mail(location))
    by_suffix = next((kind for suffix, kind in _SUFFIXES.items() if path.name.lower().endswith(suffix)), None)
    kind = by_suffix or (None if is_url(location) else _by_first_bytes(path))
    if kind is None:
        raise SourceError(f"Unknown kind of mail {path.name!r}. Name it with --format: {', '.join(FORMATS)}.")
    return kind


def _by_first_bytes(path: Path) -> str | None:
    try:
        with path.open("rb") as handle:
            beginning = handle.read(8)
    except OSError as error:
        raise SourceError(f"Cannot read {str(path)!r}: {error.strerror}.") from error
    packed = next((kind for start, kind in _PACKED.items() if beginning.startswith(start)), None)
    if packed:
        raise SourceError(
            f"{str(path)!r} is packed with {packed}, which is not read. Unpack it and name what comes out."
        )
    return next((kind for start, kind in _BEGINNINGS.items() if beginning.startswith(start)), None)


def _no_mail(location: str) -> str:
    return (
        f"No mail at {location!r}. A source is `demo`, a folder of mail, a file ({', '.join(_SUFFIXES)}), the web"
        " address of one, or with --format hub a data set."
    )


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
    "csv": lambda location: stream_source(location, csv_mails),
    "jsonl": lambda location: stream_source(location, jsonl_mails),
    "parquet": parquet_source,
}
"""Kinds of source by the name that `--format` takes."""

_FROM_URL = ("tar", "mbox", "csv", "jsonl")

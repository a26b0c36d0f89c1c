"""One file, read for what it is: an mbox, a table, or else one message.

Its name tells, or its first bytes. In a folder or an archive, what else is packed is not opened, and counted as such;
so are files of Outlook's. Apple Mail's `.emlx` is a message between a line with its length and a property list.
"""

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import IO

from email_env.errors import SourceError
from email_env.ingest.sources.mbox import begins_mbox, mbox_mails
from email_env.ingest.sources.source import MARK, OUTLOOK, Entry, Note, Reader, whole_message
from email_env.ingest.sources.stream import GZIP, beginning, unpacked
from email_env.ingest.sources.tables import csv_mails, jsonl_mails, parquet_mails
from email_env.mail import RawMail, Skip, SkipReason

SUFFIXES = {
    "tar": "tar",
    "tgz": "tar",
    "csv": "csv",
    "jsonl": "jsonl",
    "parquet": "parquet",
    "mbox": "mbox",
    "zip": "zip",
    "eml": "eml",
    "emlx": "eml",
}
_BEGINNINGS = {
    b"PK\x03\x04": "zip",
    b"PAR1": "parquet",
    b"BZh": "bzip2",
    b"\xfd7zXZ": "xz",
    b"\x28\xb5\x2f\xfd": "zstd",
    b"7z\xbc\xaf\x27\x1c": "7z",
    b"Rar!\x1a\x07": "rar",
    b"\1\1\1\1\n": "MMDF",  # this and the next hold many messages, and would be read as one
    b"=" * 73: "LISTSERV",
}
_OF_OUTLOOK = (b"!BDN", b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1")
_TAR, _TAR_AT = (b"ustar\x00", b"ustar  \x00"), 257
_HEADER = re.compile(rb"(?:>+From [^\n]*\n)?[!-9;-~]+:[ \t]")
_IN_MAILDIR = re.compile(r"(?:^|/)(?:cur|new)/\d{9,}\.[^/]*\Z")  # seconds since 1970 come first
_EMLX_LENGTH = re.compile(rb"(\d{1,12})[ \t]*\r?\n")
_EMLX_FLAGS = re.compile(rb"<key>flags</key>\s*<integer>(\d{1,18})</integer>")


def kind_by_name(name: str) -> str:
    """The kind of a file by its name, as `tar` or `mbox`, with `.gz` behind it or not; "" where that does not tell."""
    return SUFFIXES.get(name.lower().removesuffix(".gz").rpartition(".")[2], "")


def kind_by_content(name: str, first: bytes) -> str:
    """The kind of a file by its first bytes, also one that is not read, as `xz` or `Outlook`; "" where no one knows."""
    text = first.lstrip(b"\r\n")
    if begins_mbox(text):
        return "mbox"
    if first.startswith(_TAR, _TAR_AT):
        return "tar"
    if name.lower().endswith(OUTLOOK) and first.startswith(_OF_OUTLOOK):
        return "Outlook"
    kind = next((kind for start, kind in _BEGINNINGS.items() if first.startswith(start)), "")
    return kind or ("eml" if _HEADER.match(text) else "")


def message_mails(name: str, handle: IO[bytes]) -> Iterator[Entry]:
    """The one message of a file."""
    data = whole_message(handle)
    length = _EMLX_LENGTH.match(data) if data and name.lower().endswith(".emlx") else None
    if data is None:
        yield Skip(name, SkipReason.TOO_LARGE)
    elif length:
        end = length.end() + int(length[1])
        flags = _EMLX_FLAGS.search(data, end)
        yield RawMail(name, data[length.end() : end], emlx_flags=int(flags[1]) if flags else 0)
    else:
        yield RawMail(name, data)


def eml_mails(name: str, handle: IO[bytes]) -> Iterator[Entry]:
    """The mail of a file that was named alone, labelled with the file's name; some that end with .eml are mboxes."""
    return file_mails(Path(name).name, handle)


TABLES: dict[str, Reader] = {"csv": csv_mails, "jsonl": jsonl_mails, "parquet": parquet_mails}


def file_mails(
    label: str, handle: IO[bytes], path: str = "", archives: Mapping[str, Reader] | None = None
) -> Iterator[Entry]:
    """The mail of a file in a folder or an archive, labelled with its place there.

    Args:
        label: its place.
        handle: its bytes.
        path: names it in errors; its place where that is "".
        archives: what reads which kind of archive; without it, none is opened.

    Raises:
        SourceError: it is damaged: mail would be missing without a word. A table that is no table of mail is no error.
    """
    path, archives = path or label, archives or {}
    is_packed, plain = beginning(handle).startswith(GZIP), unpacked(path, handle)
    named, found = kind_by_name(label), kind_by_content(label, beginning(plain))
    found = "eml" if _IN_MAILDIR.search(label) else found
    if named in TABLES:
        yield from _contained(label, MARK, TABLES[named](label, plain), is_sure=False)
    elif named in archives and found == named:
        yield from _contained(label, MARK, archives[named](path, plain))
    elif named in archives:
        yield Skip(label, SkipReason.UNREADABLE)
        yield Note(f"{label} is left out: it is no {named} archive.")
    elif found == "mbox" or (named == "mbox" and found in ("", "eml")):
        yield from _contained(label, "/", mbox_mails(label, plain))
    elif found == "eml" or (not found and not is_packed):
        yield from message_mails(label, plain)
    else:
        yield Skip(label, SkipReason.PACKED)


def _contained(label: str, mark: str, entries: Iterable[Entry], *, is_sure: bool = True) -> Iterator[Entry]:
    """The entries of a file, labelled with its place; where it `is_sure` what it is, it has some."""
    begun = is_sure
    try:
        for entry in entries:
            begun = True
            yield entry if isinstance(entry, Note) else replace(entry, source=f"{label}{mark}{entry.source}")
    except SourceError:
        if begun:
            raise
        yield Skip(label, SkipReason.UNREADABLE)

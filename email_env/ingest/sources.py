"""Where mail comes from: the bundled demo, a maildir folder, a tar archive, Kaggle's emails.csv.

Each source is read as a stream: archives are never unpacked, nothing is written, and a message over
`MAX_MESSAGE_BYTES` is skipped unread. Order is that of the archive or table; folders are walked in sorted order.
"""

from __future__ import annotations

import csv
import io
import os
import stat
import sys
import tarfile
import zlib
from collections.abc import Callable, Generator, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any, cast

from email_env.errors import SourceError
from email_env.ingest.mail import ParsedMail, RawMail, Skip, SkipReason
from email_env.ingest.parse import parse_message
from email_env.scenarios import Scenario

MAX_MESSAGE_BYTES = 32 * 1024 * 1024
_TAR_SUFFIXES = (".tar.gz", ".tgz", ".tar")
_READ_BYTES = 1 << 20
_KINDS = "`demo`, a maildir folder, an archive (.tar.gz, .tgz, .tar) or a table (.csv)"


@dataclass(frozen=True, slots=True)
class Source:
    """A stream of mail with what a progress display needs.

    Attributes:
        name: as the database's metadata names it.
        mails: the mail; can be read once. Close it where it is not read to its end.
        scenarios: questions that come with the mail.
        total: size of the whole in the unit of `position`.
        position: how far `mails` has been read, in bytes or messages.
    """

    name: str
    mails: Generator[ParsedMail | Skip, None, None]
    scenarios: list[Scenario] = field(default_factory=list[Scenario])
    total: int = 0
    position: Callable[[], int] = lambda: 0


def open_source(spec: str | Path) -> Source:
    """Opens a source by name: `demo`, a folder, or a file by its suffix.

    Raises:
        SourceError: there is no such thing, or its kind is not known. Damage found later, while `Source.mails` is
            read, raises it there.
    """
    if str(spec) == "demo":
        return _demo()
    path = Path(spec)
    if path.is_dir():
        return _maildir(path)
    if not path.exists():
        raise SourceError(f"No mail at {str(spec)!r}. A source is {_KINDS}.")
    lower = path.name.lower()
    if lower.endswith(_TAR_SUFFIXES):
        return _stream(path, _tar_mails)
    if lower.endswith(".csv"):
        return _stream(path, _csv_mails)
    raise SourceError(f"Unknown kind of mail {path.name!r}. A source is {_KINDS}.")


def _demo() -> Source:
    from email_env import demo

    corpus = demo.generate()
    read = [0]

    def mails() -> Generator[ParsedMail | Skip, None, None]:
        for mail in corpus.mails:
            read[0] += 1
            yield mail

    return Source("demo", mails(), list(corpus.scenarios), len(corpus.mails), lambda: read[0])


def _maildir(root: Path) -> Source:
    def failed(error: OSError) -> None:
        raise SourceError(f"Cannot list {error.filename!r}: {error.strerror}.") from error

    paths: list[str] = []
    for folder, folders, files in os.walk(root, onerror=failed):
        folders.sort()
        paths.extend(os.path.join(folder, name) for name in sorted(files))
    read = [0]

    def mails() -> Generator[ParsedMail | Skip, None, None]:
        for path in paths:
            read[0] += 1
            yield _parsed(_file(path, os.path.relpath(path, root)))

    return Source(str(root), mails(), total=len(paths), position=lambda: read[0])


def _file(path: str, label: str) -> RawMail | Skip:
    label = _storable(label)
    try:
        found = os.lstat(path)
        if not stat.S_ISREG(found.st_mode):  # a link could lead anywhere, a pipe would never end
            return Skip(label, SkipReason.UNREADABLE)
        if found.st_size > MAX_MESSAGE_BYTES:
            return Skip(label, SkipReason.TOO_LARGE)
        return RawMail(label, Path(path).read_bytes())
    except OSError:
        return Skip(label, SkipReason.UNREADABLE)


def _stream(path: Path, read: Callable[[Path, IO[bytes]], Iterator[RawMail | Skip]]) -> Source:
    seen = [0]

    def mails() -> Generator[ParsedMail | Skip, None, None]:
        try:
            handle = path.open("rb", buffering=_READ_BYTES)
        except OSError as error:
            raise SourceError(f"Cannot read {str(path)!r}: {error.strerror}.") from error
        with handle:
            for entry in read(path, handle):
                seen[0] = handle.tell()
                yield _parsed(entry)

    return Source(str(path), mails(), total=path.stat().st_size, position=lambda: seen[0])


def _tar_mails(path: Path, handle: IO[bytes]) -> Iterator[RawMail | Skip]:
    try:
        with tarfile.open(fileobj=handle, mode="r|*") as archive:
            while (member := archive.next()) is not None:
                cast(Any, archive).members.clear()  # tarfile would keep every one
                if member.isdir():
                    continue
                label = _storable(member.name.partition("maildir/")[2] or member.name)
                if not member.isreg() or member.issparse():
                    yield Skip(label, SkipReason.UNREADABLE)
                elif member.size > MAX_MESSAGE_BYTES:
                    yield Skip(label, SkipReason.TOO_LARGE)
                else:
                    content = archive.extractfile(member)
                    data = content.read() if content else b""
                    if len(data) != member.size:
                        raise tarfile.ReadError(f"{member.name!r} is cut short")
                    yield RawMail(label, data)
    except (tarfile.TarError, EOFError, OSError, zlib.error, ValueError) as error:
        raise SourceError(
            f"{str(path)!r} cannot be read to its end ({error}); is it a whole tar archive? Fetch it again."
        ) from error


def _csv_mails(path: Path, handle: IO[bytes]) -> Iterator[RawMail | Skip]:
    csv.field_size_limit(min(sys.maxsize, 2**31 - 1))  # the default, 131,072 characters, is below real mail
    text = io.TextIOWrapper(handle, encoding="utf-8-sig", errors="surrogateescape", newline="")
    rows = csv.reader(text)
    try:
        names = [name.strip().lower() for name in next(rows, [])]
        if "message" not in names:
            raise SourceError(f"{str(path)!r} has no column `message`; its first line is {', '.join(names)[:200]!r}.")
        message, file = names.index("message"), names.index("file") if "file" in names else None
        for row in rows:
            label = _storable(row[file]) if file is not None and file < len(row) else f"line {rows.line_num}"
            if len(row) != len(names):
                yield Skip(label, SkipReason.UNREADABLE)
                continue
            data = row[message].encode("utf-8", "surrogateescape")
            yield Skip(label, SkipReason.TOO_LARGE) if len(data) > MAX_MESSAGE_BYTES else RawMail(label, data)
    except (csv.Error, OSError, UnicodeError) as error:
        raise SourceError(f"{str(path)!r} cannot be read at line {rows.line_num}: {error}.") from error
    finally:
        text.detach()  # the handle is its owner's to close


def _parsed(entry: RawMail | Skip) -> ParsedMail | Skip:
    return entry if isinstance(entry, Skip) else parse_message(entry.data, entry.source)


def _storable(label: str) -> str:
    return label.encode("utf-8", "replace").decode("utf-8").replace("\x00", "?")

"""A zip archive, such as Google Takeout's, with messages and mbox files in it. It is never unpacked.

As in `archive`, a hostile archive costs no more than reading its bytes: a message over the size limit is skipped, and
an archive that expands more than `MAX_EXPANSION`-fold is refused. An archive in the archive is not opened, and
counted as such.
"""

from __future__ import annotations

import os
import zipfile
import zlib
from collections.abc import Iterator
from hashlib import file_digest
from typing import IO

from email_env.errors import SourceError
from email_env.ingest.sources.file import file_mails
from email_env.ingest.sources.gzipped import FREE_BYTES, MAX_EXPANSION
from email_env.ingest.sources.source import Entry, Source, parsed, storable

_ENCRYPTED = 0x1


def zip_source(location: str) -> Source:
    """The mail of a zip archive; progress is counted in packed bytes.

    Raises:
        SourceError (when read): it cannot be opened, is damaged, encrypted, or made to exhaust the machine.
    """
    size = os.path.getsize(location)
    notes: list[str] = []
    read = 0

    def entries() -> Iterator[Entry]:
        nonlocal read
        try:
            handle = open(location, "rb")  # noqa: SIM115  zip_mails has a text for what fails later
        except OSError as error:
            raise SourceError(f"Cannot read {location!r}: {error.strerror}.") from error
        with handle:
            for entry in zip_mails(location, handle):
                read = handle.tell()
                yield entry
        read = size

    def checksum() -> str:
        if read < size:
            return ""
        with open(location, "rb") as whole:
            return file_digest(whole, "sha256").hexdigest()

    mails = parsed(location, entries(), notes)
    return Source(location, mails, notes=notes, total=lambda: size, position=lambda: read, checksum=checksum)


def zip_mails(name: str, handle: IO[bytes]) -> Iterator[Entry]:
    """The files of an archive in the order of its directory.

    Raises:
        SourceError: it is damaged, encrypted, or made to exhaust the machine.
    """
    try:
        with zipfile.ZipFile(handle) as archive:
            members = [member for member in archive.infolist() if not member.is_dir()]
            packed = sum(member.compress_size for member in members)
            if sum(member.file_size for member in members) > FREE_BYTES + MAX_EXPANSION * packed:
                raise SourceError(f"{name!r} expands more than {MAX_EXPANSION}-fold: a decompression bomb.")
            for member in members:
                if member.flag_bits & _ENCRYPTED:
                    raise SourceError(f"{name!r} is encrypted. Unpack it and name what comes out.")
                with archive.open(member) as content:
                    yield from file_mails(storable(member.filename), member.file_size, content)
    except SourceError:
        raise
    except (zipfile.BadZipFile, zlib.error, EOFError, NotImplementedError, OSError, ValueError, RuntimeError) as error:
        raise SourceError(
            f"{name!r} cannot be read to its end ({error}); is it a whole zip archive? Fetch it again."
        ) from error

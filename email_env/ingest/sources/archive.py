"""Archives of files, tar and zip (as CMU's and Google Takeout's), with messages and mbox files in them.

They are read as they come and never unpacked, so no name in one can write anywhere. A hostile archive costs no more
than reading its bytes. A message over the size limit is skipped. The headers of a tar entry may take at most
`_MAX_HEADER_BYTES`; tarfile alone would read a "long name" of any length into memory. What expands too much is refused.
"""

from __future__ import annotations

import tarfile
import zipfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from typing import IO, Any, cast

from email_env.errors import SourceError
from email_env.ingest.sources.file import file_mails
from email_env.ingest.sources.source import Entry, Reader, storable
from email_env.ingest.sources.stream import FREE_BYTES, MAX_EXPANSION
from email_env.mail import Skip, SkipReason

_MAX_HEADER_BYTES = 1024 * 1024
_READ_BYTES = 1 << 18
_ENCRYPTED = 0x1
_DAMAGE = (
    tarfile.TarError, zipfile.BadZipFile, zlib.error, EOFError, NotImplementedError, OSError, ValueError, RuntimeError
)  # fmt: skip


def tar_mails(name: str, handle: IO[bytes]) -> Iterator[Entry]:
    """The files of a tar archive.

    Raises:
        SourceError: it is damaged, cut short, or made to exhaust the machine.
    """
    with _damage_told(name, "tar"):
        tape = _Tape(handle)
        tape.allowed = _MAX_HEADER_BYTES
        with tarfile.open(fileobj=cast(Any, tape), mode="r|") as archive:
            cast(Any, archive).fileobj.seekable = lambda: False  # which readers of text ask
            while member := archive.next():
                cast(Any, archive).members.clear()  # tarfile would keep every one
                if not member.isdir():
                    label = storable(member.name.partition("maildir/")[2] or member.name)
                    tape.allowed = _MAX_HEADER_BYTES + member.size
                    content = archive.extractfile(member) if member.isreg() and not member.issparse() else None
                    yield from file_mails(label, content) if content else [Skip(label, SkipReason.UNREADABLE)]
                tape.allowed = _MAX_HEADER_BYTES + member.size  # what was not read here, tarfile skips on its next turn
        tape.finish()


def zip_mails(name: str, handle: IO[bytes]) -> Iterator[Entry]:
    """The files of a zip archive in the order of its directory.

    Raises:
        SourceError: it is damaged, encrypted, or made to exhaust the machine.
    """
    with _damage_told(name, "zip"), zipfile.ZipFile(handle) as archive:
        members = [member for member in archive.infolist() if not member.is_dir()]
        packed = sum(member.compress_size for member in members)
        if sum(member.file_size for member in members) > FREE_BYTES + MAX_EXPANSION * packed:
            raise SourceError(f"{name!r} expands more than {MAX_EXPANSION}-fold: a decompression bomb.")
        for member in members:
            if member.flag_bits & _ENCRYPTED:
                raise SourceError(f"{name!r} is encrypted. Unpack it and name what comes out.")
            with archive.open(member) as content:
                yield from file_mails(storable(member.filename), content)


ARCHIVES: dict[str, Reader] = {"tar": tar_mails, "zip": zip_mails}


@contextmanager
def _damage_told(name: str, kind: str) -> Iterator[None]:
    try:
        yield
    except SourceError:
        raise
    except _DAMAGE as error:
        raise SourceError(
            f"{name!r} cannot be read to its end ({error}); is it a whole {kind} archive? Fetch it again, or where"
            " something else is packed in it, unpack it and name what comes out."
        ) from error


class _Tape:
    """The bytes of an archive, as tarfile reads them; `allowed` is how many it may read until this is set again."""

    def __init__(self, plain: IO[bytes]) -> None:
        self.allowed = 0
        self._plain = plain
        self._last = b""

    def read(self, size: int) -> bytes:
        self.allowed -= size
        if self.allowed < -tarfile.RECORDSIZE:  # tarfile reads ahead by up to one record
            raise tarfile.ReadError(f"the headers of one entry take more than {_MAX_HEADER_BYTES:,} bytes")
        return self._read(size)

    def finish(self) -> None:
        """Reads what follows the last entry.

        Raises:
            tarfile.ReadError: there is no end mark: the archive was cut between two entries.
        """
        while self._read(_READ_BYTES):
            pass
        if not self._last or any(self._last):
            raise tarfile.ReadError("its end is missing")

    def _read(self, size: int) -> bytes:
        data = self._plain.read(size)
        if data:
            self._last = data[-tarfile.BLOCKSIZE :]
        return data

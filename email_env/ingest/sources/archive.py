"""A tar archive, gzipped or not, read as a stream. It is never unpacked, so no name in it can write anywhere.

A hostile archive costs no more than reading its bytes. A message over the size limit is skipped. The headers of an
entry may take at most `_MAX_HEADER_BYTES`; tarfile alone would read a "long name" of any length into memory. `gzipped`
refuses what expands too much.
"""

from __future__ import annotations

import tarfile
from collections.abc import Iterator
from typing import IO, Any, cast

from email_env.errors import SourceError
from email_env.ingest.sources.file import file_mails
from email_env.ingest.sources.gzipped import unpacked
from email_env.ingest.sources.source import Entry, storable
from email_env.mail import Skip, SkipReason

_MAX_HEADER_BYTES = 1024 * 1024
_BLOCK_BYTES = tarfile.BLOCKSIZE
_READ_BYTES = 1 << 18


def tar_mails(name: str, handle: IO[bytes]) -> Iterator[Entry]:
    """The files of an archive.

    Raises:
        SourceError: it is damaged, cut short, or made to exhaust the machine.
    """
    try:
        tape = _Tape(unpacked(name, handle))
        tape.allowed = _MAX_HEADER_BYTES
        with tarfile.open(fileobj=cast(Any, tape), mode="r|") as archive:
            allowed = _MAX_HEADER_BYTES
            while True:
                tape.allowed = allowed
                member = archive.next()
                if member is None:
                    break
                cast(Any, archive).members.clear()  # tarfile would keep every one
                allowed = _MAX_HEADER_BYTES + member.size  # of what is not read here, tarfile skips on its next turn
                if not member.isdir():
                    tape.allowed = allowed
                    yield from _entries(archive, member)
            tape.finish()
    except SourceError:
        raise
    except (tarfile.TarError, EOFError, OSError, ValueError, RecursionError) as error:
        raise SourceError(
            f"{name!r} cannot be read to its end ({error}); is it a whole tar archive? Fetch it again, or where"
            " something else is packed in it, unpack it and name what comes out."
        ) from error


def _entries(archive: tarfile.TarFile, member: tarfile.TarInfo) -> Iterator[Entry]:
    label = storable(member.name.partition("maildir/")[2] or member.name)
    content = archive.extractfile(member) if member.isreg() and not member.issparse() else None
    if content is None:
        yield Skip(label, SkipReason.UNREADABLE)
    else:
        yield from file_mails(label, member.size, content)


class _Tape:
    """The unpacked bytes of an archive, as tarfile reads them."""

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
            self._last = data[-_BLOCK_BYTES:]
        return data

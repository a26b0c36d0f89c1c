"""Archives of files, tar and zip (as CMU's and Google Takeout's), with messages and mbox files in them.

They are read as they come and never unpacked, so no name in one can write anywhere. A message over the size limit is
skipped. What expands too much is refused, and so is a "long name" of more than `_MAX_HEADER_BYTES`, which tarfile alone
would read into memory.
"""

import tarfile
import zipfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from typing import IO, Any, Self, cast

from email_env.errors import SourceError
from email_env.ingest.sources.file import file_mails
from email_env.ingest.sources.source import Entry, Reader, storable
from email_env.ingest.sources.stream import FREE_BYTES, MAX_EXPANSION
from email_env.mail import Skip, SkipReason

_MAX_HEADER_BYTES = 1024 * 1024
_DESCRIPTIONS = (
    tarfile.GNUTYPE_LONGNAME, tarfile.GNUTYPE_LONGLINK, tarfile.XHDTYPE, tarfile.XGLTYPE, tarfile.SOLARIS_XHDTYPE
)  # fmt: skip
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
    with _damage_told(name, "tar"), tarfile.open(fileobj=handle, mode="r|", tarinfo=_Entry) as archive:
        stream = cast(Any, archive).fileobj
        stream.seekable = lambda: False  # which readers of text ask
        while member := archive.next():
            cast(Any, archive).members.clear()  # tarfile would keep every one
            if not member.isdir():
                label = storable(member.name.partition("maildir/")[2] or member.name)
                content = archive.extractfile(member) if member.isreg() and not member.issparse() else None
                yield from file_mails(label, content) if content else [Skip(label, SkipReason.UNREADABLE)]
        if not stream.read(tarfile.BLOCKSIZE):  # the end mark is two blocks, of which tarfile has read one
            raise tarfile.ReadError("its end is missing")
        while handle.read(_READ_BYTES):  # a packed file tells at its end whether it is whole
            pass


class _Entry(tarfile.TarInfo):
    """An entry, or what describes the next one; that is read whole before anything else of it."""

    @classmethod
    def frombuf(cls, buf: bytes | bytearray, encoding: str, errors: str) -> Self:
        entry = super().frombuf(buf, encoding, errors)
        if entry.type in _DESCRIPTIONS and entry.size > _MAX_HEADER_BYTES:
            raise tarfile.ReadError(f"a header takes more than {_MAX_HEADER_BYTES:,} bytes")
        return entry


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

"""A file or a download as one stream of bytes that is counted and hashed on its way, and what gzip packed in it.

Text in UTF-16, or with lines that end with CR alone, becomes UTF-8 with LF. Nothing is written to disk. A hostile gzip
file costs no more than reading its bytes: one that expands more than `MAX_EXPANSION`-fold, not counting the first
`FREE_BYTES`, is refused; mail compresses about fourfold.
"""

import gzip
import io
import os
import re
import zlib
from codecs import BOM_UTF8, getincrementaldecoder
from collections.abc import Generator
from hashlib import file_digest, sha256
from typing import IO, Any, cast

from email_env.errors import SourceError
from email_env.ingest.sources.source import Reader, Source, parsed
from email_env.mail import ParsedMail, Skip

MAX_EXPANSION = 200
FREE_BYTES = 256 * 1024 * 1024
GZIP = b"\x1f\x8b"

_CODECS = {  # by how a file begins; the last has lines that end with CR alone
    "utf-16": re.compile(rb"\xff\xfe|\xfe\xff"),
    "utf-16-le": re.compile(rb"(?:[ -~]\0){4}"),
    "utf-16-be": re.compile(rb"(?:\0[ -~]){4}"),
    "latin-1": re.compile(rb"\s*+(?:>*From\b|[!-9;-~]+[ \t]*:)[^\0\r\n]*\r[^\r\n]"),
}
_READ_BYTES = 1 << 20
_PEEKED_BYTES = 4096
_TIMEOUT_SECONDS = 60.0


def is_url(location: str) -> bool:
    """Whether this is a web address."""
    return location.lower().startswith(("http://", "https://"))


def stream_source(location: str, read: Reader) -> Source:
    """A source of one file or web address; `read` makes mail of its bytes, and progress is counted in bytes."""
    stream = ByteStream(location)
    notes: list[str] = []

    def mails() -> Generator[ParsedMail | Skip, None, None]:
        with io.BufferedReader(stream, _READ_BYTES) as handle:
            yield from parsed(location, read(location, unpacked(location, handle)), notes)
            while handle.read(_READ_BYTES):  # what follows the last mail belongs to the checksum
                pass

    return Source(
        location,
        mails(),
        notes=notes,
        total=lambda: stream.total,
        position=lambda: stream.position,
        checksum=stream.checksum,
    )


class ByteStream(io.RawIOBase):
    """The bytes of a file or a web address, opened at the first read.

    Attributes:
        total: bytes in all; 0 before the first read, and where the server does not say.
        position: bytes read.

    Raises (when read):
        SourceError: it cannot be opened or read, or ended early.
    """

    def __init__(self, location: str) -> None:
        super().__init__()
        self.total = 0
        self.position = 0
        self._location = location
        self._raw: Any = None
        self._digest = sha256()
        self._has_ended = self._has_jumped = False

    def readable(self) -> bool:
        """Always."""
        return True

    def seekable(self) -> bool:
        """Whether it is a file on disk."""
        return os.path.isfile(self._location)

    def readinto(self, buffer: Any) -> int:
        """Reads the next bytes."""
        try:
            count = self._opened().readinto(buffer)
        except OSError as error:
            raise SourceError(self._failure(error)) from error
        self._digest.update(memoryview(buffer)[:count])
        self._has_ended = count == 0 and len(buffer) > 0
        self.total = self._raw.total if is_url(self._location) else os.fstat(self._raw.fileno()).st_size
        read = self.position + count
        self.position = self.total if self.total and (self._has_ended or read > self.total) else read
        return count

    def seek(self, offset: int, whence: int = os.SEEK_SET) -> int:
        """Goes to another place of a file; a zip archive has its directory at its end."""
        self._has_jumped = True
        return self._opened().seek(offset, whence)

    def tell(self) -> int:
        """The place of the next byte."""
        return self._raw.tell() if self._has_jumped else self.position

    def checksum(self) -> str:
        """SHA-256 of all bytes; "" where not all have been read."""
        if not self._has_ended:
            return ""
        if not self._has_jumped:
            return self._digest.hexdigest()
        with open(self._location, "rb") as file:
            return file_digest(file, "sha256").hexdigest()

    def close(self) -> None:
        """Closes what was opened; may be called twice."""
        if self._raw is not None:
            self._raw.close()
        super().close()

    def _opened(self) -> Any:
        if self._raw is None:
            self._raw = _Download(self._location) if is_url(self._location) else io.FileIO(self._location)
        return self._raw

    def _failure(self, error: OSError) -> str:
        if not is_url(self._location):
            return f"Cannot read {self._location!r}: {error.strerror or error}."
        if not self.position:
            return f"Cannot download {self._location!r}: {error}."
        size = f" of {self.total:,}" if self.total else ""
        return (
            f"The download of {self._location!r} broke off after {self.position:,}{size} bytes ({error}). Run it again,"
            " or download the file by other means and name it here."
        )


class _Chunks(io.RawIOBase):
    """Chunks of bytes as one file."""

    def __init__(self, chunks: Generator[bytes, None, None]) -> None:
        super().__init__()
        self._chunks = chunks
        self._left = b""

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        while not self._left and (chunk := next(self._chunks, None)) is not None:
            self._left = chunk
        count = min(len(buffer), len(self._left))
        buffer[:count], self._left = self._left[:count], self._left[count:]
        return count

    def close(self) -> None:
        self._chunks.close()
        super().close()


class _Download(_Chunks):
    """The body of a web address, as it comes; what goes wrong is an OSError."""

    def __init__(self, url: str) -> None:
        super().__init__(self._received(url))
        self.total = 0

    def _received(self, url: str) -> Generator[bytes, None, None]:
        import httpx

        headers = {"Accept-Encoding": "identity"}
        try:
            with httpx.stream("GET", url, follow_redirects=True, timeout=_TIMEOUT_SECONDS, headers=headers) as response:
                response.raise_for_status()
                self.total = int(response.headers.get("Content-Length", 0))
                yield from response.iter_raw()
        except (httpx.HTTPError, httpx.InvalidURL) as error:
            raise OSError(str(error).splitlines()[0]) from error


def unpacked(name: str, handle: IO[bytes]) -> IO[bytes]:
    """What gzip packed, or a file as it is; text of mail as UTF-8 without a byte order mark, lines as with LF or CRLF.

    Args:
        name: of the file, for errors.
        handle: can peek, and tells how many packed bytes were read.

    Raises (when read):
        SourceError: it is damaged, cut short, or made to exhaust the machine.
    """
    first = beginning(handle)
    if first.startswith(GZIP):
        handle = io.BufferedReader(_Chunks(_expanded(name, handle)), _READ_BYTES)
        first = beginning(handle)
    if first.startswith(BOM_UTF8):
        handle.read(len(BOM_UTF8))
        first = beginning(handle)
    codec = next((codec for codec, form in _CODECS.items() if form.match(first)), "")
    return io.BufferedReader(_Chunks(_recoded(handle, codec)), _READ_BYTES) if codec else handle


def _expanded(name: str, packed: IO[bytes]) -> Generator[bytes, None, None]:
    plain = gzip.GzipFile(fileobj=packed)
    try:
        while data := plain.read1(_READ_BYTES):
            if plain.tell() > FREE_BYTES + MAX_EXPANSION * packed.tell():
                raise SourceError(f"{name!r} expands more than {MAX_EXPANSION}-fold: a decompression bomb.")
            yield data
    except (OSError, EOFError, zlib.error) as error:
        raise SourceError(
            f"{name!r} cannot be read to its end ({error}); is it a whole gzip file? Fetch it again."
        ) from error


def _recoded(handle: IO[bytes], codec: str) -> Generator[bytes, None, None]:
    decoder = io.IncrementalNewlineDecoder(getincrementaldecoder(codec)("replace"), translate=True)
    charset = "utf-8" if codec.startswith("utf") else codec
    while data := handle.read(_READ_BYTES):
        yield decoder.decode(data).encode(charset)
    yield decoder.decode(b"", final=True).encode(charset)


def beginning(handle: IO[bytes]) -> bytes:
    """The first bytes of what comes next; they stay to be read."""
    return cast(Any, handle).peek(_PEEKED_BYTES)[:_PEEKED_BYTES]

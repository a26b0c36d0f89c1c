"""A file or a download as one stream of bytes that is counted and hashed on its way; nothing is written to disk."""

from __future__ import annotations

import codecs
import io
import os
from collections.abc import Callable, Generator, Iterator
from hashlib import sha256
from typing import IO, Any

from email_env.errors import SourceError
from email_env.ingest.sources.source import Entry, Source, parsed
from email_env.mail import ParsedMail, Skip

_READ_BYTES = 1 << 20
_TIMEOUT_SECONDS = 60.0


def is_url(location: str) -> bool:
    """Whether this is a web address."""
    return location.lower().startswith(("http://", "https://"))


def stream_source(location: str, read: Callable[[str, IO[bytes]], Iterator[Entry]]) -> Source:
    """A source that is read from its first byte to its last; `read` makes mail of the bytes."""
    stream = ByteStream(location)
    notes: list[str] = []

    def mails() -> Generator[ParsedMail | Skip, None, None]:
        with io.BufferedReader(stream, _READ_BYTES) as handle:
            if handle.peek(2)[:2] in (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE):
                raise SourceError(f"{location!r} is text in UTF-16, not in UTF-8. Save it as UTF-8.")
            yield from parsed(location, read(location, handle), notes)
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
        self._ended = False

    def readable(self) -> bool:
        """Always."""
        return True

    def readinto(self, buffer: Any) -> int:
        """Reads the next bytes."""
        try:
            raw = self._raw or self._open()
            count = raw.readinto(buffer)
        except OSError as error:
            raise SourceError(f"Cannot read {self._location!r}: {error.strerror or error}.") from error
        self._digest.update(memoryview(buffer)[:count])
        self.position += count
        self._ended = count == 0 and len(buffer) > 0
        return count

    def tell(self) -> int:
        """Bytes read."""
        return self.position

    def checksum(self) -> str:
        """SHA-256 of all bytes; "" where not all have been read."""
        return self._digest.hexdigest() if self._ended else ""

    def _open(self) -> Any:
        if is_url(self._location):
            self._raw = Download(self._location)
            self.total = self._raw.total
        else:
            self._raw = io.FileIO(self._location)
            self.total = os.fstat(self._raw.fileno()).st_size
        return self._raw

    def close(self) -> None:
        """Closes what was opened; may be called twice."""
        if self._raw is not None:
            self._raw.close()
        super().close()


class Download(io.RawIOBase):
    """The body of a web address, as it comes.

    Raises:
        SourceError: there is no such address or no such page; when read: the connection broke off.
    """

    def __init__(self, url: str) -> None:
        super().__init__()
        import httpx

        self._url = url
        self._error = httpx.HTTPError
        self._left = b""
        self._position = 0
        self._client = httpx.Client(
            follow_redirects=True, timeout=_TIMEOUT_SECONDS, headers={"Accept-Encoding": "identity"}
        )
        try:
            self._response = self._client.send(self._client.build_request("GET", url), stream=True)
            self._response.raise_for_status()
        except (httpx.HTTPError, httpx.InvalidURL) as error:
            self._client.close()
            raise SourceError(f"Cannot download {url!r}: {str(error).splitlines()[0]}.") from error
        length = self._response.headers.get("Content-Length", "")
        self.total = int(length) if length.isdecimal() else 0
        self._chunks = self._response.iter_raw()

    def readable(self) -> bool:
        """Always."""
        return True

    def readinto(self, buffer: Any) -> int:
        """Reads the next bytes."""
        try:
            while not self._left:
                self._left = next(self._chunks, None) or b""
                if not self._left:
                    return 0
        except self._error as error:
            size = f" of {self.total:,}" if self.total else ""
            raise SourceError(
                f"The download of {self._url!r} broke off after {self._position:,}{size} bytes ({error}). Run it again,"
                " or download the file by other means and name it here."
            ) from error
        count = min(len(buffer), len(self._left))
        buffer[:count] = self._left[:count]
        self._left = self._left[count:]
        self._position += count
        return count

    def close(self) -> None:
        """Ends the connection."""
        if not self.closed:
            self._response.close()
            self._client.close()
        super().close()

"""Bytes that gzip packed, as a stream. What is packed is never written anywhere.

A hostile file costs no more than reading its bytes: one that expands more than `MAX_EXPANSION`-fold, not counting the
first `FREE_BYTES`, is refused; mail compresses about fourfold.
"""

from __future__ import annotations

import gzip
import io
import zlib
from typing import IO, Any, cast

from email_env.errors import SourceError

MAX_EXPANSION = 200
FREE_BYTES = 256 * 1024 * 1024
GZIP = b"\x1f\x8b"
_READ_BYTES = 1 << 18


def is_gzipped(handle: IO[bytes]) -> bool:
    """Whether gzip packed what comes next."""
    return cast(Any, handle).peek(2)[:2] == GZIP


def unpacked(name: str, handle: IO[bytes]) -> IO[bytes]:
    """What gzip packed; any other file as it is.

    Args:
        name: of the file, for errors.
        handle: can peek, and tells how many packed bytes were read.

    Raises (when read):
        SourceError: it is damaged, cut short, or made to exhaust the machine.
    """
    return io.BufferedReader(_Unpacked(name, handle), _READ_BYTES) if is_gzipped(handle) else handle


class _Unpacked(io.RawIOBase):
    def __init__(self, name: str, packed: IO[bytes]) -> None:
        super().__init__()
        self._name = name
        self._packed = packed
        self._plain = gzip.GzipFile(fileobj=packed)
        self._position = 0

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        try:
            count = self._plain.readinto(buffer)
        except (OSError, EOFError, zlib.error) as error:
            raise SourceError(
                f"{self._name!r} cannot be read to its end ({error}); is it a whole gzip file? Fetch it again."
            ) from error
        self._position += count
        if self._position > FREE_BYTES + MAX_EXPANSION * self._packed.tell():
            raise SourceError(f"{self._name!r} expands more than {MAX_EXPANSION}-fold: a decompression bomb.")
        return count

"""Read-only connections to one SQLite file, one for every thread of every process.

A connection is immutable, maps the file into memory and refuses ATTACH. It closes with its thread, or by `close`. All
are to the file that was opened first: the numbers of people that threads share mean others in another database.
"""

from __future__ import annotations

import os
import sqlite3
import threading
import weakref
from pathlib import Path
from urllib.parse import quote

from email_env.errors import DatabaseError, DatabaseNotFoundError

_MMAP_BYTES = 1 << 36


class Connections:
    """Opens a connection to the file at `path` when a thread first needs one."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._local = threading.local()
        self._lock = threading.Lock()
        self._handles: weakref.WeakSet[_Handle] = weakref.WeakSet()
        self._first: tuple[int, ...] = ()

    def get(self) -> sqlite3.Connection:
        """This thread's connection.

        Raises:
            DatabaseNotFoundError: the file was there and is gone.
            DatabaseError: another file is in its place.
        """
        handle: _Handle | None = getattr(self._local, "handle", None)
        if handle is None or handle.process_id != os.getpid():
            handle = self._opened()
            self._local.handle = handle
            with self._lock:
                self._handles.add(handle)
        return handle.connection

    def _opened(self) -> _Handle:
        if not self._first:
            handle = _Handle(self.path)
            self._first = _identity(self.path)
            return handle
        try:
            found, handle = _identity(self.path), _Handle(self.path)
        except (OSError, sqlite3.Error) as error:
            raise DatabaseNotFoundError(
                f"Mail database {str(self.path)!r} cannot be opened any more ({error}). Put it back, or start again."
            ) from error
        if found != self._first:
            raise DatabaseError(
                f"Mail database {str(self.path)!r} was replaced while it was in use. Start again to use the new one."
            )
        return handle

    def close(self) -> None:
        """Closes the connections of all threads; the next `get` opens a new one."""
        with self._lock:
            for handle in list(self._handles):
                handle.close()
        self._local = threading.local()


def _identity(path: Path) -> tuple[int, ...]:
    """What another file at this path would not have."""
    found = os.stat(path)
    return found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns


class _Handle:
    """One connection of one process; closed with its thread."""

    def __init__(self, path: Path) -> None:
        self.process_id = os.getpid()
        uri = f"file:{quote(str(path))}?mode=ro&immutable=1"
        self.connection = sqlite3.connect(uri, uri=True, check_same_thread=False, isolation_level=None)
        self.connection.setlimit(sqlite3.SQLITE_LIMIT_ATTACHED, 0)
        self.connection.execute("PRAGMA query_only = 1")
        self.connection.execute(f"PRAGMA mmap_size = {_MMAP_BYTES}")

    def close(self) -> None:
        self.connection.close()

    def __del__(self) -> None:
        if hasattr(self, "connection"):
            self.connection.close()

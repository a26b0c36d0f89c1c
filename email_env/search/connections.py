"""Read-only connections to one SQLite file, one for every thread of every process.

A connection is immutable, maps the file into memory and refuses ATTACH. It closes with its thread, or by `close`. All
are to the file that was opened first: the numbers of people that threads share mean others in another database.
"""

import os
import sqlite3
import threading
import weakref
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import quote

from email_env.errors import DatabaseError, DatabaseNotFoundError

_MMAP_BYTES = 1 << 36


@dataclass(eq=False)
class _Handle:
    """One connection of one process; closed with its thread."""

    connection: sqlite3.Connection
    process_id: int

    def __del__(self) -> None:
        self.connection.close()


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
            DatabaseNotFoundError: the file cannot be opened.
            DatabaseError: another file is in its place than at first.
        """
        handle: _Handle | None = getattr(self._local, "handle", None)
        if handle is None or handle.process_id != os.getpid():
            handle = self._local.handle = self._open()
        return handle.connection

    def _open(self) -> _Handle:
        try:
            found = os.stat(self.path)
            uri = f"file:{quote(str(self.path))}?mode=ro&immutable=1"
            connection = sqlite3.connect(uri, uri=True, check_same_thread=False, isolation_level=None)
            connection.setlimit(sqlite3.SQLITE_LIMIT_ATTACHED, 0)
            connection.execute("PRAGMA query_only = 1")
            connection.execute(f"PRAGMA mmap_size = {_MMAP_BYTES}")
        except (OSError, sqlite3.Error) as error:
            raise DatabaseNotFoundError(
                f"Mail database {str(self.path)!r} cannot be opened ({error}). If it was moved, put it back."
            ) from error
        handle = _Handle(connection, os.getpid())
        identity = (found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns)
        with self._lock:
            self._first = self._first or identity
            self._handles.add(handle)
        if identity != self._first:
            raise DatabaseError(
                f"Mail database {str(self.path)!r} was replaced while it was in use. Start again to use the new one."
            )
        return handle

    def close(self) -> None:
        """Closes the connections of all threads; the next `get` opens a new one."""
        with self._lock:
            for handle in list(self._handles):
                handle.connection.close()
        self._local = threading.local()

"""Replaces a file with a new one: completely, or not at all.

The new file grows beside the old one, and the writing process holds a lock on it. The system releases the lock when the
process ends, however it ends. So a half-written file whose lock is free was left by a killed process, and the next
writer removes it. The alternative was a process id in the file's name; but the system gives the same id to another
process later.
"""

from __future__ import annotations

import glob
import os
import secrets
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

try:
    import fcntl
except ImportError:  # no POSIX: leftovers of a killed process stay
    fcntl = None


@contextmanager
def replacing(path: Path) -> Iterator[Path]:
    """Yields the path of a new, empty file; it becomes `path` if the block ends well, and is removed if not.

    Where `path` is a link, the file that it leads to is replaced.

    Raises:
        OSError: the file cannot be written.
    """
    path = Path(os.path.realpath(path))
    if path.is_dir():
        raise IsADirectoryError(f"{str(path)!r} is a folder; name a file in it")
    path.parent.mkdir(parents=True, exist_ok=True)
    _remove_abandoned(path)
    temporary, handle = _create_beside(path)
    try:
        yield temporary
        _sync(temporary)
        os.replace(temporary, path)
        with suppress(OSError):  # the file is in its place; a folder that cannot be read cannot be synced either
            _sync(path.parent)
    finally:
        temporary.unlink(missing_ok=True)
        os.close(handle)


def _create_beside(path: Path) -> tuple[Path, int]:
    while True:
        temporary = path.parent / f".{path.name}.{secrets.token_hex(6)}.tmp"
        handle = os.open(temporary, os.O_CREAT | os.O_EXCL | os.O_RDWR, 0o666)
        if lock(handle) and temporary.exists():  # else another process removed it as abandoned before it was locked
            return temporary, handle
        os.close(handle)


def _remove_abandoned(path: Path) -> None:
    if fcntl is None:
        return
    for name in glob.glob(f".{glob.escape(path.name)}.*.tmp", root_dir=path.parent):
        try:
            handle = os.open(path.parent / name, os.O_RDWR)
        except OSError:
            continue
        try:
            if lock(handle):
                (path.parent / name).unlink(missing_ok=True)
        finally:
            os.close(handle)


def lock(handle: int) -> bool:
    """Locks an open file for this process until it is closed; False where another process has the lock."""
    if fcntl is None:
        return True
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _sync(path: Path) -> None:
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)

"""Files of every package: whole or not at all, one JSON object a line, locked while one process writes.

The lock of a file is the system's: it ends with the process that holds it, however that comes about. So a half-written
file whose lock is free was left by a killed process. A process id in the file's name would say less: the system gives
the same id to another process later.

A system without such locks (no ``fcntl``) has none: there one process at a time must write, and what a killed one left
beside a file stays.

What is written may hold mail, so only its owner can read it; ``chmod`` shares it.
"""

import glob
import json
import math
import os
import secrets
import shutil
import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from io import FileIO
from pathlib import Path
from typing import Any, BinaryIO, Self, cast

try:
    import fcntl
except ImportError:
    fcntl = None

Record = dict[str, Any]
OWNER_ALONE = 0o600
"""Permissions of a file that is made."""


class DamagedFileError(ValueError):
    """A file holds what this program has not written; its name is told, and the line where it has lines."""


class Closeable:
    """Base of what is closed at the end of its ``with`` statement, however that comes about."""

    def close(self) -> None:
        """End it; a second call does nothing."""
        raise NotImplementedError

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def locked(path: Path, *, wait: bool = True) -> BinaryIO:
    """Open a file, made where it is missing, and hold its lock until it is closed.

    Args:
        path: The file.
        wait: For a process that holds the lock.

    Raises:
        BlockingIOError: Another process holds it, and ``wait`` is off.
        OSError: The file cannot be written.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    file = os.fdopen(os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, OWNER_ALONE), "ab")
    try:
        _lock(file.fileno(), wait=wait)
    except BaseException:
        file.close()
        raise
    return file


def _lock(handle: int, *, wait: bool) -> None:
    if fcntl is not None:
        fcntl.flock(handle, fcntl.LOCK_EX if wait else fcntl.LOCK_EX | fcntl.LOCK_NB)


def is_in_place(path: Path, file: BinaryIO) -> bool:
    """Whether a path still leads to a file that is open, and nobody has removed or moved it."""
    with suppress(OSError):
        return os.path.samestat(os.stat(path), os.fstat(file.fileno()))
    return False


@contextmanager
def replacing(path: Path) -> Iterator[Path]:
    """Yields the path of a new, empty file; it becomes ``path`` if the block ends well, and is removed if not.

    Where ``path`` is a link, the file that it leads to is replaced. What a killed writer left beside it is removed.

    Raises:
        OSError: The file cannot be written.
    """
    path = Path(os.path.realpath(path))
    if path.is_dir():
        raise IsADirectoryError(f"{str(path)!r} is a folder; name a file in it")
    path.parent.mkdir(parents=True, exist_ok=True)
    _remove_abandoned(path)
    temporary, handle = _create_beside(path)
    try:
        yield temporary
        sync(temporary)
        os.replace(temporary, path)
        with suppress(OSError):  # the file is in its place; a folder that cannot be read cannot be synced either
            sync(path.parent)
    finally:
        temporary.unlink(missing_ok=True)
        handle.close()


@contextmanager
def scratch_folder(name: str) -> Iterator[Path]:
    """Yields a new folder among the temporary ones, which is removed at the end of the block.

    It is locked meanwhile. A folder of that name that nobody has locked was left by a killed process: it goes, too.
    """
    root = tempfile.gettempdir()
    for left_over in _abandoned(f"{name}-*", root):
        path = os.path.join(root, left_over)
        with suppress(OSError), _locked_folder(path):
            shutil.rmtree(path)
    with ExitStack() as stack:
        while True:
            folder = tempfile.mkdtemp(prefix=f"{name}-")
            with suppress(BlockingIOError, FileNotFoundError):  # another process took it for left over
                stack.enter_context(_locked_folder(folder))
                break
        stack.callback(shutil.rmtree, folder, ignore_errors=True)
        yield Path(folder)


@contextmanager
def _locked_folder(path: str) -> Iterator[None]:
    handle = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
    try:
        _lock(handle, wait=False)
        os.stat(path)  # it may be gone by now
        yield
    finally:
        os.close(handle)


def _create_beside(path: Path) -> tuple[Path, BinaryIO]:
    while True:
        temporary = path.parent / f".{path.name}.{secrets.token_hex(6)}.tmp"
        with suppress(BlockingIOError):
            handle = locked(temporary, wait=False)
            if temporary.exists():  # else another process removed it as abandoned before it was locked
                return temporary, handle
            handle.close()


def _abandoned(pattern: str, folder: str | Path) -> list[str]:
    """Names of what killed processes may have left; none where no lock tells whether they are in use."""
    return [] if fcntl is None else glob.glob(pattern, root_dir=folder)


def _remove_abandoned(path: Path) -> None:
    for name in _abandoned(f".{glob.escape(path.name)}.*.tmp", path.parent):
        with suppress(OSError), locked(path.parent / name, wait=False):
            (path.parent / name).unlink()


def write_text(path: Path, text: str) -> None:
    """Write a file so that a reader sees the old one or the new one, never half."""
    write_bytes(path, text.encode())


def write_json(path: Path, value: Any) -> None:
    """Write JSON so that a reader sees the old file or the new one, never half."""
    write_text(path, json.dumps(value, indent=2) + "\n")


def write_bytes(path: Path, content: bytes) -> None:
    """Write a file so that a reader sees the old one or the new one, never half."""
    with replacing(path) as temporary:
        temporary.write_bytes(content)


def sync(path: str | Path) -> None:
    """Wait until a file, or what a folder lists, is on the disk itself, beyond the reach of a power cut."""
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def fsync_tree(folder: Path) -> None:
    """Flush every file of a folder and the folders themselves to disk, so that a rename publishes complete files."""
    for place, _, files in os.walk(folder):
        for path in (*(os.path.join(place, file) for file in files), place):
            sync(path)


def link_files(source: Path, target: Path) -> None:
    """Make the folder ``target`` with the files of ``source``: the same ones, or copies where they can't be linked."""
    target.mkdir(parents=True)
    for path in source.iterdir():
        try:
            os.link(path, target / path.name)
        except OSError:
            shutil.copyfile(path, target / path.name)


def usual_mode(*, is_folder: bool = False) -> int:
    """The permissions that a new file or folder of this process has; for one thread, since asking sets them."""
    umask = os.umask(0o077)
    os.umask(umask)
    return (0o777 if is_folder else 0o666) & ~umask


class JsonlLog(Closeable):
    """Appends JSON objects to a file, one a line, each in the file before ``append`` returns.

    Opening mends the file: a last line that a killed writer left half-written is cut off. One process writes at a time.

    Args:
        path: File to append to; it and its folder are made where missing.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        path.parent.mkdir(parents=True, exist_ok=True)
        self._file = self._open()
        last = _last_line(self._file)
        if _is_whole(last):
            self.write(b"\n")
        elif last:
            self._file.truncate(self._file.seek(0, os.SEEK_END) - len(last))

    def _open(self) -> FileIO:
        return FileIO(self.path, "a+", opener=lambda path, flags: os.open(path, flags, OWNER_ALONE))

    def append(self, record: Mapping[str, Any]) -> None:
        """Writes one record; numbers that are not finite become ``null``, since JSON has no word for them.

        Raises:
            TypeError: A value JSON can't hold, for example a tensor.
        """
        self.write(json_bytes(dict(record)) + b"\n")

    def write(self, lines: bytes) -> None:
        """Writes lines that are JSON objects already, each with its line break."""
        rest = memoryview(lines)
        while rest:
            rest = rest[self._file.write(rest) :]

    def sync(self) -> None:
        """Waits until what was appended is on the disk itself, beyond the reach of a power cut."""
        os.fsync(self._file.fileno())

    def truncate_after(self, step: int) -> None:
        """Drops every record whose ``step`` is above ``step``, atomically; a resumed run writes them anew."""
        records = read_jsonl(self.path, damaged=[])
        kept = [record for record in records if record.get("step", step) <= step]
        if len(kept) < len(records):
            write_bytes(self.path, b"".join(json_bytes(record) + b"\n" for record in kept))
            self._file.close()
            self._file = self._open()

    def close(self) -> None:
        """Closes the file; a second call does nothing."""
        self._file.close()


def read_json(path: Path, *names: str) -> Record:
    """Reads a file that is one JSON object, in which ``names`` must be.

    Raises:
        DamagedFileError: It is something else.
        OSError: It cannot be read.
    """
    try:
        record = json_object(path.read_bytes())
    except ValueError as error:
        raise DamagedFileError(f"{path} {error}") from error
    if missing := [name for name in names if name not in record]:
        raise DamagedFileError(f"{path} has no {missing[0]!r}")
    return record


def read_jsonl(path: Path, damaged: list[str] | None = None) -> list[Record]:
    """Reads a file of JSON objects, one a line, as ``each_record`` does; a missing file is an empty one."""
    return [record for _, record in each_record(path, damaged)] if path.exists() else []


def each_record(path: Path, damaged: list[str] | None = None) -> Iterator[tuple[int, Record]]:
    """Reads the JSON objects of a file, a line at a time, each with the place where ``record_at`` finds it.

    A last line that is half-written is what a killed writer leaves: it is dropped.

    Args:
        path: The file.
        damaged: Where the records are only shown: a line before the last that is no JSON object is left out, and what
            is wrong with it is added here.

    Raises:
        DamagedFileError: There is such a line, and ``damaged`` is None.
    """
    place = 0
    with path.open("rb") as file:
        for number, line in enumerate(file, start=1):
            if line.strip() and (line.endswith(b"\n") or _is_whole(line)):
                try:
                    record = json_object(line)
                except ValueError as error:
                    what = f"{path} line {number} {error}: {line[:80]!r}"
                    if damaged is None:
                        raise DamagedFileError(what) from error
                    damaged.append(what)
                else:
                    yield place, record
            place += len(line)


def record_at(path: Path, place: int) -> Record:
    """The JSON object that begins at a place which ``each_record`` gave."""
    with path.open("rb") as file:
        file.seek(place)
        return json.loads(file.readline())


def json_object(line: str | bytes) -> Record:
    """The JSON object of a line.

    Raises:
        ValueError: It is something else; a message to stand behind the line's number.
    """
    try:
        value = json.loads(line)
    except (ValueError, RecursionError) as error:
        raise ValueError(f"is not JSON ({error})") from error
    if not isinstance(value, dict):
        raise ValueError("is not a JSON object")
    return cast(Record, value)


def _is_whole(line: bytes) -> bool:
    """True for a whole JSON object; no beginning of one is itself an object, so half a line never passes."""
    with suppress(ValueError):
        return bool(json_object(line)) or True
    return False


def _last_line(file: BinaryIO) -> bytes:
    """What stands after the last line break; the file is read from its end, no further than that."""
    size, span, end = file.seek(0, os.SEEK_END), 1 << 16, b""
    while len(end) < size and b"\n" not in end:
        file.seek(max(0, size - span))
        end, span = file.read(), 2 * span
    return end.rpartition(b"\n")[2]


MAX_DEPTH = 250
"""Lists and dicts in each other; what is deeper becomes ``null``."""


def json_bytes(value: Any, default: Callable[[Any], Any] | None = None) -> bytes:
    """``value`` as JSON in UTF-8 without a line break; numbers that are not finite become ``null``.

    Args:
        value: Dicts, lists, texts, numbers.
        default: Gives what to write for anything else.

    Raises:
        TypeError: A value JSON can't hold, for example a tensor, and there is no ``default``.
    """
    import orjson  # here, since the learner on its own (scripts/bench_gpu) does without it

    try:
        return orjson.dumps(value, default)
    except TypeError:
        text = json.dumps(_plain(value, MAX_DEPTH), ensure_ascii=False, default=default)
        return text.encode("utf-8", "backslashreplace")


def _plain(value: Any, depth: int) -> Any:
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if not isinstance(value, dict | list | tuple):
        return value
    if not depth:
        return None
    if isinstance(value, dict):
        return {key: _plain(item, depth - 1) for key, item in cast(dict[Any, Any], value).items()}
    return [_plain(item, depth - 1) for item in cast(list[Any], value)]

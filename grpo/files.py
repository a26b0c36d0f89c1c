"""Files of a run: whole or not at all, one JSON object a line, and what is closed at the end of a ``with``."""

from __future__ import annotations

import json
import math
import os
import secrets
import shutil
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, Self, cast

Record = dict[str, Any]


class DamagedFileError(ValueError):
    """A file holds what no run has written; its name and the line are told."""


class Closeable:
    """Base of what is closed at the end of its ``with`` statement, however that comes about."""

    def close(self) -> None:
        """End it; a second call does nothing."""
        raise NotImplementedError

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class JsonlLog(Closeable):
    """Appends JSON objects to a file, one a line, each flushed before ``append`` returns.

    Opening repairs the file: a last line that a killed writer left half-written is cut off.

    Args:
        path: File to append to; it and its folder are made where missing.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        path.parent.mkdir(parents=True, exist_ok=True)
        self._file = path.open("ab")
        self._repair_last_line()

    def append(self, record: Mapping[str, Any]) -> None:
        """Writes one record; numbers that are not finite become ``null``, since JSON has no word for them.

        Raises:
            TypeError: A value JSON can't hold, for example a tensor.
        """
        self.extend([record])

    def extend(self, records: Iterable[Mapping[str, Any]]) -> None:
        """Writes several at once, as ``append`` would one by one."""
        self.write(json_bytes(dict(record)) + b"\n" for record in records)

    def write(self, lines: Iterable[bytes]) -> None:
        """Writes lines that are JSON objects already, each with its line break."""
        self._file.write(b"".join(lines))
        self._file.flush()

    def sync(self) -> None:
        """Waits until what was appended is on the disk itself, beyond the reach of a power cut."""
        os.fsync(self._file.fileno())

    def truncate_after(self, step: int) -> int:
        """Drops every record whose ``step`` is above ``step``, atomically; a resumed run writes them anew.

        Returns:
            The number of records dropped.
        """
        records = read_jsonl(self.path)
        kept = [record for record in records if record.get("step", step) <= step]
        if len(kept) < len(records):
            self._file.close()
            partial = self.path.with_name(self.path.name + ".partial")
            partial.unlink(missing_ok=True)
            with JsonlLog(partial) as log:
                for record in kept:
                    log.append(record)
                log.sync()
            partial.replace(self.path)
            self._file = self.path.open("ab")
        return len(records) - len(kept)

    def close(self) -> None:
        """Closes the file; a second call does nothing."""
        self._file.close()

    def _repair_last_line(self) -> None:
        last = _last_line(self.path)
        if _is_whole(last):
            self._file.write(b"\n")
            self._file.flush()
        elif last:
            self._file.truncate(self.path.stat().st_size - len(last))


def read_jsonl(path: Path) -> list[Record]:
    """Reads a file of JSON objects, one a line, as ``each_record`` does; a missing file is an empty one."""
    return [record for _, record in each_record(path)] if path.exists() else []


def each_record(path: Path) -> Iterator[tuple[int, Record]]:
    """Reads the JSON objects of a file, a line at a time, each with the place where ``record_at`` finds it.

    A last line that is half-written is what a killed writer leaves: it is dropped.

    Raises:
        DamagedFileError: A line before the last that is no JSON object, with its number.
    """
    place = 0
    with path.open("rb") as file:
        for number, line in enumerate(file, start=1):
            if line.strip() and (line.endswith(b"\n") or _is_whole(line)):
                try:
                    value = json.loads(line)
                except ValueError as error:
                    raise _damaged(path, number, f"not JSON ({error})", line) from error
                if not isinstance(value, dict):
                    raise _damaged(path, number, "not a JSON object", line)
                yield place, cast(Record, value)
            place += len(line)


def _damaged(path: Path, number: int, what: str, line: bytes) -> DamagedFileError:
    return DamagedFileError(f"{path} line {number} is {what}: {line[:80]!r}")


def record_at(path: Path, place: int) -> Record:
    """The JSON object that begins at a place which ``each_record`` gave."""
    with path.open("rb") as file:
        file.seek(place)
        return json.loads(file.readline())


def _last_line(path: Path) -> bytes:
    """What stands after the last line break; the file is read from its end, no further than that."""
    with path.open("rb") as file:
        size, span, end = file.seek(0, os.SEEK_END), 1 << 16, b""
        while len(end) < size and b"\n" not in end:
            file.seek(max(0, size - span))
            end, span = file.read(), 2 * span
    return end.rpartition(b"\n")[2]


def _is_whole(line: bytes) -> bool:
    """True for a whole JSON object; no beginning of one is itself an object, so half a line never passes."""
    try:
        return isinstance(json.loads(line), dict)
    except ValueError:
        return False


def write_json(path: Path, value: Any) -> None:
    """Write JSON so that a reader sees the old file or the new one, never half."""
    write_text(path, json.dumps(value, indent=2) + "\n")


def write_lines(path: Path, lines: Iterable[bytes]) -> None:
    """Write all lines at once, each with its line break, atomically."""
    _write(path, b"".join(lines))


def write_text(path: Path, text: str) -> None:
    """Write a file so that a reader sees the old one or the new one, never half."""
    _write(path, text.encode())


def _write(path: Path, content: bytes) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(f".{path.name}.{secrets.token_hex(6)}")
    try:
        with temporary.open("xb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise


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


def fsync_tree(folder: Path) -> None:
    """Flush every file of a folder and the folders themselves to disk, so that a rename publishes complete files."""
    for place, _, files in os.walk(folder):
        for path in (*(os.path.join(place, file) for file in files), place):
            handle = os.open(path, os.O_RDONLY)
            try:
                os.fsync(handle)
            finally:
                os.close(handle)


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

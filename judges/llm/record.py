"""Judgements as they were made, one JSON object a line, appended by any number of threads and processes.

The file holds what was judged (mail included) and the judges' words. So it is readable by its owner alone; keep it as
you keep the mailbox. It holds no key.
"""

from __future__ import annotations

import fcntl
import json
import os
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

from judges.errors import JudgeInputError
from judges.llm.encoding import type_name
from judges.llm.jsonl import read_lines
from judges.llm.secrets import blank_secrets

FILE_NAME = "judgements.jsonl"
"""The record's name in a run directory."""

FORMAT = 1
"""Version of the records; a reader refuses a newer one."""


class JudgementLog:
    """A JSONL file that is only ever appended to.

    Args:
        path: The file; made, with its folder, at the first judgement.

    Raises:
        JudgeInputError: The path is a folder, or cannot be written.
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = Path(path)
        if self.path.is_dir():
            raise JudgeInputError(f"{self.path} is a folder; name a file, for example {self.path / FILE_NAME}")
        there = next(place for place in (self.path, *self.path.absolute().parents) if place.exists())
        if not os.access(there, os.W_OK) or (there != self.path and not there.is_dir()):
            raise JudgeInputError(f"the record {self.path} cannot be written ({there}); name a file in another folder")

    def append(self, record: Mapping[str, Any]) -> None:
        """Write one record as one whole line: the lock keeps the lines of several writers apart.

        A line that a killed process left unfinished is ended first, so it spoils itself alone.
        """
        line = blank_secrets(json.dumps({"format": FORMAT, **record}, default=type_name)).encode() + b"\n"
        self.path.parent.mkdir(parents=True, exist_ok=True)
        descriptor = os.open(self.path, os.O_RDWR | os.O_APPEND | os.O_CREAT, 0o600)
        with os.fdopen(descriptor, "r+b", buffering=0) as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            size = file.seek(0, os.SEEK_END)
            if size and os.pread(descriptor, 1, size - 1) != b"\n":
                line = b"\n" + line
            rest = memoryview(line)
            while rest:
                rest = rest[file.write(rest) :]


def record_file(path: str | os.PathLike[str]) -> Path:
    """The record of a run directory, or the file itself."""
    file = Path(path)
    return file / FILE_NAME if file.is_dir() else file


def read_judgements(
    path: str | os.PathLike[str], read: Callable[[dict[str, Any]], Any] = lambda record: record
) -> Iterator[Any]:
    """The records of a file, or of the file of a run directory, oldest first. Damaged lines are named and passed over.

    Args:
        path: The file, or the directory.
        read: As in `read_lines`: from a record to what is yielded.

    Raises:
        JudgeInputError: There is no record, or no line of it can be used.
    """
    file = record_file(path)
    if not file.exists():
        raise JudgeInputError(
            f"{file} does not exist: nothing was judged there, or without a record; "
            f'judge with Session(record="{FILE_NAME}")'
        )
    return read_lines(file, lambda record: read(_judgement(record)))


def _judgement(record: Any) -> dict[str, Any]:
    if not isinstance(record, dict) or "format" not in record:
        raise JudgeInputError("is no judgement; is it the record of a judge?")
    if record["format"] != FORMAT:
        raise JudgeInputError(
            f"has format {record['format']!r:.80}, and this version reads {FORMAT}; use the version that wrote it"
        )
    if not isinstance(record.get("kind"), str):
        raise JudgeInputError(f"is no judgement: its kind is {record.get('kind')!r:.80}")
    return record

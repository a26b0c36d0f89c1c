"""Judgements as they were made, one JSON object a line, appended by any number of threads and processes.

The file holds what was judged (mail included) and the judges' words. So it is readable by its owner alone; keep it as
you keep the mailbox. It holds no key.
"""

import json
import logging
import os
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, TypeVar

from judges.common.files import JsonlLog, json_object, locked
from judges.common.secrets import blank_secrets
from judges.errors import JudgeInputError
from judges.llm.prompt_text import type_name

T = TypeVar("T")

MAX_NAMED_LINES = 5
"""Of the damaged lines of a file."""

FILE_NAME = "judgements.jsonl"
"""The record's name in a run directory."""

FORMAT = 1
"""Version of the records; a reader refuses a newer one."""


logger = logging.getLogger(__name__)


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
        """Write one record as one whole line: the lock keeps the lines of several writers apart."""
        line = blank_secrets(json.dumps({"format": FORMAT, **record}, default=type_name)).encode() + b"\n"
        with locked(self.path), JsonlLog(self.path) as log:
            log.write(line)


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


def _judgement(record: dict[str, Any]) -> dict[str, Any]:
    if "format" not in record:
        raise JudgeInputError("is no judgement; is it the record of a judge?")
    if record["format"] != FORMAT:
        raise JudgeInputError(
            f"has format {record['format']!r:.80}, and this version reads {FORMAT}; use the version that wrote it"
        )
    if not isinstance(record.get("kind"), str):
        raise JudgeInputError(f"is no judgement: its kind is {record.get('kind')!r:.80}")
    return record


def read_lines(path: str | os.PathLike[str], read: Callable[[dict[str, Any]], T | None]) -> Iterator[T]:
    """What ``read`` makes of the objects of a JSONL file.

    A damaged line is named in a warning and passed over: it spoils itself alone.

    Args:
        path: The file; empty lines are passed over.
        read: From a line's object to a value; None passes it over without a word. It raises `JudgeInputError` where the
            line is damaged.

    Raises:
        JudgeInputError: The file cannot be read, or all of its lines are damaged.
    """
    damaged: list[str] = []
    count = good = 0
    try:
        with open(path, "rb") as lines:
            for number, line in enumerate(lines, start=1):
                if not line.strip():
                    continue
                try:
                    value = read(json_object(line))
                except ValueError as error:
                    count += 1
                    if len(damaged) < MAX_NAMED_LINES:
                        damaged.append(f"line {number} {error}")
                    continue
                good += 1
                if value is not None:
                    yield value
    except OSError as error:
        raise JudgeInputError(f"{os.fspath(path)} cannot be read: {error}") from error
    finally:  # a reader may stop before the end of the file
        if count and good:
            more = f"; and {count - len(damaged)} more" if count > len(damaged) else ""
            logger.warning("passed over in %s: %s%s", os.fspath(path), "; ".join(damaged), more)
    if count and not good:
        raise JudgeInputError(f"no line of {os.fspath(path)} can be used: {damaged[0]}")

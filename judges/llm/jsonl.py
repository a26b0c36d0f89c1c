"""Objects of a JSONL file, one a line. A damaged line is named in a warning and passed over: it spoils itself alone.

Lines end with a line feed and nothing else, as JSON asks for: a text may hold U+2028 or U+0085. A byte order mark is
passed over wherever a line begins, so files may be joined.
"""

from __future__ import annotations

import json
import logging
import os
from collections.abc import Callable, Iterator
from typing import Any, TypeVar

from judges.errors import JudgeInputError

T = TypeVar("T")

MAX_NAMED_LINES = 5

logger = logging.getLogger(__name__)


def read_lines(path: str | os.PathLike[str], read: Callable[[Any], T | None]) -> Iterator[T]:
    """What ``read`` makes of the lines that it takes.

    Args:
        path: The file; empty lines are passed over.
        read: From a line's JSON to a value; None passes it over without a word. It raises `JudgeInputError` where the
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
                    value = read(_json(line))
                except JudgeInputError as error:
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


def _json(line: bytes) -> Any:
    try:
        return json.loads(line)
    except (ValueError, RecursionError) as error:
        raise JudgeInputError(f"is not JSON ({error})") from None

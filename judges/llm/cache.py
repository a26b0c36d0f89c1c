"""Usable answers of judges, in one SQLite file that several threads and processes may use at once.

The key is a hash of model, URL, parameters and prompt (rubric and trajectories are part of the prompt); secrets are
left out before hashing. The URL is part of it because two servers may give one name to different models. The value is
the raw answer; a malformed one is never kept. It is SQLite because answers are looked up; the record of judgements,
which is read from beginning to end and by people, is JSONL (`judges.llm.record`).

An explanation may quote the mail that was judged: keep the file as you keep the mailbox.
"""

from __future__ import annotations

import hashlib
import json
import os
import sqlite3
import threading
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from judges.errors import JudgeInputError
from judges.llm.prompt_text import type_name

_WAIT_FOR_WRITER_SECONDS = 30.0
_SCHEMA = "CREATE TABLE IF NOT EXISTS judge_answers (key TEXT PRIMARY KEY, content TEXT NOT NULL) WITHOUT ROWID"


def cache_key(request: Mapping[str, Any]) -> str:
    """SHA-256 of all that an answer depends on, independent of the order of keys."""
    text = json.dumps(request, sort_keys=True, separators=(",", ":"), default=type_name)
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


class AnswerCache:
    """A table from key to answer.

    Args:
        path: The file; it is made where it does not exist, readable by its owner alone.

    Raises:
        JudgeInputError: The file cannot be opened or is no SQLite database.
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = Path(path)
        self._lock = threading.Lock()
        self._connection: sqlite3.Connection | None = None
        self._owner = 0
        self._run("SELECT 1 FROM judge_answers LIMIT 1")

    def get(self, key: str) -> str | None:
        """The answer under a key, or None."""
        row = self._run("SELECT content FROM judge_answers WHERE key = ?", key)
        return row[0] if row else None

    def put(self, key: str, content: str) -> None:
        """Keep an answer in place of any earlier one."""
        # A lone surrogate has no UTF-8.
        self._run(
            "INSERT OR REPLACE INTO judge_answers VALUES (?, ?)", key, content.encode("utf-8", "replace").decode()
        )

    def close(self) -> None:
        """Close the file; the next use opens it again."""
        with self._lock:
            if self._connection is not None and self._owner == os.getpid():
                self._connection.close()
            self._connection = None

    def _run(self, statement: str, *values: str) -> tuple[str, ...] | None:
        with self._lock:
            try:
                return self._open().execute(statement, values).fetchone()
            except (sqlite3.Error, OSError) as error:
                damaged = getattr(error, "sqlite_errorcode", 0) & 0xFF in (
                    sqlite3.SQLITE_CORRUPT,
                    sqlite3.SQLITE_NOTADB,
                )
                remedy = "delete the file" if damaged else "see to its disk and permissions"
                raise JudgeInputError(
                    f"the judge cache {self.path} cannot be used ({error}); {remedy} or name another"
                ) from error

    def _open(self) -> sqlite3.Connection:
        """The connection of this process: one that was opened before a fork must not be used after it."""
        if self._connection is None or self._owner != os.getpid():
            self.path.parent.mkdir(parents=True, exist_ok=True)
            self.path.touch(mode=0o600)
            self._connection = sqlite3.connect(
                self.path, timeout=_WAIT_FOR_WRITER_SECONDS, isolation_level=None, check_same_thread=False
            )
            self._owner = os.getpid()
            self._connection.execute("PRAGMA journal_mode = WAL")
            self._connection.execute("PRAGMA synchronous = NORMAL")
            self._connection.execute(_SCHEMA)
        return self._connection

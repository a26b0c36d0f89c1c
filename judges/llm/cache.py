"""Usable answers of judges, in one SQLite file that several threads and processes may use at once.

The key is a hash of model, URL, parameters and prompt (rubric and trajectories are part of the prompt); secrets are
left out before hashing. The URL is part of it because two servers may give one name to different models. The value is
the raw answer; a malformed one is never kept. It is SQLite because answers are looked up; the record of judgements,
which is read from beginning to end and by people, is JSONL (`judges.llm.record`).

An explanation may quote the mail that was judged: keep the file as you keep the mailbox.
"""

import hashlib
import json
import os
import sqlite3
from collections.abc import Mapping
from contextlib import closing
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
        self._run("SELECT 1 FROM judge_answers LIMIT 1")

    def get(self, key: str) -> str | None:
        """The answer under a key, or None."""
        row = self._run("SELECT content FROM judge_answers WHERE key = ?", key)
        return row[0] if row else None

    def put(self, key: str, content: str) -> None:
        """Keep an answer in place of any earlier one."""
        self._run("INSERT OR REPLACE INTO judge_answers VALUES (?, ?)", key, content)

    def _run(self, statement: str, *values: str) -> tuple[str, ...] | None:
        """Run a statement in a connection of its own: threads and forks share none."""
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            self.path.touch(mode=0o600)
            connection = sqlite3.connect(self.path, timeout=_WAIT_FOR_WRITER_SECONDS, isolation_level=None)
            with closing(connection):
                connection.execute(_SCHEMA)
                return connection.execute(statement, values).fetchone()
        except (sqlite3.Error, OSError) as error:
            raise JudgeInputError(
                f"the judge cache {self.path} cannot be used ({error}); see to its disk, or move the file away"
            ) from error

"""The folder of an evaluation: one writer at a time, one line for each episode, killed at any moment and continued.

    config.json     what was asked for, package versions, fingerprints of database and scenarios
    results.jsonl   one line for each finished episode, appended when it ends (`rows`)
    traces/         transcript, tools and model calls of each episode, a line each (`traces`)
    summary.json    the statistics, written at the end (and again after every ``--resume``)

A result's line is written whole and after its trace, so a line stands for an episode that is there in full. Results
that end within ``WRITE_SECONDS`` of each other are written together, and a thread syncs them every ``SYNC_SECONDS``: a
killed process loses what ended in its last ``WRITE_SECONDS``, a power cut what ended in the last ``SYNC_SECONDS``.
``--resume`` plays what was lost; it first drops a last line that was torn.
"""

from __future__ import annotations

import fcntl
import json
import math
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any, TextIO, cast

from grpo.config import EvalConfig, resume_differences
from grpo.episodes.ending import Ending
from grpo.episodes.episode import EpisodeKey
from grpo.episodes.record import FILE_NAME, Row, key_of, read_rows
from grpo.episodes.traces import TraceFile
from grpo.errors import EvaluationError
from grpo.files import Closeable, JsonlLog, write_json, write_jsonl

WRITE_SECONDS = 0.05
"""How long a result may wait to be written together with others."""

SYNC_SECONDS = 1.0
"""How often results are brought to the disk itself."""


class Results(Closeable):
    """An open folder; make it with ``open``.

    Attributes:
        root: The folder.
        rows: What is finished, by key.
    """

    def __init__(self, root: Path, lock: TextIO, rows: dict[EpisodeKey, Row]):
        """Take over a locked folder; ``open`` does all that comes before."""
        self.root = root.absolute()  # an agent may change the working directory
        self.rows = rows
        self._lock = lock
        self._log = JsonlLog(root / FILE_NAME)
        self._traces = TraceFile(root)
        self._added: list[Row] = []
        self._written = -math.inf
        self._refused = False

    @classmethod
    def open(cls, root: Path, config: dict[str, Any], *, resume: bool) -> Results:
        """Lock the folder for this process; begin an evaluation, or continue the one it holds.

        Episodes that ended in an infrastructure failure are forgotten, so that they are played again.

        Raises:
            EvaluationError: The folder cannot be written, is in use, holds an evaluation and ``resume`` is off, or one
                with other settings (the difference is shown).
        """
        lock = _locked(root)
        try:
            with _explained(root):
                return cls(root, lock, _earlier_rows(root, config, resume=resume))
        except BaseException:
            lock.close()
            raise

    def add(self, row: Row, trace: dict[str, Any]) -> None:
        """Keep a finished episode: at once where none was written lately, else with the next ``write``."""
        row["trace"] = self._traces.add(trace)
        self._added.append(row)
        self.rows[key_of(row)] = row
        if time.monotonic() - self._written >= WRITE_SECONDS:
            self.write()

    def write(self) -> None:
        """Write what was added: the traces, then the lines.

        Raises:
            EvaluationError: The disk is full, or refuses for another reason.
        """
        if not self._added or self._refused:
            return
        self._written = time.monotonic()
        with self._writing():
            self._traces.write()
            self._log.extend(self._added)
        self._added = []

    def sync(self) -> None:
        """Wait until what was written is on the disk itself, beyond the reach of a power cut; any thread may.

        Raises:
            EvaluationError: The disk refuses.
        """
        with self._writing():
            self._traces.sync()
            self._log.sync()

    def save_summary(self, summary: dict[str, Any]) -> None:
        """Write the statistics.

        Raises:
            EvaluationError: The disk refuses.
        """
        with self._writing():
            write_json(self.root / "summary.json", summary)

    def close(self) -> None:
        """Bring everything to the disk and release the folder; a second call does nothing."""
        if not self._lock.closed:
            with self._lock, self._writing(), closing(self._log), closing(self._traces):
                self.write()
                self.sync()

    @contextmanager
    def _writing(self) -> Iterator[None]:
        try:
            with _explained(self.root):
                yield
        except EvaluationError:
            self._refused = True  # nothing may follow what is half written
            raise


def read_config(root: Path) -> dict[str, Any]:
    """The settings of the evaluation in a folder.

    Raises:
        EvaluationError: It holds none, or they cannot be read.
    """
    try:
        config = json.loads((root / "config.json").read_text(encoding="utf-8"))
        if not isinstance(config, dict):
            raise ValueError("it holds no JSON object")
    except (OSError, ValueError) as error:
        raise EvaluationError(
            f"{root} is no evaluation: its config.json cannot be read ({error}); name a folder that grpo-eval wrote"
        ) from error
    return cast(dict[str, Any], config)


def different_settings(before: dict[str, Any], now: dict[str, Any]) -> list[str]:
    """Settings that differ and that a continuation may not change, one line each; the packages' versions may."""
    return resume_differences(EvalConfig, {**before, "versions": None}, {**now, "versions": None})


def _locked(root: Path) -> TextIO:
    try:
        root.mkdir(parents=True, exist_ok=True)
        lock = (root / ".lock").open("w")
    except OSError as error:
        raise EvaluationError(f"{root} cannot be written: {error}; choose another --out") from error
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError as error:
        lock.close()
        raise EvaluationError(f"another process is writing to {root}; wait for it, or choose another --out") from error
    return lock


def _earlier_rows(root: Path, config: dict[str, Any], *, resume: bool) -> dict[EpisodeKey, Row]:
    """Write the config, and read the results that the folder holds, without its infrastructure failures."""
    path = root / "config.json"
    if path.exists():
        if not resume:
            raise EvaluationError(
                f"{root} already holds an evaluation; continue it with --resume, or choose another --out"
            )
        _check_same(root, read_config(root), config)
    write_json(path, config)
    written = read_rows(root)
    kept = {key_of(row): row for row in written if row["ending"] != Ending.INFRASTRUCTURE}
    if len(kept) < len(written):
        write_jsonl(root / FILE_NAME, list(kept.values()))
    return kept


def _check_same(root: Path, before: dict[str, Any], now: dict[str, Any]) -> None:
    if lines := different_settings(before, now):
        shown = "\n".join(f"  {line}" for line in lines)
        raise EvaluationError(
            f"{root} was begun with other settings, so it cannot be continued:\n{shown}\n"
            "Use the earlier settings, or choose another --out"
        )


@contextmanager
def _explained(root: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise EvaluationError(
            f"{root} cannot be written: {error}. What it holds stays; make room, and --resume plays the rest"
        ) from error

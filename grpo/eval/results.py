"""The folder of an evaluation: one writer at a time, one line for each episode, killed at any moment and continued.

    config.json     what was asked for, package versions, fingerprints of database and scenarios
    results.jsonl   one line for each finished episode, appended when it ends
    traces/         transcript, tools and model calls of each episode, a line each; `read_trace` finds an episode's.
                    Tools that are those of the line before stand there once: {"offset": where}
    summary.json    the statistics, written at the end (and again after every ``--resume``)

A result's line is written whole and after its trace, so a line stands for an episode that is there in full. Lines of
the same moment are written together: a killed process loses what ended in its last ``WRITE_SECONDS``, a power cut what
ended in the last ``SYNC_SECONDS``. A last line that was torn is dropped when the evaluation is continued.
"""

from __future__ import annotations

import fcntl
import json
import os
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import asdict, is_dataclass
from pathlib import Path
from typing import Any, BinaryIO, TextIO, cast

from grpo.closing import Closing
from grpo.errors import EvaluationError
from grpo.eval.episode import Ending, Episode, EpisodeKey
from grpo.json_bytes import json_bytes
from grpo.metrics import JsonlLog, read_jsonl
from grpo.rundir import write_json, write_jsonl

Row = dict[str, Any]
"""One line of results.jsonl: see ``result_of``."""

WRITE_SECONDS = 0.05
"""How long a result may wait to be written together with others."""

SYNC_SECONDS = 1.0
"""How often results are brought to the disk itself."""

FREE_SETTINGS = ("concurrency", "versions", "judge_api_base", "judge_max_cost")
"""What a continuation may change."""


class Results(Closing):
    """An open folder; make it with ``open``.

    Attributes:
        root: The folder.
        rows: What is finished, by key.
    """

    def __init__(self, root: Path, lock: TextIO):
        """Take over a locked folder; ``open`` does all that comes before."""
        self.root = root
        self.rows: dict[EpisodeKey, Row] = {}
        self._lock = lock
        self._log: JsonlLog | None = None
        self._traces: BinaryIO | None = None
        self._traces_name, self._traces_bytes = "", 0
        self._tools, self._tools_place = b"", b""
        self._added: list[Row] = []
        self._added_traces: list[bytes] = []
        self._written = 0.0
        self._refused = False

    @classmethod
    def open(cls, root: Path, config: dict[str, Any], *, resume: bool) -> Results:
        """Lock the folder for this process; begin an evaluation, or continue the one it holds.

        Episodes that ended in an infrastructure failure are forgotten, so that they are played again.

        Raises:
            EvaluationError: The folder cannot be written, is in use, holds an evaluation and ``resume`` is off, or one
                with other settings (the difference is shown).
        """
        try:
            root.mkdir(parents=True, exist_ok=True)
            lock = (root / ".lock").open("w")
        except OSError as error:
            raise EvaluationError(f"{root} cannot be written: {error}; choose another --out") from error
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            lock.close()
            raise EvaluationError(
                f"another process is writing to {root}; wait for it, or choose another --out"
            ) from error
        results = cls(root, lock)
        try:
            with results._explained():
                results._begin(config, resume=resume)
        except BaseException:
            lock.close()
            raise
        return results

    def _begin(self, config: dict[str, Any], *, resume: bool) -> None:
        path = self.root / "config.json"
        if path.exists():
            if not resume:
                raise EvaluationError(
                    f"{self.root} already holds an evaluation; continue it with --resume, or choose another --out"
                )
            _check_same(self.root, read_config(self.root), config)
        folder = self.root / "traces"
        folder.mkdir(exist_ok=True)
        write_json(path, config)
        written = read_rows(self.root)
        kept = {key_of(row): row for row in written if row["ending"] != Ending.INFRASTRUCTURE}
        if len(kept) < len(written):
            write_jsonl(self.root / "results.jsonl", list(kept.values()))
        self.rows = kept
        self._log = JsonlLog(self.root / "results.jsonl")
        # A file for each process: none goes on behind a line that was torn.
        self._traces_name = f"{len(list(folder.iterdir())):04d}.jsonl"
        self._traces = (folder / self._traces_name).open("xb")

    def add(self, row: Row, trace: dict[str, Any]) -> None:
        """Keep a finished episode: at once where none was written lately, else with the next ``write``."""
        tools = json_bytes(trace.pop("tools"), _json_value)
        if tools != self._tools:  # mostly the same for all episodes: written once, and again where they change
            self._tools, self._tools_place = tools, b'{"offset":%d}' % self._traces_bytes
            place = tools
        else:
            place = self._tools_place
        line = b'%b,"tools":%b}\n' % (json_bytes(trace, _json_value)[:-1], place)
        row["trace"] = {"file": self._traces_name, "offset": self._traces_bytes}
        self._traces_bytes += len(line)
        self._added_traces.append(line)
        self._added.append(row)
        self.rows[key_of(row)] = row
        if time.monotonic() - self._written >= WRITE_SECONDS:
            self.write()

    def write(self) -> None:
        """Write what was added: the traces, then the lines.

        Raises:
            EvaluationError: The disk is full, or refuses for another reason.
        """
        assert self._log is not None, "the folder is open"
        assert self._traces is not None, "the folder is open"
        if not self._added or self._refused:
            return
        self._written = time.monotonic()
        with self._explained():
            self._traces.write(b"".join(self._added_traces))
            self._traces.flush()
            self._log.extend(self._added)
        self._added, self._added_traces = [], []

    def sync(self) -> None:
        """Wait until what was written is on the disk itself, beyond the reach of a power cut; any thread may.

        Raises:
            EvaluationError: The disk refuses.
        """
        assert self._log is not None, "the folder is open"
        assert self._traces is not None, "the folder is open"
        with self._explained():
            os.fsync(self._traces.fileno())
            self._log.sync()

    @contextmanager
    def _explained(self) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            self._refused = True  # nothing may follow what is half written
            raise EvaluationError(
                f"{self.root} cannot be written: {error}. What it holds stays; make room, and --resume plays the rest"
            ) from error

    def summarised(self, summary: dict[str, Any]) -> None:
        """Keep the summary.

        Raises:
            EvaluationError: The disk refuses.
        """
        with self._explained():
            write_json(self.root / "summary.json", summary)

    def close(self) -> None:
        """Bring everything to the disk and release the folder."""
        log, traces = self._log, self._traces
        with self._lock, self._explained():
            if log is not None and traces is not None:
                with closing(log), closing(traces):
                    self.write()
                    self.sync()
            self._log = self._traces = None


def result_of(episode: Episode, ending: Ending, error: str, seconds: float) -> Row:
    """The line of a finished episode.

    ``correct`` and ``reward`` are null after an infrastructure failure; ``correct`` is null too where the env has no
    metric ``success``. An answer judge puts its ``verdict`` there and decides ``correct`` (see ``marking``).
    ``reward`` is what the env paid until the episode stopped.
    """
    failed = ending is Ending.INFRASTRUCTURE
    success = episode.metrics.get("success")
    calls = episode.model_calls
    costs = [call.cost for call in calls if call.cost is not None]
    return {
        "scenario_id": episode.key.scenario_id,
        "sample": episode.key.sample,
        "seed": episode.seed,
        "ending": ending.value,
        "error": error,
        "correct": None if failed or success is None else ending is Ending.ANSWERED and success >= 0.5,
        "verdict": None,
        "reward": None if failed else episode.reward,
        "answer": episode.answer.text if episode.answer else None,
        "sources": list(episode.answer.sources) if episode.answer else [],
        "implicit": episode.implicit,
        "steps": episode.steps,
        "error_codes": dict(episode.error_codes),
        "model_calls": len(calls),
        "prompt_tokens": sum(call.prompt_tokens for call in calls),
        "completion_tokens": sum(call.completion_tokens for call in calls),
        "cost": sum(costs) if costs else None,
        "seconds": round(seconds, 6),
        "metrics": episode.metrics,
    }


def trace_of(episode: Episode, row: Row) -> dict[str, Any]:
    """All that was said in an episode."""
    return {
        "scenario_id": row["scenario_id"],
        "sample": row["sample"],
        "tools": episode.tools,
        "messages": episode.messages,
        "model_calls": list(episode.model_calls),
    }


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
    """The names of settings that differ and that a continuation may not change."""
    return [name for name in {**before, **now} if name not in FREE_SETTINGS and before.get(name) != now.get(name)]


def read_rows(root: Path) -> list[Row]:
    """The lines of an evaluation's results.jsonl; a torn last one is left out.

    Raises:
        EvaluationError: A line before the last cannot be read, or one is no result.
    """
    path = root / "results.jsonl"
    try:
        rows = read_jsonl(path)
        for row in rows:
            if missing := [name for name in ("scenario_id", "sample", "ending") if name not in row]:
                raise ValueError(f"{path} has a line without {missing[0]!r}: {json.dumps(row)[:80]}")
    except ValueError as error:
        raise EvaluationError(f"the results are damaged: {error}. Remove the line to play its episode again") from error
    return rows


def _json_value(value: Any) -> Any:
    """For what JSON has no word for: model calls are dicts, numbers of numpy numbers, everything else is text."""
    if is_dataclass(value) and not isinstance(value, type):
        return asdict(value)
    return float(value) if isinstance(value, float) else str(value)


def key_of(row: Row) -> EpisodeKey:
    """Which episode a line is of."""
    return EpisodeKey(row["scenario_id"], row["sample"])


def read_trace(root: Path, row: Row) -> dict[str, Any]:
    """All that was said in the episode of a line.

    Raises:
        EvaluationError: The trace is not where the line says.
    """
    place = row.get("trace")
    if not isinstance(place, dict):
        raise EvaluationError(f"the line of {key_of(row)} in {root} names no trace: {place!r}")
    try:
        with open(root / "traces" / place["file"], "rb") as file:
            trace = _line_at(file, place)
            if isinstance(trace["tools"], dict):
                trace["tools"] = _line_at(file, trace["tools"])["tools"]
            return trace
    except (OSError, ValueError, KeyError) as error:
        raise EvaluationError(f"{root} has no trace of {key_of(row)} at {place}: {error}") from error


def _line_at(file: BinaryIO, place: dict[str, Any]) -> dict[str, Any]:
    file.seek(place["offset"])
    return json.loads(file.readline())


def _check_same(root: Path, before: dict[str, Any], now: dict[str, Any]) -> None:
    if names := different_settings(before, now):
        shown = "\n".join(f"  {name}: {before.get(name)!r} before, {now.get(name)!r} now" for name in names)
        raise EvaluationError(
            f"{root} was begun with other settings, so it cannot be continued:\n{shown}\n"
            "Use the earlier settings, or choose another --out"
        )

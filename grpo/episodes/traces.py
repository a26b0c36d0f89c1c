"""All that was said in the episodes of an evaluation: ``traces/*.jsonl``, one line an episode.

A trace holds the transcript, the tools and the model calls. Tools that are those of the line before stand there once:
``{"offset": where}``. Each process that plays begins a file of its own, so none goes on behind a line that was torn.
"""

from __future__ import annotations

import json
import os
from dataclasses import asdict, is_dataclass
from pathlib import Path
from typing import Any, BinaryIO

from grpo.episodes.episode import Episode
from grpo.episodes.record import Row, key_of
from grpo.errors import EvaluationError
from grpo.files import Closeable, json_bytes

FOLDER = "traces"


class TraceFile(Closeable):
    """The traces that one process adds to an evaluation.

    Args:
        root: The evaluation's folder.

    Raises:
        OSError: The disk refuses.
    """

    def __init__(self, root: Path):
        folder = root / FOLDER
        folder.mkdir(exist_ok=True)
        numbers = [int(path.stem) for path in folder.glob("*.jsonl") if path.stem.isdecimal()]
        self.name = f"{max(numbers, default=-1) + 1:04d}.jsonl"
        self._file = (folder / self.name).open("xb")
        self._bytes = 0
        self._tools, self._tools_place = b"", b""
        self._added: list[bytes] = []

    def add(self, trace: dict[str, Any]) -> dict[str, Any]:
        """Encode a trace for the next ``write``; returns its place, for ``read_trace``."""
        tools = json_bytes(trace.pop("tools"), _json_value)
        if tools != self._tools:  # mostly the same for all episodes: written once, and again where they change
            self._tools, self._tools_place = tools, b'{"offset":%d}' % self._bytes
            place = tools
        else:
            place = self._tools_place
        line = b'%b,"tools":%b}\n' % (json_bytes(trace, _json_value)[:-1], place)
        offset = self._bytes
        self._bytes += len(line)
        self._added.append(line)
        return {"file": self.name, "offset": offset}

    def write(self) -> None:
        """Write what was added."""
        self._file.write(b"".join(self._added))
        self._file.flush()
        self._added = []

    def sync(self) -> None:
        """Wait until what was written is on the disk itself."""
        os.fsync(self._file.fileno())

    def close(self) -> None:
        """Close the file; a second call does nothing."""
        self._file.close()


def trace_of(episode: Episode) -> dict[str, Any]:
    """All that was said in an episode."""
    return {
        "scenario_id": episode.key.scenario_id,
        "sample": episode.key.sample,
        "tools": episode.tools,
        "messages": episode.messages,
        "model_calls": list(episode.model_calls),
    }


def read_trace(root: Path, row: Row) -> dict[str, Any]:
    """All that was said in the episode of a result.

    Raises:
        EvaluationError: The trace is not where the result says.
    """
    place = row.get("trace")
    if not isinstance(place, dict):
        raise EvaluationError(f"the line of {key_of(row)} in {root} names no trace: {place!r}")
    try:
        with open(root / FOLDER / place["file"], "rb") as file:
            trace = _line_at(file, place)
            if isinstance(trace["tools"], dict):
                trace["tools"] = _line_at(file, trace["tools"])["tools"]
            return trace
    except (OSError, ValueError, KeyError) as error:
        raise EvaluationError(f"{root} has no trace of {key_of(row)} at {place}: {error}") from error


def _line_at(file: BinaryIO, place: dict[str, Any]) -> dict[str, Any]:
    file.seek(place["offset"])
    return json.loads(file.readline())


def _json_value(value: Any) -> Any:
    """For what JSON has no word for: model calls are dicts, numbers of numpy numbers, everything else is text."""
    if is_dataclass(value) and not isinstance(value, type):
        return asdict(value)
    return float(value) if isinstance(value, float) else str(value)

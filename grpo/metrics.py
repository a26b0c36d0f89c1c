"""Numbers of a run: append-only JSON lines on disk, running means, how numbers are shown, memory use.

A run's ``metrics.jsonl`` holds one JSON object a line, so that a killed run loses at most the line being written.
Names are stable paths (``reward/mean``, ``loss/policy``). Plotting and printing live elsewhere.
"""

from __future__ import annotations

import json
import math
import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

from grpo.closing import Closing
from grpo.json_bytes import json_bytes

Record = dict[str, Any]


class JsonlLog(Closing):
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

    def extend(self, records: Sequence[Mapping[str, Any]]) -> None:
        """Writes several at once, as ``append`` would one by one."""
        self._file.write(b"".join(json_bytes(dict(record)) + b"\n" for record in records))
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
        *_, last = self.path.read_bytes().split(b"\n")
        if _is_whole(last):
            self._file.write(b"\n")
            self._file.flush()
        elif last:
            self._file.truncate(self.path.stat().st_size - len(last))


def read_jsonl(path: Path) -> list[Record]:
    """Reads a file of JSON objects, one a line; a missing file is an empty one.

    A last line that is half-written is what a killed writer leaves: it is dropped.

    Raises:
        ValueError: A line before the last that is no JSON object, with its number.
    """
    if not path.exists():
        return []
    *lines, last = path.read_bytes().split(b"\n")
    if _is_whole(last):
        lines.append(last)
    records: list[Record] = []
    for number, line in enumerate(lines, start=1):
        if not line.strip():
            continue
        try:
            value = json.loads(line)
        except ValueError as error:
            raise ValueError(f"{path} line {number} is not JSON ({error}): {line[:80]!r}") from error
        if not isinstance(value, dict):
            raise ValueError(f"{path} line {number} is not a JSON object: {line[:80]!r}")
        records.append(cast(Record, value))
    return records


def _is_whole(line: bytes) -> bool:
    """True for a whole JSON object; no beginning of one is itself an object, so half a line never passes."""
    try:
        return isinstance(json.loads(line), dict)
    except ValueError:
        return False


@dataclass(frozen=True, slots=True)
class ShownMetric:
    """An evaluation metric that tables show: its name, its label, its decimals, whether it is a share of 0 to 1.

    One that is ``exceptional`` is shown only where it is not 0 throughout.
    """

    name: str
    label: str
    decimals: int
    is_share: bool = False
    exceptional: bool = False

    def is_shown(self, means: Iterable[float | None]) -> bool:
        """Whether a table has a row of it, given its means."""
        known = [mean for mean in means if mean is not None]
        return any(known) if self.exceptional else bool(known)

    def format(self, value: float | None) -> str:
        """The value for people; a share in percent."""
        if value is None or not math.isfinite(value):
            return "–"
        return f"{100 * value:.{self.decimals}f} %" if self.is_share else f"{value:.{self.decimals}f}"

    def format_difference(self, value: float) -> str:
        """A difference of two values, with its sign; of shares in percentage points."""
        if not math.isfinite(value):
            return "-∞" if value < 0 else "+∞"
        return f"{100 * value:+.{self.decimals}f} pp" if self.is_share else f"{value:+.{self.decimals}f}"


EVALUATION_METRICS = (
    ShownMetric("reward", "Reward", 3),
    ShownMetric("success", "Success", 1, True),
    ShownMetric("found", "Found the mail", 1, True),
    ShownMetric("read", "Read the mail", 1, True),
    ShownMetric("valid_call_rate", "Valid tool calls", 1, True),
    ShownMetric("turns", "Turns", 2),
    ShownMetric("completion_tokens", "Sampled tokens", 1),
    ShownMetric("context_full", "Cut, context full", 1, True, exceptional=True),
)
"""What the tables of an evaluation show, in this order, where the evaluation has it."""


def short_number(value: float) -> str:
    """A number with about three digits that matter: ``0.412``, ``4.12``, ``41.2``, ``412``, ``0.00412``."""
    size = abs(value)
    if not math.isfinite(value):
        return "–"
    if size >= 100:
        return f"{value:,.0f}"
    if size >= 10:
        return f"{value:.1f}"
    if size >= 1:
        return f"{value:.2f}"
    if size >= 0.1 or size == 0:
        return f"{value:.3f}"
    return f"{value:.3g}"


def counted(count: int, noun: str) -> str:
    """``1 scenario``, ``2 scenarios``."""
    return f"{count} {noun}{'' if count == 1 else 's'}"


def short_duration(seconds: float) -> str:
    """A duration for people: ``0.4 s``, ``41 s``, ``4 min 40 s``, ``2 h 05 min``."""
    if not math.isfinite(seconds):
        return "–"
    if seconds < 10:
        return f"{seconds:.1f} s"
    whole = round(seconds)
    if whole < 60:
        return f"{whole} s"
    if whole < 3600:
        return f"{whole // 60} min {whole % 60:02d} s"
    return f"{whole // 3600} h {whole % 3600 // 60:02d} min"


@dataclass(slots=True)
class RunningMean:
    """Sum over count, for averages shown while values still arrive."""

    total: float = 0.0
    count: int = 0

    def add(self, value: float, count: int = 1) -> None:
        """Adds ``value`` as the mean of ``count`` observations."""
        self.total += value * count
        self.count += count

    @property
    def mean(self) -> float:
        """The mean so far; NaN before the first value."""
        return self.total / self.count if self.count else math.nan


def current_rss_gb(pid: int | None = None) -> float | None:
    """Resident memory of a process now, in GB (10^9 bytes); this process by default, ``None`` where unknown."""
    return _status_gb("VmRSS", pid)


def peak_rss_gb(pid: int | None = None) -> float | None:
    """The most resident memory a process has held, in GB (10^9 bytes); ``None`` where unknown."""
    return _status_gb("VmHWM", pid)


def _status_gb(field: str, pid: int | None) -> float | None:
    try:
        text = Path(f"/proc/{'self' if pid is None else pid}/status").read_text()
    except OSError:
        return None  # no /proc on this system, or the process is gone
    for line in text.splitlines():
        name, _, rest = line.partition(":")
        if name == field:
            return int(rest.split()[0]) * 1024 / 1e9  # the kernel's kB are 1,024 bytes
    return None

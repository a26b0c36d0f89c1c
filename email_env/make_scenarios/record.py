"""What came of each mail, in two JSONL files: the questions, in the form that `EmailSearch-v0` reads, and the rejected.

Each mail gives one line in one of the files, which is appended and synced when the mail is finished. The files are the
whole state of a run: a kill can tear only the last line, which is then dropped, and `--resume` continues with what is
missing. A last line that lacks its line break alone, as editors leave it, is kept. There is no file of settings. Only
the split of each inbox must not change, and it is compared with the questions that are there. One process writes at a
time.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from email_env.errors import ConfigurationError, ScenarioError
from email_env.ingest.atomic import lock
from email_env.make_scenarios.checks import Reason
from email_env.make_scenarios.draw import Draw
from email_env.scenarios.scenario import Scenario


@dataclass(frozen=True, slots=True)
class Made:
    """A question that passed; `realism` is from 0 to 1."""

    scenario: Scenario
    realism: float


@dataclass(frozen=True, slots=True)
class Rejected:
    """A mail that gave no question, and the question and answer proposed, if any."""

    draw: Draw
    reason: Reason
    detail: str = ""
    question: str = ""
    answer: str = ""


class Record:
    """Appends to the two files and knows what they contain.

    Args:
        questions: JSONL file of the questions.
        rejected: JSONL file of the rejected.
        resume: whether the files may hold the lines of an earlier run.

    Raises:
        ConfigurationError: a file has lines already and `resume` is False, another process is writing it, or both
            paths are the same file.
        ScenarioError: a line was not written by this class.
        OSError: a file cannot be read or written.

    Attributes:
        splits: how many questions there are, by split.
        reasons: how many mails were rejected, by reason.
        done: ids of the draws that are finished.
    """

    def __init__(self, questions: Path, rejected: Path, *, resume: bool) -> None:
        if questions.absolute() == rejected.absolute():
            raise ConfigurationError(f"The rejected need a file of their own, got {str(rejected)!r} for both.")
        self._handles: list[int] = []
        try:
            for path in (questions, rejected):
                self._handles.append(_open(path))
            self._read(questions, rejected, resume=resume)
        except BaseException:
            self._close()
            raise

    def _read(self, questions: Path, rejected: Path, *, resume: bool) -> None:
        present = [str(path) for path in (questions, rejected) if path.stat().st_size]
        if present and not resume:
            are, them = ("is", "it") if len(present) == 1 else ("are", "them")
            raise ConfigurationError(
                f"{' and '.join(present)} {are} there already. Add --resume to go on, or move {them} away."
            )
        self.splits: dict[str, int] = {}
        self.reasons: dict[Reason, int] = {}
        self.done: set[str] = set()
        self._made: list[tuple[str, str, str]] = []
        for line in _lines(questions):
            self._note_question(Scenario.from_dict(line))
        for line in _lines(rejected):
            try:
                self._note_rejected(str(line["scenario_id"]), Reason(line["reason"]))
            except (KeyError, ValueError) as error:
                raise ScenarioError(f"{rejected}: no list of rejected questions ({error!r}). Name another.") from error
        self._questions, self._rejected = self._handles

    def check(self, draws: Iterable[Draw]) -> None:
        """Compares the questions that are there with the draw that is to continue.

        Raises:
            ConfigurationError: a question or its inbox is in another split than before, or not drawn at all.
        """
        by_mail: dict[str, str] = {}
        by_inbox: dict[str, set[str]] = {}
        for draw in draws:
            by_mail[draw.scenario_id] = draw.split
            by_inbox.setdefault(draw.inbox, set()).add(draw.split)
        for scenario_id, inbox, split in self._made:
            now = {by_mail[scenario_id]} if scenario_id in by_mail else by_inbox.get(inbox, {"not drawn"})
            if split not in now:
                raise ConfigurationError(
                    f"{inbox} was in the split {split!r} and is now {min(now)!r}. Go on with the"
                    " database, --seed, --inbox, --min-mails and at least the --limit of the first run."
                )

    def add(self, outcome: Made | Rejected) -> None:
        """Appends the line of a finished mail and syncs it."""
        if isinstance(outcome, Made):
            _append(self._questions, {**outcome.scenario.to_dict(), "how_realistic": outcome.realism})
            self._note_question(outcome.scenario)
            return
        draw = outcome.draw
        line = {"scenario_id": draw.scenario_id, "inbox": draw.inbox, "message_id": draw.message_id}
        line |= {"reason": outcome.reason.value, "detail": outcome.detail}
        _append(self._rejected, line | {"question": outcome.question, "answer": outcome.answer})
        self._note_rejected(draw.scenario_id, outcome.reason)

    def _note_question(self, scenario: Scenario) -> None:
        self.done.add(scenario.scenario_id)
        self.splits[scenario.split] = self.splits.get(scenario.split, 0) + 1
        self._made.append((scenario.scenario_id, scenario.inbox, scenario.split))

    def _note_rejected(self, scenario_id: str, reason: Reason) -> None:
        self.done.add(scenario_id)
        self.reasons[reason] = self.reasons.get(reason, 0) + 1

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._close()

    def _close(self) -> None:
        for handle in self._handles:
            os.close(handle)


def _lines(path: Path) -> list[dict[str, Any]]:
    """The lines of a file; a torn last one is cut off, and a whole one gets the line break that it lacks."""
    data = path.read_bytes()
    whole = data.rfind(b"\n") + 1
    if _is_object(data[whole:]):
        with path.open("ab") as file:
            file.write(b"\n")
        whole = len(data)
    found: list[dict[str, Any]] = []
    for number, line in enumerate(data[:whole].splitlines(), start=1):
        try:
            value = json.loads(line)
        except ValueError as error:
            raise ScenarioError(f"{path}, line {number}: {error}. Name another file, or mend the line.") from error
        if not isinstance(value, dict):
            raise ScenarioError(f"{path}, line {number}: expected a JSON object, got {line[:60]!r}.")
        found.append(value)
    if whole < len(data):
        os.truncate(path, whole)
    return found


def _is_object(line: bytes) -> bool:
    try:
        return isinstance(json.loads(line), dict)
    except ValueError:
        return False


def _open(path: Path) -> int:
    path.parent.mkdir(parents=True, exist_ok=True)
    handle = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o666)
    if not lock(handle):
        os.close(handle)
        raise ConfigurationError(f"Another process is writing {path}. Wait for it, or name another file.")
    return handle


def _append(handle: int, value: dict[str, Any]) -> None:
    rest = json.dumps(value, ensure_ascii=False).encode() + b"\n"
    while rest:
        rest = rest[os.write(handle, rest) :]
    os.fsync(handle)

"""What came of each mail, in two JSONL files: the questions, in the form that `EmailSearch-v0` reads, and the rejected.

Each mail gives one line in one of the files, which is appended and synced when the mail is finished. The files are the
whole state of a run: a kill can tear only the last line, which is then dropped, and `--resume` continues with what is
missing. A last line that lacks its line break alone, as editors leave it, is kept. There is no file of settings. Only
the split of each inbox must not change, and it is compared with the questions that are there. One process writes at a
time.
"""

from collections.abc import Iterable
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

from email_env.errors import ConfigurationError, ScenarioError
from email_env.make_scenarios.checks import Reason
from email_env.make_scenarios.draw import Draw
from email_env.scenarios.scenario import Scenario
from judges.common.files import Closeable, DamagedFileError, JsonlLog, locked, read_jsonl


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


class Record(Closeable):
    """Appends to the two files and knows what they contain.

    Args:
        questions: JSONL file of the questions.
        rejected: JSONL file of the rejected.
        resume: whether the files may hold the lines of an earlier run.

    Raises:
        ConfigurationError: a file has lines already and `resume` is False, or another process is writing it.
        ScenarioError: a line was not written by this class.
        OSError: a file cannot be read or written.

    Attributes:
        splits: how many questions there are, by split.
        reasons: how many mails were rejected, by reason.
        done: ids of the draws that are finished.
    """

    def __init__(self, questions: Path, rejected: Path, *, resume: bool) -> None:
        with ExitStack() as opened:
            for path in (questions, rejected):
                opened.enter_context(_locked(path))
            self._read(questions, rejected, resume=resume)
            self._questions = opened.enter_context(JsonlLog(questions))
            self._rejected = opened.enter_context(JsonlLog(rejected))
            self._opened = opened.pop_all()

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

    def check(self, draws: Iterable[Draw]) -> None:
        """Compares the questions that are there with the draw that is to continue.

        Raises:
            ConfigurationError: a question or its inbox is in another split than before, or not drawn at all.
        """
        splits = {draw.scenario_id: draw.split for draw in draws}
        for scenario_id, inbox, split in self._made:
            now = splits.get(scenario_id, "not drawn")
            if split != now:
                raise ConfigurationError(
                    f"A mail of {inbox} was in the split {split!r} and is now {now!r}. Go on with the"
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

    def close(self) -> None:
        """Closes the files."""
        self._opened.close()


def _lines(path: Path) -> list[dict[str, Any]]:
    try:
        return read_jsonl(path)
    except DamagedFileError as error:
        raise ScenarioError(f"{error}. Name another file, or mend the line.") from error


def _locked(path: Path) -> BinaryIO:
    try:
        return locked(path, wait=False)
    except BlockingIOError:
        raise ConfigurationError(f"Another process is writing {path}. Wait for it, or name another file.") from None


def _append(log: JsonlLog, line: dict[str, Any]) -> None:
    log.append(line)
    log.sync()

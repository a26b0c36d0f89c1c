"""The folder of an evaluation: one writer at a time, one line for each episode, killed at any moment and continued.

    config.json     what was asked for, package versions, fingerprints of database and scenarios
    results.jsonl   one line for each finished episode, appended when it ends (`record`)
    summary.json    the statistics, written at the end (and again after every ``--resume``)

A line stands for an episode that is there in full. It is written as the episode ends, and a thread syncs all every
``SYNC_SECONDS``: a killed process loses nothing, a power cut what ended in the last ``SYNC_SECONDS``. ``--resume``
plays what was lost; it first drops a last line that was torn.
"""

import asyncio
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager, closing, contextmanager
from pathlib import Path
from typing import Any, BinaryIO, Self

from grpo.config import EvalConfig, resume_differences
from grpo.episodes.record import drop_transcript, line_of, read_episodes, with_transcript, write_episodes
from grpo.episodes.summary import summarise
from grpo.errors import EvaluationError, first_of_ours
from grpo.types import Episode
from judges.common.files import Closeable, JsonlLog, is_in_place, locked, read_json, write_json

FILE_NAME = "results.jsonl"

SYNC_SECONDS = 1.0
"""How often results are brought to the disk itself."""


class Results(Closeable):
    """An open folder; make it with ``open``.

    Attributes:
        root: The folder.
        episodes: What is finished, by scenario and sample, without transcripts.
    """

    def __init__(self, root: Path, lock: BinaryIO, episodes: dict[tuple[str, int], Episode]):
        """Take over a locked folder; ``open`` does all that comes before."""
        self.root = root.absolute()  # an agent may change the working directory
        self.episodes = episodes
        self._lock = lock
        self._log = JsonlLog(root / FILE_NAME)
        self._refused = False

    @classmethod
    def open(cls, root: Path, config: dict[str, Any], *, resume: bool) -> Self:
        """Lock the folder for this process; begin an evaluation, or continue the one it holds.

        Episodes that ended in an infrastructure failure are forgotten, so that they are played again.

        Raises:
            EvaluationError: The folder cannot be written, is in use, holds an evaluation and ``resume`` is off, or one
                with other settings (the difference is shown).
        """
        lock = _locked(root)
        try:
            with _explained(root):
                return cls(root, lock, _earlier(root, config, resume=resume))
        except BaseException:
            lock.close()
            raise

    def add(self, episode: Episode) -> None:
        """Keep a finished episode: its line in the folder, and here what it came to.

        Raises:
            EvaluationError: The disk is full, or refuses for another reason.
        """
        line = line_of(episode)
        drop_transcript(episode)
        self.episodes[episode.key] = episode
        if not self._refused:
            with self._writing():
                self._log.write(line)

    @asynccontextmanager
    async def kept_up(self) -> AsyncIterator[None]:
        """Sync what is added meanwhile, every so often."""

        async def sync() -> None:
            while True:
                await asyncio.sleep(SYNC_SECONDS)
                await asyncio.to_thread(self.sync)

        with first_of_ours():
            async with asyncio.TaskGroup() as group:
                keeper = group.create_task(sync())
                yield
                keeper.cancel()

    def sync(self) -> None:
        """Wait until what was written is on the disk itself, beyond the reach of a power cut; any thread may.

        Raises:
            EvaluationError: The disk refuses, or the folder was removed or moved.
        """
        if not is_in_place(self.root / ".lock", self._lock):
            self._refused = True
            raise EvaluationError(
                f"{self.root} was removed or moved while episodes were played, so nothing can be kept any more; what "
                "was kept is where it was moved to: --out THERE --resume goes on"
            )
        with self._writing():
            self._log.sync()

    def save_summary(self, summary: dict[str, Any]) -> None:
        """Write the statistics.

        Raises:
            EvaluationError: As `sync`.
        """
        self.sync()
        with self._writing():
            write_json(self.root / "summary.json", summary)

    def close(self) -> None:
        """Bring everything to the disk and release the folder; a second call does nothing."""
        if not self._lock.closed:
            with self._lock, closing(self._log):
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
        return read_json(root / "config.json")
    except (OSError, ValueError) as error:
        raise EvaluationError(f"{root} is no evaluation: {error}; name a folder that grpo-eval wrote") from error


def summary_of(config: Mapping[str, Any], episodes: Sequence[Episode], planned: int, seconds: float) -> dict[str, Any]:
    """The summary of an evaluation; its agent, env, split and seed are repeated in it."""
    about = {name: config.get(name) for name in ("agent", "model", "env", "split", "seed", "k")}
    judge = (config.get("answer_judge") or {}).get("model")
    return summarise(episodes, seconds, **about, label=config.get("agent"), planned=planned, judge_model=judge)


def different_settings(before: dict[str, Any], now: dict[str, Any]) -> list[str]:
    """Settings that differ and that a continuation may not change, one line each; the packages' versions may."""
    return resume_differences(EvalConfig, {**before, "versions": None}, {**now, "versions": None})


def _locked(root: Path) -> BinaryIO:
    try:
        return locked(root / ".lock", wait=False)
    except BlockingIOError as error:
        raise EvaluationError(f"another process is writing to {root}; wait for it, or choose another --out") from error
    except OSError as error:
        raise EvaluationError(f"{root} cannot be written: {error}; choose another --out") from error


def read_results(root: Path) -> list[Episode]:
    """The episodes in the folder of an evaluation, without transcripts; a torn last line is left out.

    Raises:
        EvaluationError: A line before the last cannot be read, or is no record.
    """
    try:
        return list(read_episodes(root / FILE_NAME, transcripts=False))
    except ValueError as error:
        raise EvaluationError(f"the results are damaged: {error}. Remove the line to play its episode again") from error


def _earlier(root: Path, config: dict[str, Any], *, resume: bool) -> dict[tuple[str, int], Episode]:
    """Write the config, and read the results that the folder holds, without those that are to be played again."""
    path = root / "config.json"
    if path.exists():
        if not resume:
            raise EvaluationError(
                f"{root} already holds an evaluation; continue it with --resume, or choose another --out"
            )
        _check_same(root, read_config(root), config)
    write_json(path, config)
    written = read_results(root)
    kept = {episode.key: episode for episode in written if not episode.ending.played_again}
    if len(kept) < len(written):
        write_episodes(root / FILE_NAME, map(with_transcript, kept.values()))
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

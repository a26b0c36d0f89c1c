"""Checkpoints: the whole state of a run after a step, written beside what comes next and renamed into place.

A checkpoint is a folder ``step-0007`` with the adapter, the engine's state and ``state.json`` (step, position in the
task stream). A folder without ``state.json`` does not exist as far as a resumed run is concerned.

The adapter is written while the step waits, because it is published from there. All else, and waiting for the disk, is
left to a thread. It is given the engine's state as bytes, so the next update may change the learner meanwhile; until it
is done that takes 8 bytes of memory for each weight of the adapter.

A step has happened once its checkpoint is renamed into place. Its metrics and trajectories are written before the
thread gets it, so a run that is killed anywhere lacks neither, and a resumed one drops those of a lost step.
"""

import shutil
from collections.abc import Callable, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import asdict, dataclass, field
from pathlib import Path

from grpo.learner.engine import Engine
from grpo.runs.retention import STATE_FILE, checkpoint_name, checkpoints, prune
from judges.common.files import Closeable, fsync_tree, read_json, write_json


@dataclass(frozen=True, slots=True)
class TrainState:
    """What the trainer itself must remember: GRPO steps done, tasks handed out, and those of them yet to be learned.

    ``open_tasks`` has the key and the seed of each task that was handed out and that no step has learned from.
    """

    step: int
    task_position: int
    open_tasks: list[tuple[str, int]] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class Begun:
    """A checkpoint in the making.

    Attributes:
        folder: With the adapter, under a name that does not count yet.
        files: The engine's state: what else goes there, by name.
        state: The trainer's own.
    """

    folder: Path
    files: Mapping[str, bytes]
    state: TrainState


class Checkpoints(Closeable):
    """Makes the checkpoints of a run, one after another."""

    def __init__(self, folder: Path, keep: int):
        """Make them in ``folder``, and keep the newest ``keep`` and those that `retention.prune` spares."""
        self._folder, self._keep = folder, keep
        self._thread = ThreadPoolExecutor(1, "checkpoint")
        self._last: Future[None] | None = None

    def begin(self, engine: Engine, state: TrainState) -> Begun:
        """Write the adapter and copy the rest, once the checkpoint before is whole.

        Raises:
            OSError: The checkpoint before could not be written.
        """
        self.wait()
        folder = self._folder / f".{checkpoint_name(state.step)}.partial"
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        engine.save_adapter(folder)
        return Begun(folder, engine.state(), state)

    def finish(self, begun: Begun, describe: Callable[[Path], None] = lambda _folder: None) -> None:
        """Have it made whole in the thread: the newest at one stroke, and then those dropped that need not be kept.

        Args:
            begun: Of ``begin``. What belongs to its step and lies elsewhere (metrics, trajectories) is written by now.
            describe: Called in the thread with the folder; it may add to it (a model card).
        """
        self._last = self._thread.submit(self._finish, begun, describe)

    def wait(self) -> None:
        """Wait until the checkpoint that was begun last is whole.

        Raises:
            OSError: It could not be written; the one before is the newest.
        """
        if self._last is not None:
            self._last.result()

    def close(self) -> None:
        """End the thread once it has written; ``wait`` tells whether that failed."""
        self._thread.shutdown()

    def _finish(self, begun: Begun, describe: Callable[[Path], None]) -> None:
        for name, content in begun.files.items():
            (begun.folder / name).write_bytes(content)
        describe(begun.folder)
        write_json(begun.folder / STATE_FILE, asdict(begun.state))
        fsync_tree(begun.folder)
        target = self._folder / checkpoint_name(begun.state.step)
        if target.exists():
            shutil.rmtree(target)
        begun.folder.rename(target)
        prune(self._folder, self._keep)


def newest_checkpoint(folder: Path) -> tuple[Path, TrainState] | None:
    """The newest whole checkpoint, or None."""
    found = checkpoints(folder)
    if not found:
        return None
    return found[-1], TrainState(**read_json(found[-1] / STATE_FILE, "step", "task_position"))

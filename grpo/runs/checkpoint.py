"""Checkpoints: the whole state of a run after a step, written beside and renamed into place.

A checkpoint is a folder ``step-0007`` with the adapter, the engine's state and ``state.json`` (step, position in the
task stream). A folder without ``state.json`` does not exist as far as a resumed run is concerned.

A step has happened once its checkpoint is renamed into place. Its metrics and trajectories are written after the
checkpoint is built and before it is renamed, so a run that is killed anywhere lacks neither and has none twice.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from pathlib import Path

from grpo.errors import CheckpointError
from grpo.files import fsync_tree, write_json
from grpo.learner.engine import Engine
from grpo.runs.retention import STATE_FILE, checkpoint_name, checkpoints, prune


@dataclass(frozen=True, slots=True)
class TrainState:
    """What the trainer itself must remember: GRPO steps done, tasks handed out, and those of them yet to be learned.

    ``open_tasks`` has the key and the seed of each task that was handed out and that no step has learned from.
    """

    step: int
    task_position: int
    open_tasks: list[tuple[str, int]] = field(default_factory=list)


def build_checkpoint(
    folder: Path, engine: Engine, state: TrainState, describe: Callable[[Path], None] = lambda _folder: None
) -> Path:
    """Write the checkpoint of ``state.step`` under a name that does not count yet, for ``commit_checkpoint``.

    What belongs to the step and lies elsewhere (metrics, trajectories) is written between the two, so that it is there
    whenever the checkpoint is.

    Args:
        folder: The run's checkpoints.
        engine: Whose state it is.
        state: The trainer's own.
        describe: Called with the new folder; it may add to it (a model card).
    """
    target = folder / checkpoint_name(state.step)
    building = folder / f".{target.name}.partial"
    shutil.rmtree(building, ignore_errors=True)
    building.mkdir(parents=True)
    engine.save_state(building)
    describe(building)
    write_json(building / STATE_FILE, asdict(state))
    fsync_tree(building)
    return building


def commit_checkpoint(building: Path, keep: int) -> Path:
    """Make a built checkpoint the newest one, at one stroke, and drop all but the newest ``keep`` and the best."""
    folder = building.parent
    target = folder / building.name.removeprefix(".").removesuffix(".partial")
    if target.exists():
        shutil.rmtree(target)
    building.rename(target)
    prune(folder, keep)
    return target


def newest_checkpoint(folder: Path) -> tuple[Path, TrainState] | None:
    """The newest whole checkpoint, or None.

    Raises:
        CheckpointError: Its state cannot be read.
    """
    found = checkpoints(folder)
    if not found:
        return None
    path = found[-1] / STATE_FILE
    try:
        return found[-1], TrainState(**json.loads(path.read_text(encoding="utf-8")))
    except (OSError, ValueError, TypeError) as error:
        raise CheckpointError(f"{path} is damaged ({error}); remove its folder to go on from the one before") from error

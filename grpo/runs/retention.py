"""Which checkpoints of a run are there, which are kept, and which is the best by held-out score.

Kept are that before GRPO's first step, to compare with, the newest few and the best. ``best.json`` names the best; it
is written after an evaluation between steps, so a run without them has none.

The best goes by the evaluations between steps (``eval.every``), which are of another split than those before and after
GRPO: a score on the tasks that chose it would be too good.
"""

import re
import shutil
from dataclasses import dataclass
from pathlib import Path

from grpo.errors import CheckpointError
from judges.common.files import read_json, write_json

STATE_FILE = "state.json"
"""A checkpoint's folder without this file does not exist as far as anybody is concerned."""

BEST_FILE = "best.json"


@dataclass(frozen=True, slots=True)
class Best:
    """The checkpoint with the highest held-out score so far."""

    checkpoint: str
    score: float


def checkpoint_name(step: int) -> str:
    """Folder name of a step's checkpoint."""
    return f"step-{step:04d}"


def step_of(name: str) -> int:
    """The step whose checkpoint has this name."""
    return int(name.removeprefix("step-"))


def checkpoints(folder: Path) -> list[Path]:
    """The whole checkpoints, oldest first; a folder of another name is the user's, for example a copy of one."""
    found = [path.parent for path in folder.glob(f"step-*/{STATE_FILE}") if re.fullmatch(r"step-\d+", path.parent.name)]
    return sorted(found, key=lambda path: step_of(path.name))


def prune(folder: Path, keep: int) -> None:
    """Remove all but the first checkpoint, where GRPO began, the newest ``keep`` and the best."""
    best = best_of(folder)
    spared = {checkpoint_name(0), best.checkpoint if best else ""}
    for old in checkpoints(folder)[:-keep]:
        if old.name not in spared:
            shutil.rmtree(old)


def note_score(folder: Path, step: int, score: float) -> None:
    """Remember the checkpoint of ``step`` as the best if no earlier one scored as much."""
    best = best_of(folder)
    if best is None or best.checkpoint == checkpoint_name(step) or score > best.score:
        write_json(folder / BEST_FILE, {"checkpoint": checkpoint_name(step), "score": score})


def forget_best_after(folder: Path, step: int) -> None:
    """Forget the best checkpoint if it is one after ``step``: a run that goes on from there will have another."""
    best = best_of(folder)
    if best is not None and step_of(best.checkpoint) > step:
        (folder / BEST_FILE).unlink()


def best_of(folder: Path) -> Best | None:
    """What ``best.json`` says, or None where no checkpoint was scored."""
    path = folder / BEST_FILE
    return Best(**read_json(path, "checkpoint", "score")) if path.exists() else None


def find_checkpoint(folder: Path, which: str) -> Path:
    """The checkpoint that ``which`` means: ``newest``, ``best``, or the number of a step.

    Raises:
        CheckpointError: There is none; those that there are are named.
    """
    found = {path.name: path for path in checkpoints(folder)}
    if not found:
        raise CheckpointError(f"there is no checkpoint in {folder}; let the run finish its warm start first")
    if which == "newest":
        return list(found.values())[-1]
    if which == "best":
        best = best_of(folder)
        if best is None or best.checkpoint not in found:
            raise CheckpointError(f"no checkpoint in {folder} has a held-out score (train with --set eval.every=N)")
        return found[best.checkpoint]
    try:
        return found[checkpoint_name(int(which))]
    except (ValueError, KeyError):
        steps = ", ".join(str(step_of(name)) for name in found)
        raise CheckpointError(f"no checkpoint {which!r}; choose newest, best or one of the steps {steps}") from None

"""The run directory: where everything of a run lies, one trainer at a time, and what a continuation may change.

config.json  metrics.jsonl  warmstart.jsonl  eval/  trajectories/  partial/  checkpoints/  adapters/  server.log
judge-rubric.txt  report.html
"""

import json
import re
import shlex
import time
from pathlib import Path
from typing import Any, BinaryIO, Self

from grpo.config import TrainConfig, resume_differences
from grpo.errors import CheckpointError, ConfigError
from grpo.machine.hardware import cpu_count
from grpo.runs.retention import checkpoints, step_of
from judges.common.files import (
    Closeable,
    DamagedFileError,
    Record,
    is_in_place,
    locked,
    read_json,
    read_jsonl,
    write_json,
    write_text,
)

_LOCK = ".lock"
_STEP = re.compile(r"step-(\d+)(-[a-z]+)?$")


def is_in_use(root: Path) -> bool:
    """Whether a process works on the run of this directory."""
    if (root / _LOCK).exists():
        try:
            locked(root / _LOCK, wait=False).close()
        except BlockingIOError:
            return True
        except OSError:  # whoever may not write there cannot know
            pass
    return False


class RunDirectory(Closeable):
    """Paths of a run and its lock; create it with ``open``."""

    config: TrainConfig
    """Of the run, once it is open."""

    def __init__(self, root: Path):
        self.root = root.absolute()
        self.config_path = self.root / "config.json"
        self.metrics_path = self.root / "metrics.jsonl"
        self.warm_start_path = self.root / "warmstart.jsonl"
        self.checkpoints = self.root / "checkpoints"
        self.partial = self.root / "partial"
        self.adapters = self.root / "adapters"
        self.server_log = self.root / "server.log"
        self.rubric = self.root / "judge-rubric.txt"
        self.opened_at = time.monotonic()
        self.earlier_steps: int | None = None  # of the run that is continued, before this process
        self.earlier_minutes: float | None = None
        self._lock: BinaryIO | None = None

    @classmethod
    def open(cls, root: Path, config: TrainConfig, *, resume: bool) -> Self:
        """Lock the directory for this process and write or check its config and its rubric.

        Raises:
            ConfigError: The rubric cannot be read; the directory cannot be written, or is something else's; or it holds
                a run and ``resume`` is off, or the config or the rubric differs from that run's.
            CheckpointError: Another process is using the directory.
        """
        run, rubric = cls(root), config.rubric()
        try:
            run.root.mkdir(0o700, parents=True, exist_ok=True)
            run._acquire()
            run.write_config(run.settled(config, resume=resume))
            if rubric is not None:  # the setting names a file, which may be changed
                write_text(run.rubric, rubric)
        except OSError as error:
            run.close()
            raise ConfigError(f"{run.root} cannot hold a run: {error}; choose another --run-dir") from error
        except BaseException:
            run.close()
            raise
        return run

    def evaluation(self, label: str) -> Path:
        """Summary file of an evaluation; its trajectories lie beside it as ``.jsonl``."""
        return self.root / "eval" / f"{label}.json"

    def metrics(self, damaged: list[str] | None = None) -> list[Record]:
        """Of the steps so far. Damaged lines are left out, and told in ``damaged``."""
        return read_jsonl(self.metrics_path, [] if damaged is None else damaged)

    def warm_start(self) -> list[Record]:
        """Metrics of its steps so far; damaged lines are left out."""
        return read_jsonl(self.warm_start_path, [])

    def trajectories(self, step: int) -> Path:
        """Trajectories of a training step."""
        return self.root / "trajectories" / f"step-{step:04d}.jsonl"

    def drop_trajectories(self, before: int) -> None:
        """Remove the episodes of the steps before, and of the evaluations between them; their metrics stay."""
        for path in (*self.root.glob("trajectories/step-*.jsonl"), *self.root.glob("eval/step-*.jsonl")):
            if (found := _STEP.match(path.stem)) and int(found[1]) < before:
                path.unlink()

    def close(self) -> None:
        """Release the lock."""
        if self._lock is not None:
            self._lock.close()
            self._lock = None

    def check_in_place(self) -> None:
        """Refuse to go on where nobody would find what is written.

        Raises:
            CheckpointError: The directory was removed or moved.
        """
        if self._lock is not None and not is_in_place(self.root / _LOCK, self._lock):
            raise CheckpointError(
                f"{self.root} was removed or moved while the run went on, so nothing can be kept any more. What was "
                "kept is where it was moved to: --run-dir THERE --resume goes on. If it was removed, all of it is lost"
            )

    def write_config(self, config: TrainConfig) -> TrainConfig:
        """Keep the settings of the run, in which ``auto`` has become what was found; returns them."""
        write_json(self.config_path, json.loads(config.model_dump_json()))
        self.config = config
        return config

    def settled(self, config: TrainConfig, *, resume: bool) -> TrainConfig:
        """Hold the settings against the run that is here, which keeps what it measured: its dtype where that is
        ``auto``, its threads where none are set, and with ``minutes`` the number of steps that it chose last. Steps
        that are made stay: their number is the least.

        Nothing is written.

        Raises:
            ConfigError: The directory is something else's; or it holds a run and ``resume`` is off, or the config
                or the text of the rubric differs from that run's.
        """
        earlier = self._earlier_config()
        if earlier is None:
            return config
        kept: dict[str, Any] = {}
        if config.dtype == "auto":
            kept["dtype"] = earlier.get("dtype", "auto")
        threads = earlier.get("threads")
        if config.threads is None and threads is not None and threads <= cpu_count():  # else it was another machine
            kept["threads"] = threads
        made = step_of(found[-1].name) if (found := checkpoints(self.checkpoints)) else 0
        kept["steps"] = max(made, config.steps if config.minutes is None else earlier["steps"])
        config = config.model_copy(update=kept)
        if not resume:
            raise ConfigError(
                f"{self.root} already holds a run; continue it with --resume, or choose another --run-dir"
            )
        self.earlier_steps, self.earlier_minutes = earlier["steps"], earlier.get("minutes")
        difference = resume_differences(TrainConfig, earlier, config.model_dump(mode="json"))
        if self.rubric.exists() and config.rubric() not in (None, self.rubric.read_text(encoding="utf-8")):
            difference.append(f"judge.rubric: {config.judge.rubric} was changed; {self.rubric} has the earlier text")
        if difference:
            raise ConfigError(
                f"{self.root} was begun with other settings, so it cannot be continued:\n  "
                + "\n  ".join(difference)
                + f"\nUse the earlier settings (--recipe {shlex.quote(str(self.config_path))} has them), or choose "
                "another --run-dir"
            )
        return config

    def _earlier_config(self) -> dict[str, Any] | None:
        """The settings of the run that is here; None where there is none, or one that did nothing (its model was not
        found, say) and whose settings are therefore free to change.
        """
        if not self.config_path.exists():
            return None
        try:
            earlier = read_json(self.config_path, "env", "steps")
        except DamagedFileError as error:
            raise ConfigError(f"{self.config_path} is not a run's; choose another --run-dir") from error
        work = (self.checkpoints, self.partial, self.root / "eval", self.warm_start_path, self.metrics_path)
        return earlier if any(path.exists() for path in work) else None

    def _acquire(self) -> None:
        try:
            self._lock = locked(self.root / _LOCK, wait=False)
        except BlockingIOError as error:
            raise CheckpointError(
                f"another process is training in {self.root}; wait for it, stop it, or choose another --run-dir"
            ) from error

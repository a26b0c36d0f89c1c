"""A run's metrics and some of its episodes in tensorboard, trackio or wandb, beside its own files, which hold all.

A tracker that fails is noted once and left alone: it never ends a run. wandb's own variables (``WANDB_MODE=offline``,
``WANDB_PROJECT``) and trackio's (``TRACKIO_DIR``, ``TRACKIO_SPACE_ID``) are honoured. A run continued with ``--resume``
goes on in the same run of the tracker.
"""

import importlib
import importlib.util
import math
import os
import secrets
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

from grpo.chat.transcript import best_and_worst, shortened, transcript
from grpo.errors import ConfigError
from grpo.runs.evaluations import is_final
from grpo.types import Episode
from judges.common.files import Closeable

_COLUMNS = ["episode", "scenario", "reward", "transcript"]
_MAX_CHARS = 20_000  # of a transcript
_ID_FILE = "tracking-id"


class Tracking(Closeable):
    """The tracker of a run, if it has one; whatever goes wrong in it is noted and not raised."""

    def __init__(
        self,
        name: str | None,
        folder: Path,
        *,
        project: str,
        config: Mapping[str, Any],
        note: Callable[[str], None],
        steps_done: int = 0,
    ):
        """Start the tracker.

        Args:
            name: Of the tracker, which is also that of its package and of an extra of this project; None for none.
            folder: The run directory; its name is the run's name.
            project: What the tracker groups runs by.
            config: The run's settings.
            note: Shows one line to the user.
            steps_done: Where a continued run goes on.
        """
        self._name = name
        self._note = note
        self._tracker: _Tensorboard | _Trackio | _Wandb | None = None
        if name is not None:
            starts = {"tensorboard": _Tensorboard, "trackio": _Trackio, "wandb": _Wandb}
            self._tracker = self._guarded(lambda: starts[name](folder, project, config, steps_done))

    def log(self, metrics: Mapping[str, Any], step: int, prefix: str = "") -> None:
        """Record the finite numbers among ``metrics`` under ``prefix`` and their names."""
        numbers = {
            f"{prefix}{key}": float(value)
            for key, value in metrics.items()
            if isinstance(value, int | float) and math.isfinite(value)
        }
        if (tracker := self._tracker) is not None:
            self._guarded(lambda: tracker.log(numbers, step))

    def log_evaluation(self, summary: Mapping[str, Any], step: int, episodes: Iterable[Episode] = ()) -> None:
        """Record means, ``eval/sampled/reward`` or, between steps, ``selection/sampled/reward``, and examples."""
        means = {name: interval["mean"] for name, interval in summary["metrics"].items()}
        where = "eval" if is_final(summary["label"].partition("-")[0]) else "selection"
        where = f"{where}/{'greedy' if summary['temperature'] == 0 else 'sampled'}"
        self.log(means, step, f"{where}/")
        self.log_episodes(episodes, step, where)

    def log_episodes(self, episodes: Iterable[Episode], step: int, where: str) -> None:
        """Record the best and the worst of some episodes, to be read, as ``where/episodes``."""
        if (tracker := self._tracker) is not None:
            self._guarded(lambda: tracker.show(f"{where}/episodes", _table(episodes), step))

    def close(self) -> None:
        """Have the tracker write what is left."""
        if (tracker := self._tracker) is not None:
            self._guarded(tracker.close)
            self._tracker = None

    def _guarded(self, call: Callable[[], Any]) -> Any:
        try:
            return call()
        except Exception as error:  # the one boundary: a tracker may raise anything, and the run must go on
            self._tracker = None
            self._note(
                f"{self._name} failed ({type(error).__name__}: {error}) and gets nothing more; metrics.jsonl goes on"
            )


def check_tracker(name: str | None) -> None:
    """Refuse a tracker that is not installed.

    Raises:
        ConfigError: With the extra to install.
    """
    if name is not None and importlib.util.find_spec(name) is None:
        raise ConfigError(
            f"--track {name} needs the package {name}, which is not installed: pip install 'email-rl[{name}]'"
        )


class _Tensorboard:
    """Event files in ``RUN/tensorboard``."""

    def __init__(self, folder: Path, _project: str, config: Mapping[str, Any], steps_done: int):
        from torch.utils.tensorboard import SummaryWriter

        # Steps after the checkpoint that a run goes on from are run again: what they wrote is not to be shown.
        purge = steps_done + 1 if steps_done else None
        self._writer = SummaryWriter(str(folder / "tensorboard"), purge_step=purge)
        self._writer.add_text("config", "\n".join(f"    {key}: {value}" for key, value in config.items()), steps_done)

    def log(self, metrics: Mapping[str, float], step: int) -> None:
        for name, value in metrics.items():
            self._writer.add_scalar(name, value, step)
        self._writer.flush()

    def show(self, name: str, rows: list[list[Any]], step: int) -> None:
        for which, _scenario, _reward, text in rows:  # Markdown: an indented text stands as it is
            self._writer.add_text(f"{name}/{which}", "    " + text.replace("\n", "\n    "), step)

    def close(self) -> None:
        self._writer.close()


class _Trackio:
    """A local SQLite file of trackio's, shown by ``trackio show``; or where ``TRACKIO_SPACE_ID`` says."""

    def __init__(self, folder: Path, project: str, config: Mapping[str, Any], _steps_done: int):
        trackio: Any = importlib.import_module("trackio")
        self._table = trackio.Table
        name = f"{folder.name}-{_lasting_id(folder)}"
        self._run = trackio.init(project, name, config=dict(config), resume="allow", auto_log_cpu=False)

    def log(self, metrics: Mapping[str, Any], step: int) -> None:
        self._run.log(dict(metrics), step=step)

    def show(self, name: str, rows: list[list[Any]], step: int) -> None:
        self.log({name: self._table(columns=_COLUMNS, data=rows)}, step)

    def close(self) -> None:
        self._run.finish()


class _Wandb(_Trackio):
    """A run of Weights & Biases, whose form is trackio's, in ``RUN/wandb`` and, unless offline, on its server."""

    def __init__(self, folder: Path, project: str, config: Mapping[str, Any], _steps_done: int):
        wandb: Any = importlib.import_module("wandb")
        self._table = wandb.Table
        self._run = wandb.init(
            project=os.environ.get("WANDB_PROJECT") or project,
            name=folder.name,
            id=_lasting_id(folder),
            resume="allow",
            dir=str(folder),
            config=dict(config),
            settings=wandb.Settings(console="off"),  # the display owns the terminal
        )
        # Its own counter only grows, but a continued run repeats steps and the warm start counts apart.
        self._run.define_metric("*", step_metric="step")
        self._run.define_metric("warmstart/*", step_metric="warmstart/step")

    def log(self, metrics: Mapping[str, Any], step: int) -> None:
        axis = {} if "warmstart/step" in metrics else {"step": step}
        self._run.log({**metrics, **axis})


def _table(episodes: Iterable[Episode]) -> list[list[Any]]:
    shown = best_and_worst(list(episodes))
    return [[which, e.task.key, e.reward, shortened("\n".join(transcript(e)), _MAX_CHARS)] for which, e in shown]


def _lasting_id(folder: Path) -> str:
    """An id of the run that stays over ``--resume`` and differs from that of a run of the same name elsewhere."""
    path = folder / _ID_FILE
    if not path.exists():
        path.write_text(secrets.token_hex(4), encoding="ascii")
    return path.read_text(encoding="ascii")

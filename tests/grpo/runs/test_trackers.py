"""Metrics in the real trackers, read back from what they wrote; and a tracker that fails."""

import json
import os
import sqlite3
import subprocess
import sys
from pathlib import Path

import pytest

from grpo.errors import ConfigError
from grpo.runs.trackers import Tracking, check_tracker

CONFIG = {"env": "Word-v0", "steps": 3}
SUMMARY = {"label": "before-greedy", "temperature": 0.0, "metrics": {"reward": {"mean": 0.75, "low": 0.5, "high": 1.0}}}


def track(name: str | None, folder: Path, notes: list[str], steps_done: int = 0) -> Tracking:
    folder.mkdir(exist_ok=True)
    return Tracking(name, folder, project="Word-v0", config=CONFIG, note=notes.append, steps_done=steps_done)


def test_tensorboard_reads_back_what_was_logged_and_a_continued_run_replaces_repeated_steps(tmp_path):
    pytest.importorskip("tensorboard", reason="the package tensorboard is not installed (extra 'tensorboard')")
    pytest.importorskip("torch", reason="torch writes the event files")
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    notes: list[str] = []
    with track("tensorboard", tmp_path / "run", notes) as tracking:
        tracking.log({"step": 1, "loss": 2.5}, 1, "warmstart/")
        tracking.log_evaluation(SUMMARY, 0)
        for step in (1, 2, 3):
            tracking.log({"step": step, "reward/mean": step / 4, "loss/policy": float("nan"), "note": "text"}, step)
    assert notes == []
    with track("tensorboard", tmp_path / "run", [], steps_done=2) as tracking:
        tracking.log({"reward/mean": 9.0}, 3)
    events = EventAccumulator(str(tmp_path / "run" / "tensorboard"))
    events.Reload()
    assert [(e.step, e.value) for e in events.Scalars("reward/mean")] == [(1, 0.25), (2, 0.5), (3, 9.0)]
    assert [(e.step, e.value) for e in events.Scalars("eval/greedy/reward")] == [(0, 0.75)]
    assert events.Scalars("warmstart/loss")[0].value == 2.5
    assert "loss/policy" not in events.Tags()["scalars"]
    assert "note" not in events.Tags()["scalars"]


def test_trackio_keeps_a_run_in_its_local_database_and_goes_on_in_it(tmp_path):
    pytest.importorskip("trackio", reason="the package trackio is not installed (extra 'trackio')")
    for step in (1, 2):  # its folder is fixed when it is imported, hence processes of their own
        run_tracker("trackio", tmp_path, step, {"TRACKIO_DIR": str(tmp_path / "trackio")})
    with sqlite3.connect(tmp_path / "trackio" / "Word-v0.db") as database:
        rows = database.execute(
            "SELECT run_name, step, json_extract(metrics, '$.\"reward/mean\"') FROM metrics ORDER BY step"
        ).fetchall()
    assert len({name for name, _, _ in rows}) == 1
    assert rows[0][0].startswith("run-")
    assert [(step, value) for _, step, value in rows if value is not None] == [(1, 0.25), (2, 0.5)]
    with sqlite3.connect(tmp_path / "trackio" / "Word-v0.db") as database:
        tables = database.execute(
            "SELECT json_extract(metrics, '$.\"rollout/episodes\"._value') FROM metrics"
        ).fetchall()
    (first, _) = [json.loads(table) for (table,) in tables if table]
    assert [(row["episode"], row["scenario"], row["reward"]) for row in first] == [
        ("best", "test-0001", 0.9), ("worst", "test-0000", 0.1),
    ]  # fmt: skip
    assert "[user] Which hotel did Maria book" in first[0]["transcript"]


def test_wandb_offline_writes_a_run_of_its_own_kind_and_goes_on_under_its_id(tmp_path):
    pytest.importorskip("wandb", reason="the package wandb is not installed (extra 'wandb')")
    for step in (1, 2):
        run_tracker("wandb", tmp_path, step, {"WANDB_MODE": "offline", "WANDB_SILENT": "true"})
    files = sorted((tmp_path / "run" / "wandb").glob("offline-run-*/run-*.wandb"))
    assert len(files) == 2
    assert len({file.name for file in files}) == 1  # one id, so `wandb sync` makes one run of them
    assert all(b"reward/mean" in file.read_bytes() for file in files)
    (table, *_) = sorted((tmp_path / "run" / "wandb").glob("offline-run-*/files/media/table/rollout/episodes_*.json"))
    kept = json.loads(table.read_bytes())
    assert kept["columns"] == ["episode", "scenario", "reward", "transcript"]
    assert [row[:3] for row in kept["data"]] == [["best", "test-0001", 0.9], ["worst", "test-0000", 0.1]]


def run_tracker(name: str, tmp_path: Path, step: int, variables: dict[str, str]) -> None:
    code = (
        "import sys; from pathlib import Path; from grpo.runs.trackers import Tracking\n"
        "folder, step = Path(sys.argv[2]), int(sys.argv[3]); folder.mkdir(exist_ok=True)\n"
        "with Tracking(sys.argv[1], folder, project='Word-v0', config={'steps': 3}, note=sys.exit) as tracking:\n"
        "    tracking.log({'reward/mean': step / 4}, step)\n"
        "    from tests.support.reports import make_episode\n"
        "    episodes = [make_episode(n, reward, solved=False) for n, reward in enumerate((0.1, 0.9, 0.5))]\n"
        "    tracking.log_episodes(episodes, step, 'rollout')"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, name, str(tmp_path / "run"), str(step)],
        env={**os.environ, "PYTHONPATH": os.getcwd(), **variables},
        cwd=tmp_path,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize("starts", [True, False])
def test_a_tracker_that_fails_or_cannot_start_is_noted_once_and_the_run_goes_on(tmp_path, starts):
    pytest.importorskip("tensorboard", reason="the package tensorboard is not installed (extra 'tensorboard')")
    folder, notes = tmp_path / "run", []
    folder.mkdir()
    (folder / ("config" if starts else "tensorboard")).write_text("a file where a folder would be")
    with track("tensorboard", folder, notes) as tracking:
        if starts:
            tracking._tracker._writer.close()  # type: ignore[union-attr]
            tracking._tracker._writer.file_writer = None  # type: ignore[union-attr]
            tracking._tracker._writer.log_dir = str(folder / "config" / "x")  # type: ignore[union-attr]
        tracking.log({"reward/mean": 1.0}, 1)
        tracking.log({"reward/mean": 1.0}, 2)
    (note,) = notes
    assert note.startswith("tensorboard failed (")
    assert "metrics.jsonl goes on" in note


def test_no_tracker_is_no_trouble(tmp_path):
    with track(None, tmp_path / "run", []) as tracking:
        tracking.log({"reward/mean": 1.0}, 1)
    assert list((tmp_path / "run").iterdir()) == []


def test_a_missing_package_is_named_with_its_extra(monkeypatch):
    check_tracker(None)
    monkeypatch.setattr(sys, "path", [])
    monkeypatch.delitem(sys.modules, "trackio", raising=False)
    with pytest.raises(ConfigError, match=r"needs the package trackio, .*pip install 'email-rl\[trackio\]'"):
        check_tracker("trackio")

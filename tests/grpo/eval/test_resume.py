"""What an evaluation leaves when it is killed, when the disk is full, and when agents say what JSON has no word for."""

import json
import math
import os
import random
import re
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from grpo.ending import Ending
from grpo.episodes.record import with_transcript
from grpo.episodes.store import Results, read_results
from grpo.errors import EvaluationError
from grpo.types import Answer, Episode, ModelCall, Task
from tests import ROOT
from tests.support.envs import SUMS_ENV
from tests.support.evaluations import refused, rows, run
from tests.support.wait import wait_until

KILLS = 10
EPISODES = 240


def begin(out: Path, *before: str) -> subprocess.Popen[bytes]:
    command = [*before]
    command += [sys.executable, "-m", "grpo", "eval", "--env", SUMS_ENV, "--agent", "silly", "--resume"]
    command += ["--env-kwargs", json.dumps({"count": EPISODES // 2, "delay_seconds": 0.002}), "-k", "2"]
    command += ["--out", str(out), "--json"]
    environment = os.environ | {"PYTHONPATH": str(ROOT)}
    return subprocess.Popen(command, cwd=ROOT, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE)


def written(out: Path) -> int:
    path = out / "results.jsonl"
    return path.read_bytes().count(b"\n") if path.exists() else 0


def test_killed_ten_times_at_random_moments_there_is_one_result_for_each_episode(tmp_path):
    draw = random.Random(7)
    out, kills = tmp_path / "run", 0
    for _ in range(KILLS):
        process = begin(out)
        enough = written(out) + draw.randint(0, 12)
        wait_until(
            lambda process=process, enough=enough: process.poll() is not None or written(out) >= enough, every=0.001
        )
        time.sleep(draw.random() * 0.02)
        process.send_signal(signal.SIGKILL)
        process.communicate()
        kills += process.returncode == -signal.SIGKILL  # on a busy machine it may have come to its end
    assert kills >= 3
    assert written(out) > 0
    stdout, stderr = begin(out).communicate()
    summary = json.loads(stdout)
    results = rows(out)
    keys = {(row["scenario_id"], row["sample"]) for row in results}
    assert len(results) == len(keys) == EPISODES == summary["episodes"], stderr
    assert [len(row["messages"]) for row in results] == [8] * EPISODES


def test_a_full_disk_is_explained_and_what_was_written_goes_on(tmp_path):
    out = tmp_path / "run"
    full = begin(out, "sh", "-c", 'ulimit -f 40; exec "$@"', "sh")
    _, stderr = full.communicate()
    assert full.returncode == 1
    assert b"cannot be written: [Errno 27] File too large" in stderr
    assert b"--resume plays the rest" in stderr
    assert b"Traceback" not in stderr
    stdout, stderr = begin(out).communicate()
    assert json.loads(stdout)["episodes"] == EPISODES, stderr
    results = read_results(out)
    assert len({episode.key for episode in results}) == len(results) == EPISODES
    assert [len(with_transcript(episode).messages) for episode in results] == [8] * EPISODES


def test_a_folder_has_one_writer_at_a_time(tmp_path):
    taken = f"another process is writing to {re.escape(str(tmp_path))}; wait"
    with Results.open(tmp_path, {}, resume=False), pytest.raises(EvaluationError, match=taken):
        Results.open(tmp_path, {}, resume=True)
    Results.open(tmp_path, {}, resume=True).close()


def a_result(sample: int, said: Any) -> Episode:
    call = ModelCall("some", messages=[{"role": "user", "content": said}])
    return Episode("E", Task(0, "one"), sample, calls=[call], ending=Ending.ANSWERED, answer=Answer(str(said)))


def test_what_was_said_comes_back_whatever_it_was(tmp_path):
    said = ["ü", "half a pair: \ud800", 2**70, np.float64(0.5), {"a"}, [math.nan]]
    with Results.open(tmp_path, {}, resume=False) as results:
        for sample, value in enumerate(said):
            results.add(a_result(sample, value))
    episodes = read_results(tmp_path)
    assert [episode.answer.text for episode in episodes] == [str(value) for value in said]
    calls = [with_transcript(episode).calls[0] for episode in episodes]
    assert [call.messages[0]["content"] for call in calls] == [*said[:4], "{'a'}", [None]]
    assert calls[0] == ModelCall("some", messages=[{"role": "user", "content": "ü"}])
    assert episodes[0].calls == [ModelCall("some")]


def test_a_result_is_in_its_file_as_soon_as_it_is_added(tmp_path):
    with Results.open(tmp_path, {}, resume=False) as results:
        for number in range(3):
            results.add(a_result(number, "said"))
            assert written(tmp_path) == number + 1
    assert [episode.sample_index for episode in read_results(tmp_path)] == [0, 1, 2]


def test_a_folder_that_cannot_be_read_is_passed_over_and_one_that_is_named_is_explained(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    run("--agent", "oracle", count=2)
    for name, config in {"torn": '{"env": ', "odd": "[]"}.items():
        (tmp_path / "evals" / name).mkdir()
        (tmp_path / "evals" / name / "config.json").write_text(config)
    assert run("--agent", "oracle", "--resume", count=2).exit_code == 0
    for name in ("torn", "odd"):
        shown = run("--agent", "oracle", "--resume", "--out", f"evals/{name}", count=2)
        assert shown.exit_code == 1
        assert f"Error: evals/{name} is no evaluation: evals/{name}/config.json is not " in shown.output


def test_a_line_that_is_no_result_is_named(tmp_path):
    run("--agent", "oracle", "--out", str(tmp_path), count=2)
    with (tmp_path / "results.jsonl").open("a") as file:
        file.write('{"scenario_id": "sum/0", "sample": 0}\n')
    shown = run("--agent", "oracle", "--out", str(tmp_path), "--resume", count=2)
    assert shown.exit_code == 1
    assert "results.jsonl line 3: this is no saved episode (KeyError: " in shown.output


@pytest.mark.parametrize("out", ["file", "file/below"])
def test_an_out_that_is_no_folder_is_explained(tmp_path, out):
    (tmp_path / "file").write_text("")
    shown = run("--agent", "oracle", "--out", str(tmp_path / out), count=1)
    assert shown.exit_code == 1
    assert f"Error: {tmp_path / out} cannot be written: " in shown.output


def test_a_limit_beyond_the_scenarios_names_the_option(tmp_path):
    said = refused(tmp_path, "--agent", "oracle", "--limit", "3", count=2)
    assert "asks for 3 scenarios but there are 2; ask for fewer (--limit)" in said

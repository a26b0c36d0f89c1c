"""An evaluation that is killed again and again ends with exactly one result for each episode."""

import json
import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

from grpo.eval.results import read_trace
from tests.eval_parts import SUMS_ENV

ROOT = Path(__file__).parents[2]
KILLS = 10
EPISODES = 240


def begin(out: Path) -> subprocess.Popen[bytes]:
    command = [sys.executable, "-m", "grpo.cli", "evaluate", "--env", SUMS_ENV, "--agent", "silly", "--resume"]
    command += ["--env-kwargs", json.dumps({"count": EPISODES // 2, "delay_seconds": 0.002}), "-k", "2"]
    command += ["--out", str(out), "--json"]
    environment = os.environ | {"PYTHONPATH": str(ROOT)}
    return subprocess.Popen(command, cwd=ROOT, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE)


def written(out: Path) -> int:
    path = out / "results.jsonl"
    return path.read_bytes().count(b"\n") if path.exists() else 0


def test_killed_ten_times_at_random_moments_there_is_one_result_for_each_episode(tmp_path):
    draw = random.Random(7)
    out = tmp_path / "run"
    for _ in range(KILLS):
        process = begin(out)
        enough = written(out) + draw.randint(0, 12)
        while process.poll() is None and written(out) < enough:
            time.sleep(0.001)
        time.sleep(draw.random() * 0.02)
        process.send_signal(signal.SIGKILL)
        process.communicate()
        assert process.returncode == -signal.SIGKILL, "it was to be killed before its end"
    before = written(out)
    assert 0 < before < EPISODES
    stdout, stderr = begin(out).communicate()
    summary = json.loads(stdout)
    results = [json.loads(line) for line in (out / "results.jsonl").read_text().splitlines()]
    keys = [(row["scenario_id"], row["sample"]) for row in results]
    assert len(keys) == len(set(keys)) == EPISODES == summary["episodes"], stderr
    for row in results:
        trace = read_trace(out, row)
        assert (trace["scenario_id"], trace["sample"]) == (row["scenario_id"], row["sample"])
        assert len(trace["messages"]) == 8

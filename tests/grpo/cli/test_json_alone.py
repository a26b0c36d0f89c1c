"""With ``--json`` stdout is JSON and nothing else, whatever an env writes there: in Python, in C, in a child program."""

import json
import subprocess
import sys

import pytest

TALKING = """
import ctypes, subprocess
import gymnasium
from gymnasium.envs.toy_text import FrozenLakeEnv

class Talking(FrozenLakeEnv):
    def step(self, action):
        print("by Python", flush=True)
        ctypes.CDLL(None).puts(b"by C")
        subprocess.run(["echo", "by a child"])
        return super().step(action)

gymnasium.register("Talking-v0", Talking)
"""


@pytest.mark.parametrize(
    "command",
    [["eval", "--agent", "random", "--limit", "1", "--out", "run"], ["doctor", "--quick", "--disk-gib", "0.001"]],
)
def test_what_an_env_writes_stays_out_of_the_json(tmp_path, command):
    (tmp_path / "talking.py").write_text(TALKING)
    arguments = ["--env-import", "talking.py", "--env", "Talking-v0", "--json"]
    ended = subprocess.run(
        [sys.executable, "-m", "grpo", *command, *arguments], cwd=tmp_path, capture_output=True, text=True, timeout=300
    )
    assert json.loads(ended.stdout), ended.stderr
    assert {"by Python", "by C", "by a child"} <= set(ended.stderr.splitlines())


def test_json_needs_no_stderr(tmp_path):
    command = '"$0" -m grpo eval --env email_env:EmailSearch-v0 --agent bm25 --limit 1 --out "$1" --json 2>&-'
    ended = subprocess.run(["sh", "-c", command, sys.executable, tmp_path / "run"], capture_output=True, text=True)
    assert (ended.returncode, json.loads(ended.stdout)["agent"]) == (0, "bm25")

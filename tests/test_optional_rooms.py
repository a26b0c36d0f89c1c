"""Optional parts are folders: without one, all that does not need it works, and what needs it is refused by name."""

import os
import shutil
import subprocess
import sys

import pytest

from tests import ROOT

TAKEN_OUT = "which was taken out of this installation"
TINKER = ["train", "--env", "FrozenLake-v1", "--dry-run", "--engine", "tinker", "--tinker-url", "http://127.0.0.1:9"]
ON_A_CPU = ["train", "--env", "FrozenLake-v1", "--dry-run", "--cpu", "--model", "some/model"]
ELSEWHERE = ["eval", "--env", "openenv:http://127.0.0.1:9", "--agent", "random", "--out", "others"]
STARTED = """
from pathlib import Path
from grpo.serving.vllm import VllmServer
VllmServer(Path(), Path("log")).command(Path(), 1)
"""


@pytest.mark.parametrize(
    ("room", "refused", "works"),
    [
        ("grpo/tinker", ["-m", "grpo", *TINKER], ["-m", "grpo", *ON_A_CPU]),
        ("grpo/elsewhere", ["-m", "grpo", *ELSEWHERE], ["-m", "grpo", *ON_A_CPU]),
        ("grpo/serving/cpu", ["-m", "grpo", *ON_A_CPU], ["-m", "grpo", *ON_A_CPU, "--server", "http://127.0.0.1:9"]),
        ("grpo/serving/cpu", ["-c", STARTED], ["-c", "from grpo.serving.vllm_main import register"]),
    ],
)
def test_a_folder_that_is_taken_out_is_missed_by_what_needs_it_alone(room, refused, works, tmp_path):
    for package in ("grpo", "judges", "email_env"):
        shutil.copytree(ROOT / package, tmp_path / package, ignore=shutil.ignore_patterns("__pycache__"))
    shutil.rmtree(tmp_path / room)
    (tmp_path / room / "__pycache__").mkdir(parents=True)  # what a deletion by hand or by git leaves behind

    def run(*arguments):
        environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
        command = [sys.executable, *arguments]
        return subprocess.run(command, capture_output=True, text=True, cwd=tmp_path, env=environment, timeout=300)

    evaluation = ["eval", "--env", "EmailSearch-v0", "--agent", "keyword", "--limit", "3", "--out", "scores"]
    for arguments in (["-m", "grpo", "train", "--help"], ["-m", "grpo", *evaluation], works):
        done = run(*arguments)
        assert done.returncode == 0, (arguments, done.stdout, done.stderr)
    assert (tmp_path / "scores" / "results.jsonl").exists()
    said = run(*refused)
    assert said.returncode == 1
    assert f"needs {room.replace('/', '.')}, {TAKEN_OUT}" in said.stderr


def test_the_adapters_are_missed_by_nothing_else(tmp_path):
    for package in ("grpo", "judges", "email_env"):
        shutil.copytree(ROOT / package, tmp_path / package, ignore=shutil.ignore_patterns("__pycache__", "adapters"))
    assert not (tmp_path / "email_env" / "adapters").exists()
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    command = [sys.executable, "-m", "grpo", "eval", "--env", "EmailSearch-v0", "--agent", "keyword", "--limit", "3"]
    done = subprocess.run([*command, "--out", "scores"], capture_output=True, text=True, cwd=tmp_path, env=environment)
    assert done.returncode == 0, done.stderr
    for module in ("email_env", "grpo", "judges"):
        done = subprocess.run(
            [sys.executable, "-m", module, "--help"], capture_output=True, cwd=tmp_path, env=environment
        )
        assert done.returncode == 0

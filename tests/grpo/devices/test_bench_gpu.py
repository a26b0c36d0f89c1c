"""scripts/bench_gpu without a GPU: every part of it runs on tiny shapes, and the gradients agree."""

import os
import re
import subprocess
import sys

import pytest

from tests import ROOT

pytest.importorskip("torch", reason="the learner needs torch (install the extra 'train')")

pytestmark = pytest.mark.torch


def test_the_benchmark_of_gpus_runs_on_a_cpu():
    command = [sys.executable, str(ROOT / "scripts/bench_gpu"), "--rounds", "1", "--rows", "3"]
    environment = os.environ | {"CUDA_VISIBLE_DEVICES": ""}
    done = subprocess.run(command, capture_output=True, text=True, env=environment, timeout=300)
    assert done.returncode == 0, done.stderr
    errors = [float(error) for error in re.findall(r"relative error ([\d.e+-]+)", done.stdout)]
    assert errors[0] == 0.0
    assert 0 < errors[1] < 0.2
    for part in ("tiny, checkpointing True: ", "tiny, checkpointing False: ", "attention, 3 rows of 64 "):
        assert part in done.stdout

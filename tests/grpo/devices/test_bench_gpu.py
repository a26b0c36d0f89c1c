"""scripts/bench_gpu without a GPU: every part of it runs on tiny shapes, with few packages, and the gradients agree."""

import os
import re
import runpy
import subprocess
import sys
from importlib import metadata

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from tests import ROOT

pytest.importorskip("torch", reason="the learner needs torch (install the extra 'train')")

pytestmark = pytest.mark.torch


WITHOUT = """
import runpy, sys
missing, sys.argv = sys.argv[1].split(","), sys.argv[2:]
sys.modules.update(dict.fromkeys(missing))
runpy.run_path(sys.argv[0], run_name="__main__")
"""
"""Runs a script where some packages cannot be imported."""


def needed(*names):
    """Distributions that these need, themselves included, without extras."""
    found, left = set(), [canonicalize_name(name) for name in names]
    while left:
        if (name := left.pop()) in found:
            continue
        try:
            requirements = [Requirement(line) for line in metadata.requires(name) or ()]
        except metadata.PackageNotFoundError:
            continue
        found.add(name)
        left += [
            canonicalize_name(r.name) for r in requirements if r.marker is None or r.marker.evaluate({"extra": ""})
        ]
    return found


def test_the_benchmark_of_gpus_runs_on_a_cpu_with_torch_transformers_peft_and_pydantic_alone():
    there = needed("torch", "transformers", "peft", "pydantic") | {"email-rl"}
    missing = [
        package
        for package, distributions in metadata.packages_distributions().items()
        if there.isdisjoint(map(canonicalize_name, distributions))
    ]
    assert {"gymnasium", "orjson"} <= set(missing)
    script = [str(ROOT / "scripts/bench_gpu"), "--rounds", "1", "--rows", "3"]
    command = [sys.executable, "-c", WITHOUT, ",".join(missing), *script]
    environment = os.environ | {"CUDA_VISIBLE_DEVICES": "", "PYTHONPATH": str(ROOT / "scripts")}
    done = subprocess.run(command, capture_output=True, text=True, env=environment, timeout=300)
    assert done.returncode == 0, done.stderr
    errors = [float(error) for error in re.findall(r"relative error ([\d.e+-]+)", done.stdout)]
    assert errors[0] == 0.0
    assert 0 < errors[1] < 0.2
    assert errors[2] == errors[1], "of the model that slept"
    for part in ("tiny, checkpointing True: ", "tiny, checkpointing False: ", "tiny, 0.00 GiB from the host"):
        assert part in done.stdout


@pytest.mark.parametrize("option", ["--rounds", "--rows", "--length"])
def test_a_size_below_one_is_refused_before_anything_is_computed(option, monkeypatch, capsys):
    """No round has no time, and no row or token has none a second."""
    program = runpy.run_path(str(ROOT / "scripts/bench_gpu"))
    monkeypatch.setattr(sys, "argv", ["bench_gpu", option, "0"])
    with pytest.raises(SystemExit, match=r"^2$"):
        program["main"]()
    shown = capsys.readouterr()
    assert shown.out == ""
    assert shown.err.endswith(f"error: argument {option}: must be 1 or more, not 0\n")

"""Where scripts/quickstart trains: on a GPU where there is one and its model is at hand, and else on the CPU."""

import os
import shutil
import subprocess

import pytest

from tests import ROOT

QWEN = "models--Qwen--Qwen2.5-0.5B-Instruct"
SMI = '#!/bin/sh\necho "GPU 0: a card (UUID: GPU-1)"\n'


@pytest.fixture
def quickstart(tmp_path):
    """The script beside parts that only say what they were asked for; no hub is in reach."""
    (tmp_path / "scripts").mkdir()
    shutil.copy(ROOT / "scripts/quickstart", tmp_path / "scripts")
    setup = 'say() { :; }; find_python() { command -v python3; }; setup_environment() { echo "extras: $1"; }\n'
    (tmp_path / "scripts/_setup.sh").write_text(setup)
    stubs = {"nvidia-smi": SMI, "build-enron-db": "#!/bin/sh\n", "grpo-train": '#!/bin/sh\necho "train: $*"\n'}
    (tmp_path / "bin").mkdir()
    for name, text in stubs.items():
        (tmp_path / "bin" / name).write_text(text)
        (tmp_path / "bin" / name).chmod(0o755)

    def run(*arguments, **variables):
        path = f"{tmp_path}/bin{os.pathsep}{os.environ['PATH']}"
        usual = {"PATH": path, "HOME": str(tmp_path), "HF_ENDPOINT": "http://127.0.0.1:9"}
        command = [str(tmp_path / "scripts/quickstart"), *arguments]
        done = subprocess.run(command, env=usual | variables, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
        return done.stdout

    return run


def test_a_gpu_is_used_where_the_model_is_a_folder_embedded_or_in_the_hubs_cache(quickstart, tmp_path):
    (tmp_path / "weights").mkdir()
    for model in (f"{tmp_path}/weights", "smollm2-135m"):
        said = quickstart("--model", model, "--steps", "2")
        assert "extras: gpu\n" in said
        assert f"--recipe email-gpu --run-dir runs/quickstart --resume --model {model} --steps 2" in said
    assert "--recipe email-gpu " in quickstart(f"--model={tmp_path}/weights")
    (tmp_path / "cache" / QWEN / "snapshots" / "abc").mkdir(parents=True)
    assert "--recipe email-gpu " in quickstart(HF_HUB_CACHE=f"{tmp_path}/cache")


def test_without_model_or_gpu_or_with_cpu_asked_for_it_trains_on_the_cpu(quickstart, tmp_path):
    (tmp_path / "weights").mkdir()
    assert "--recipe email-cpu " in quickstart()
    assert "--recipe email-cpu " in quickstart("--model", f"{tmp_path}/weights", CUDA_VISIBLE_DEVICES="")
    assert "--recipe email-cpu " in quickstart("--cpu", "--model", f"{tmp_path}/weights")

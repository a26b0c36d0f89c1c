"""What the doctor asks of a GPU machine: programs of the right names stand in for compiler and driver."""

import os
import sys
import sysconfig

import pytest

from grpo.doctor.checks import Trouble
from grpo.doctor.gpu_checks import check_compiler, check_cuda, driver_version


def put(folder, name, text):
    folder.mkdir(exist_ok=True)
    (folder / name).write_text(f"#!/bin/sh\n{text}\n")
    (folder / name).chmod(0o755)


def test_a_compiler_and_the_headers_are_named_with_what_brings_them(tmp_path, monkeypatch):
    monkeypatch.delenv("CC", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))
    monkeypatch.setattr(sysconfig, "get_paths", lambda: {"include": str(tmp_path)})
    with pytest.raises(
        Trouble, match=r"starts on a GPU, and a C compiler and Python's headers \(.*Python.h\) was"
    ) as both:
        check_compiler()
    assert "sudo apt install build-essential python3." in both.value.fix
    put(tmp_path / "bin", "clang", "")
    (tmp_path / "Python.h").touch()
    assert check_compiler() == f"{tmp_path}/bin/clang, {tmp_path}/Python.h"
    monkeypatch.setenv("CC", "other-cc")  # Triton takes it as it is given
    with pytest.raises(Trouble, match="a C compiler was not found"):
        check_compiler()


def test_the_driver_is_what_nvidia_smi_says(tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", f"{tmp_path / 'bin'}{os.pathsep}{os.environ['PATH']}")
    put(tmp_path / "bin", "nvidia-smi", "exit 9")
    assert driver_version() == ""
    put(tmp_path / "bin", "nvidia-smi", "echo 570.86.15; echo 570.86.15")
    assert driver_version() == "570.86.15"


@pytest.mark.parametrize(("capability", "fits"), [("7.5", False), ("8.0", True), ("12.0", True)])
def test_a_gpu_without_bfloat16_is_none_that_vllm_serves_on(tmp_path, monkeypatch, capability, fits):
    monkeypatch.setenv("PATH", f"{tmp_path / 'bin'}{os.pathsep}{os.environ['PATH']}")
    put(tmp_path / "bin", "nvidia-smi", "echo 580.95.05")
    put(tmp_path / "bin", "python-of-a-gpu", f"echo 2.13.0+cu130 13.0 True {capability}")
    monkeypatch.setattr(sys, "executable", str(tmp_path / "bin" / "python-of-a-gpu"))
    if fits:
        assert check_cuda() == "torch 2.13.0+cu130 (CUDA 13.0), driver 580.95.05"
        return
    with pytest.raises(Trouble, match=r"driver 580.95.05: a GPU has compute capability 7.5, and vLLM") as old:
        check_cuda()
    assert old.value.fix.startswith("show others with CUDA_VISIBLE_DEVICES (Ampere")
    assert check_cuda(serves=False) == "torch 2.13.0+cu130 (CUDA 13.0), driver 580.95.05"


@pytest.mark.torch
def test_torch_is_asked_in_a_process_of_its_own_and_its_build_is_told(tmp_path, monkeypatch):
    torch = pytest.importorskip("torch", reason="the learner needs torch (install the extra 'train')")
    if torch.cuda.is_available():
        assert f"torch {torch.__version__} (CUDA {torch.version.cuda}), driver " in check_cuda()
        return
    monkeypatch.setenv("PATH", f"{tmp_path / 'bin'}{os.pathsep}{os.environ['PATH']}")
    put(tmp_path / "bin", "nvidia-smi", "echo 570.86.15")
    with pytest.raises(
        Trouble, match=rf"torch {torch.__version__.replace('+', '.')} .*, driver 570.86.15: torch "
    ) as seen:
        check_cuda()
    said = "built without CUDA" if torch.version.cuda is None else "sees no GPU"
    assert said in str(seen.value)

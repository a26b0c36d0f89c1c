"""What the machine has, and what follows from it."""

import os
from pathlib import Path

import pytest

from grpo.machine import hardware
from grpo.machine.hardware import current_rss_gb, parse_gpus

LISTING = "0, GPU-aaa, NVIDIA H200, 143771\n1, GPU-bbb, NVIDIA L4, 23034\n2, GPU-ccc, NVIDIA GB10, [N/A]\n"


@pytest.mark.parametrize(
    ("visible", "names"),
    [
        (None, ["NVIDIA H200", "NVIDIA L4", "NVIDIA GB10"]),
        ("", []),
        ("-1", []),
        ("1,0", ["NVIDIA L4", "NVIDIA H200"]),
        ("GPU-bb", ["NVIDIA L4"]),
        ("0,7,1", ["NVIDIA H200"]),
    ],
)
def test_visible_gpus_are_those_that_cuda_would_show(visible: str | None, names: list[str]):
    assert [gpu.name for gpu in parse_gpus(LISTING, visible)] == names


def test_gpu_memory_is_in_gib_and_zero_where_unknown():
    assert [round(gpu.memory_gib, 1) for gpu in parse_gpus(LISTING, None)] == [140.4, 22.5, 0.0]


def test_detection_agrees_with_the_system(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("PATH", "")  # no nvidia-smi
    found = hardware.detect()
    assert 1 <= found.cpus <= len(os.sched_getaffinity(0))
    assert 0.1 < found.memory_gib <= os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30
    assert found.gpus == ()


def test_a_hub_that_does_not_answer_is_out_of_reach(monkeypatch: pytest.MonkeyPatch):
    constants = pytest.importorskip("huggingface_hub.constants")
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", False)
    monkeypatch.setattr(constants, "ENDPOINT", "http://127.0.0.1:9")
    assert hardware.hub_reachable(timeout_seconds=1.0) is False


@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="memory figures come from /proc")
def test_memory_is_read_in_gigabytes() -> None:
    before = current_rss_gb()
    assert before is not None
    block = bytearray(os.urandom(1000)) * 200_000  # 0.2 GB
    grown = current_rss_gb()
    assert grown is not None
    assert 0.17 < grown - before < 0.25
    del block
    assert current_rss_gb(os.getpid()) is not None
    assert current_rss_gb(2**22 + 1) is None

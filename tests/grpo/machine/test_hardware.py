"""What the machine has, and what follows from it."""

import os
from pathlib import Path

import pytest

from grpo.machine import hardware
from grpo.machine.hardware import current_rss_gb, parse_gpus
from grpo.machine.memory import memory_gib

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


def test_gpu_memory_is_in_gib_and_the_machines_where_it_is_shared():
    sizes = [round(gpu.memory_gib, 1) for gpu in parse_gpus(LISTING, None)]
    assert sizes == [140.4, 22.5, round(memory_gib(), 1)], "the last one shares the machine's memory"


def test_the_compute_capability_is_read_where_nvidia_smi_says_it():
    listing = "0, GPU-a, Tesla T4, 15360, 7.5\n1, GPU-b, NVIDIA B200, 183359, 10.0\n2, GPU-c, a card, 8192, [N/A]\n"
    assert [gpu.capability for gpu in parse_gpus(listing, None)] == [7.5, 10.0, None]
    assert [gpu.memory_gib for gpu in parse_gpus(listing, "1,0")] == [183359 / 1024, 15.0]
    assert [gpu.capability for gpu in parse_gpus(LISTING, None)] == [None] * 3


def test_a_gpu_that_is_divided_is_known_by_its_mig_mode():
    listing = "0, GPU-a, NVIDIA A100, 40960, 8.0, Enabled\n1, GPU-b, NVIDIA A100, 40960, 8.0, Disabled\n"
    listing += "2, GPU-c, NVIDIA GeForce RTX 4090, 24564, 8.9, [N/A]\n"
    assert [(gpu.divided, gpu.capability) for gpu in parse_gpus(listing, None)] == [
        (True, 8.0), (False, 8.0), (False, 8.9),
    ]  # fmt: skip


def test_an_old_driver_that_knows_no_capability_shows_its_gpus(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    program = tmp_path / "nvidia-smi"
    refuses = 'case "$1" in *compute_cap*) echo Field \'"compute_cap"\' is not a valid field to query.; exit 2;; esac'
    program.write_text(f"#!/bin/sh\n{refuses}\necho 0, GPU-a, Tesla V100, 16160\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}{os.pathsep}{os.environ['PATH']}")
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    assert hardware.visible_gpus() == (hardware.Gpu("Tesla V100", 16160 / 1024, "0", None),)


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


@pytest.mark.parametrize(
    ("cgroup", "files", "cores"),
    [
        ("0::/\n", {"cpu.max": "max 100000"}, 8),
        ("0::/\n", {"cpu.max": "350000 100000"}, 3),  # a thread with half a core would hold up the others
        ("0::/\n", {"cpu.max": "50000 100000"}, 1),
        ("0::/user/run\n", {"user/cpu.max": "200000 100000", "user/run/cpu.max": "max 100000"}, 2),
        ("4:cpu,cpuacct:/x\n", {"cpu/x/cpu.cfs_quota_us": "400000", "cpu/x/cpu.cfs_period_us": "100000"}, 4),
        ("4:cpu:/docker/1\n", {"cpu/cpu.cfs_quota_us": "200000", "cpu/cpu.cfs_period_us": "100000"}, 2),
        ("4:cpu:/x\n", {"cpu/x/cpu.cfs_quota_us": "-1", "cpu/x/cpu.cfs_period_us": "100000"}, 8),
    ],
)
def test_a_containers_quota_bounds_the_cores(tmp_path, monkeypatch, cgroup, files, cores):
    monkeypatch.setattr(os, "sched_getaffinity", lambda _pid: set(range(8)))
    (tmp_path / "proc/self").mkdir(parents=True)
    (tmp_path / "proc/self/cgroup").write_text(cgroup)
    for name, text in files.items():
        file = tmp_path / "cgroup" / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text + "\n")
    assert hardware.cpu_count(tmp_path / "proc", tmp_path / "cgroup") == cores


def test_threads_that_share_a_core_are_one_core(tmp_path, monkeypatch):
    """Four cores with two threads each; this process may use five of the threads, of three cores."""
    for number in range(8):
        folder = tmp_path / f"cpu{number}/topology"
        folder.mkdir(parents=True)
        (folder / "thread_siblings_list").write_text(f"{number % 4},{number % 4 + 4}\n")
    monkeypatch.setattr(os, "sched_getaffinity", lambda _pid: {0, 4, 1, 5, 2})
    assert hardware.physical_cores(tmp_path) == 3
    assert hardware.physical_cores(tmp_path / "nothing") == 5

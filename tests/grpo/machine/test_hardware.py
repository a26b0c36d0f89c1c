"""What the machine has, and what follows from it."""

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from grpo.machine import hardware
from grpo.machine.hardware import available_gib, current_rss_gb, memory_gib, parse_gpus

LISTING = """0, GPU-aaa, NVIDIA H200, 143771, 9.0, Enabled, 512, Default
1, GPU-bbb, NVIDIA L4, 23034, 8.9, [N/A], 0, Exclusive_Process
2, GPU-ccc, NVIDIA GB10, [N/A], [N/A], Disabled, [N/A], Default
"""
GIB = 1024**3


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


def test_a_gpu_has_its_memory_in_gib_or_the_machines_its_capability_and_whether_it_is_divided():
    h200, l4, gb10 = parse_gpus(LISTING, None)
    assert [(gpu.used_gib, gpu.mode) for gpu in (h200, l4)] == [(0.5, "Default"), (0.0, "Exclusive_Process")]
    assert gb10.used_gib == 0.0
    assert (round(h200.memory_gib, 1), h200.capability, h200.divided) == (140.4, 9.0, True)
    assert (round(l4.memory_gib, 1), l4.capability, l4.divided) == (22.5, 8.9, False)
    assert (gb10.memory_gib, gb10.capability, gb10.divided) == (memory_gib(), None, False)


def test_detection_agrees_with_the_system(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("PATH", "")  # no nvidia-smi
    assert 1 <= hardware.cpu_count() <= len(os.sched_getaffinity(0))
    assert 0.1 < memory_gib() <= os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30
    available = available_gib()
    assert available is None or 0 < available <= memory_gib()
    assert hardware.visible_gpus() == ()


def test_a_hub_that_does_not_answer_is_out_of_reach(monkeypatch: pytest.MonkeyPatch):
    constants = pytest.importorskip("huggingface_hub.constants")
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", False)
    monkeypatch.setattr(constants, "ENDPOINT", "http://127.0.0.1:9")
    assert hardware.hub_reachable(timeout_seconds=1.0) is False


def test_memory_is_read_in_gigabytes() -> None:
    before = current_rss_gb()
    block = bytearray(os.urandom(1000)) * 200_000  # 0.2 GB
    grown = current_rss_gb()
    assert 0.17 < grown - before < 0.25
    del block


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Path]:
    """Makes a /proc with some memory available and a cgroup tree without limits, whose folder it returns."""

    def made(cgroup: str = "0::/\n", available_gib: float = 20.0) -> Path:
        proc, cgroups = tmp_path / "proc", tmp_path / "cgroup"
        (proc / "self").mkdir(parents=True)
        (proc / "meminfo").write_text(f"MemTotal: 99999999 kB\nMemAvailable: {int(available_gib * 2**20)} kB\n")
        (proc / "self/cgroup").write_text(cgroup)
        monkeypatch.setattr(hardware, "PROC", proc)
        monkeypatch.setattr(hardware, "CGROUPS", cgroups)
        return cgroups

    return made


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
def test_a_containers_quota_bounds_the_cores(machine, monkeypatch, cgroup, files, cores):
    monkeypatch.setattr(os, "sched_getaffinity", lambda _pid: set(range(8)))
    cgroups = machine(cgroup)
    for name, text in files.items():
        (cgroups / name).parent.mkdir(parents=True, exist_ok=True)
        (cgroups / name).write_text(text + "\n")
    assert hardware.cpu_count() == cores


def test_threads_that_share_a_core_are_one_core(tmp_path, monkeypatch):
    """Four cores with two threads each; this process may use five of the threads, of three cores."""
    for number in range(8):
        folder = tmp_path / f"cpu{number}/topology"
        folder.mkdir(parents=True)
        (folder / "thread_siblings_list").write_text(f"{number % 4},{number % 4 + 4}\n")
    monkeypatch.setattr(os, "sched_getaffinity", lambda _pid: {0, 4, 1, 5, 2})
    assert hardware.physical_cores(tmp_path) == 3
    assert hardware.physical_cores(tmp_path / "nothing") == 5


def limit(folder: Path, names: tuple[str, ...], values: tuple[str, *tuple[int, ...]]) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / names[0]).write_text(f"{values[0]}\n")
    (folder / names[1]).write_text(f"{values[1]}\n")
    stat = "".join(f"{name} {value}\n" for name, value in zip(names[2:], values[2:], strict=False))
    (folder / "memory.stat").write_text(f"anon 7\n{stat}")


V2 = ("memory.max", "memory.current", "inactive_file", "active_file", "file_mapped")
V1 = ("memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file", "total_active_file", "total_mapped_file")


def test_without_a_limit_it_is_what_the_kernel_says(machine):
    limit(machine(available_gib=6.5), V2, ("max", GIB, 0))
    assert available_gib() == 6.5


@pytest.mark.parametrize(("names", "folder"), [(V2, ""), (V1, "memory")])
def test_a_container_counts_what_its_cgroup_leaves_and_its_cached_files_as_free(machine, names, folder):
    """By hand: of 8 GiB 7 are used, 5 of them by files, of which programs map 1: 5 are left."""
    cgroups = machine("4:memory:/docker/1\n")  # a path that the container does not see
    limit(cgroups / folder, names, (str(8 * GIB), 7 * GIB, 2 * GIB, 3 * GIB, 1 * GIB))
    assert available_gib() == 5.0


@pytest.mark.parametrize(
    ("line", "folder", "names"),
    [("0::/user/run", "user", V2), ("4:cpu:/x\n5:memory:/user/run", "memory/user", V1)],
)
def test_a_cgroup_above_the_own_one_may_be_the_tighter(machine, line, folder, names):
    cgroups = machine(f"{line}\n")
    limit(cgroups / folder / "run", names, (str(16 * GIB), 0, 0))
    limit(cgroups / folder, names, (str(4 * GIB), 1 * GIB, 0))
    assert available_gib() == 3.0


def test_where_nothing_is_told_nothing_is_said(tmp_path, monkeypatch):
    for place in ("PROC", "CGROUPS"):
        monkeypatch.setattr(hardware, place, tmp_path)
    assert available_gib() is None

"""Free memory: the least that the kernel and any cgroup leave."""

from pathlib import Path

import pytest

from grpo.machine.memory import available_gib, memory_gib

GIB = 1024**3


def machine(folder: Path, available_gib: float, cgroup: str = "0::/\n") -> tuple[Path, Path]:
    """A /proc with that much available and a cgroup tree without limits."""
    proc, cgroups = folder / "proc", folder / "cgroup"
    (proc / "self").mkdir(parents=True)
    (proc / "meminfo").write_text(f"MemTotal: 99999999 kB\nMemAvailable: {int(available_gib * 2**20)} kB\n")
    (proc / "self/cgroup").write_text(cgroup)
    cgroups.mkdir()
    return proc, cgroups


def limit(folder: Path, names: tuple[str, ...], values: tuple[str, *tuple[int, ...]]) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / names[0]).write_text(f"{values[0]}\n")
    (folder / names[1]).write_text(f"{values[1]}\n")
    stat = "".join(f"{name} {value}\n" for name, value in zip(names[2:], values[2:], strict=False))
    (folder / "memory.stat").write_text(f"anon 7\n{stat}")


V2 = ("memory.max", "memory.current", "inactive_file", "active_file", "file_mapped")
V1 = ("memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file", "total_active_file", "total_mapped_file")


def test_without_a_limit_it_is_what_the_kernel_says(tmp_path):
    proc, cgroups = machine(tmp_path, 6.5)
    limit(cgroups, V2, ("max", GIB, 0))
    assert available_gib(proc, cgroups) == 6.5


@pytest.mark.parametrize(("names", "folder"), [(V2, ""), (V1, "memory")])
def test_a_container_counts_what_its_cgroup_leaves_and_its_cached_files_as_free(tmp_path, names, folder):
    """By hand: of 8 GiB 7 are used, 5 of them by files, of which programs map 1: 5 are left."""
    proc, cgroups = machine(tmp_path, 20, "4:memory:/docker/1\n")  # a path that the container does not see
    limit(cgroups / folder, names, (str(8 * GIB), 7 * GIB, 2 * GIB, 3 * GIB, 1 * GIB))
    assert available_gib(proc, cgroups) == 5.0


@pytest.mark.parametrize(
    ("line", "folder", "names"),
    [("0::/user/run", "user", V2), ("4:cpu:/x\n5:memory:/user/run", "memory/user", V1)],
)
def test_a_cgroup_above_the_own_one_may_be_the_tighter(tmp_path, line, folder, names):
    proc, cgroups = machine(tmp_path, 20, f"{line}\n")
    limit(cgroups / folder / "run", names, (str(16 * GIB), 0, 0))
    limit(cgroups / folder, names, (str(4 * GIB), 1 * GIB, 0))
    assert available_gib(proc, cgroups) == 3.0


def test_where_nothing_is_told_nothing_is_said(tmp_path):
    assert available_gib(tmp_path, tmp_path) is None


def test_this_machine_has_no_more_available_than_it_has():
    available = available_gib()
    assert available is None or 0 < available <= memory_gib()

"""How much memory this machine has and how much of it is free, the limits of containers and cgroups included.

A process that passes a cgroup's limit is killed without a word, however much the machine itself has left.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

from grpo.machine.cgroups import CGROUPS, PROC, cgroup_folders

_GIB = 1024**3
_FILES = {  # by cgroup version: limit, usage, and the keys of memory.stat for cached files and those that programs map
    2: ("memory.max", "memory.current", ("inactive_file", "active_file"), "file_mapped"),
    1: (
        "memory.limit_in_bytes",
        "memory.usage_in_bytes",
        ("total_inactive_file", "total_active_file"),
        "total_mapped_file",
    ),
}


def memory_gib() -> float:
    """Memory in GiB that this machine has, or what a container or cgroup allows of it."""
    total = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    return min([total, *(limit for limit, _ in _limits(PROC, CGROUPS))]) / _GIB


def available_gib(proc: Path = PROC, cgroups: Path = CGROUPS) -> float | None:
    """Memory in GiB that can be taken now without swapping: the least of what the kernel and each cgroup have left.

    Cached files count as free. ``None`` where the system does not tell.
    """
    left = [limit - used for limit, used in _limits(proc, cgroups)]
    try:
        lines = (line.split() for line in (proc / "meminfo").read_text(encoding="ascii").splitlines())
        left += [int(fields[1]) * 1024 for fields in lines if fields[0] == "MemAvailable:"]
    except (OSError, ValueError, IndexError):
        pass
    return max(0, min(left)) / _GIB if left else None


def _limits(proc: Path, cgroups: Path) -> Iterator[tuple[int, int]]:
    """Limit and usage in bytes of each cgroup that this process is in, from its own up to the root."""
    for version, folder in cgroup_folders("memory", proc, cgroups):
        if (found := _limit(folder, version)) is not None:
            yield found


def _limit(folder: Path, version: int) -> tuple[int, int] | None:
    """Limit and what is used of it: without cached files, which can be dropped, but with those that programs map."""
    limit_file, usage_file, cached_keys, mapped_key = _FILES[version]
    try:
        limit = int((folder / limit_file).read_text(encoding="ascii"))
        used = int((folder / usage_file).read_text(encoding="ascii"))
        stat = dict(line.split() for line in (folder / "memory.stat").read_text(encoding="ascii").splitlines())
        cached = sum(int(stat.get(key, 0)) for key in cached_keys) - int(stat.get(mapped_key, 0))
        return limit, used - max(0, cached)
    except (OSError, ValueError):  # "max": no limit
        return None

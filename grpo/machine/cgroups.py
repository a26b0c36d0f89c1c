"""The cgroups that this process is in: where a container's limits stand, and those of what is around it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

PROC, CGROUPS = Path("/proc"), Path("/sys/fs/cgroup")


def cgroup_folders(controller: str, proc: Path = PROC, cgroups: Path = CGROUPS) -> Iterator[tuple[int, Path]]:
    """Version and folder of each cgroup with this controller that this process is in, from its own up to the root."""
    for version, root, own in _own(controller, proc, cgroups):
        for folder in (own, *own.parents):
            if folder.is_relative_to(root):
                yield version, folder


def _own(controller: str, proc: Path, cgroups: Path) -> Iterator[tuple[int, Path, Path]]:
    """Version, root and folder of the innermost ones."""
    try:
        lines = (proc / "self/cgroup").read_text(encoding="utf-8").splitlines()
    except OSError:
        lines = []
    yield 2, cgroups, cgroups  # a container sees its own cgroup as the root, whatever path it is told
    yield 1, cgroups / controller, cgroups / controller
    for controllers, path in (line.split(":", 2)[1:] for line in lines if line.count(":") >= 2):
        if controllers == "":
            yield 2, cgroups, cgroups / path.strip("/")
        elif controller in controllers.split(","):
            yield 1, cgroups / controller, cgroups / controller / path.strip("/")

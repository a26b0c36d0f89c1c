"""What this machine has, found without torch: cores, memory, GPUs, and whether a model hub is in reach.

The limits of containers and cgroups are counted in: a process that passes a cgroup's limit is killed without a word,
however much the machine itself has left.
"""

import importlib.util
import os
import platform
import subprocess
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path

PROC, CGROUPS = Path("/proc"), Path("/sys/fs/cgroup")

LEAST_CAPABILITY = 8.0
"""Of a GPU on which vLLM computes in bfloat16: Ampere (2020) and later."""

_GPU_FIELDS = "index,uuid,name,memory.total,compute_cap,mig.mode.current,memory.used,compute_mode"
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


@dataclass(frozen=True, slots=True)
class Gpu:
    """One CUDA device: its name, its memory in GiB, and what ``CUDA_VISIBLE_DEVICES`` calls it.

    One without memory of its own (GB10) has the machine's. ``capability`` is CUDA's number for what it computes, such
    as 8.6; None where nvidia-smi does not say it. ``divided``: into parts (MIG), of which CUDA shows one in its place.
    ``used_gib`` is what others have of its memory, ``mode`` who may compute there (``Exclusive_Process``: one process).
    """

    name: str
    memory_gib: float
    id: str = "0"
    capability: float | None = None
    divided: bool = False
    used_gib: float = 0.0
    mode: str = ""


def cpu_count() -> int:
    """Cores this process may use: its affinity, cut to the least quota of its cgroups.

    A part of a core is none: of threads that wait for each other the one without a core would hold up all.
    """
    return max(1, int(min([len(usable_cores()), *_cpu_quotas()])))


def usable_cores() -> list[int]:
    """Numbers of the cores that this process may use; all where the system has no affinity (macOS)."""
    return sorted(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else list(range(os.cpu_count() or 1))


def physical_cores(folder: Path = Path("/sys/devices/system/cpu")) -> int:
    """Cores this process may use, each counted once where several threads share it (SMT)."""
    shared: set[str] = set()
    for number in usable_cores():
        try:
            shared.add((folder / f"cpu{number}/topology/thread_siblings_list").read_text(encoding="ascii"))
        except OSError:
            shared.add(str(number))
    return len(shared)


def _cpu_quotas() -> Iterator[float]:
    """Cores that each cgroup of this process may use, where it has a limit."""
    for version, folder in _cgroup_folders("cpu"):
        files = ("cpu.max",) if version == 2 else ("cpu.cfs_quota_us", "cpu.cfs_period_us")
        try:
            text = " ".join((folder / name).read_text(encoding="ascii") for name in files)
            quota, period = map(int, text.split())
        except (OSError, ValueError):  # "max": no limit
            continue
        if quota > 0 and period > 0:
            yield quota / period


def has_amx() -> bool:
    """Whether the processor has matrix units for bfloat16 (AMX), as far as the system says it."""
    try:
        return "amx_bf16" in Path("/proc/cpuinfo").read_text(encoding="utf-8")
    except OSError:
        return False


def memory_gib() -> float:
    """Memory in GiB that this machine has, or what a container or cgroup allows of it."""
    total = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    return min([total, *(limit for limit, _ in _memory_limits())]) / _GIB


def available_gib() -> float | None:
    """Memory in GiB that can be taken now without swapping: the least of what the kernel and each cgroup have left.

    Cached files count as free. ``None`` where the system does not tell.
    """
    left = [limit - used for limit, used in _memory_limits()]
    try:
        lines = (line.split() for line in (PROC / "meminfo").read_text(encoding="ascii").splitlines())
        left += [int(fields[1]) * 1024 for fields in lines if fields[0] == "MemAvailable:"]
    except (OSError, ValueError, IndexError):
        pass
    return max(0, min(left)) / _GIB if left else None


def _memory_limits() -> Iterator[tuple[int, int]]:
    """Limit and usage in bytes of each cgroup of this process that has a limit.

    Cached files can be dropped, so they are not used memory, but for those that programs map.
    """
    for version, folder in _cgroup_folders("memory"):
        limit_file, usage_file, cached_keys, mapped_key = _FILES[version]
        try:
            limit = int((folder / limit_file).read_text(encoding="ascii"))
            used = int((folder / usage_file).read_text(encoding="ascii"))
            stat = dict(line.split() for line in (folder / "memory.stat").read_text(encoding="ascii").splitlines())
            cached = sum(int(stat.get(key, 0)) for key in cached_keys) - int(stat.get(mapped_key, 0))
        except (OSError, ValueError):  # "max": no limit
            continue
        yield limit, used - max(0, cached)


def _cgroup_folders(controller: str) -> Iterator[tuple[int, Path]]:
    """Version and folder of each cgroup with this controller that this process is in, from its own up to the root."""
    try:
        lines = (PROC / "self/cgroup").read_text(encoding="utf-8").splitlines()
    except OSError:
        lines = []
    # a container sees its own cgroup as the root, whatever path it is told
    innermost = [(2, CGROUPS, ""), (1, CGROUPS / controller, "")]
    for controllers, path in (line.split(":", 2)[1:] for line in lines if line.count(":") >= 2):
        if controllers == "":
            innermost.append((2, CGROUPS, path))
        elif controller in controllers.split(","):
            innermost.append((1, CGROUPS / controller, path))
    for version, root, path in innermost:
        own = root / path.strip("/")
        yield from ((version, folder) for folder in (own, *own.parents) if folder.is_relative_to(root))


def visible_gpus() -> tuple[Gpu, ...]:
    """CUDA devices, asked of ``nvidia-smi`` and cut to ``CUDA_VISIBLE_DEVICES``; empty where there are none.

    It is asked once: what is used later is also this run's, and a run has one plan.
    """
    return parse_gpus(nvidia_smi(_GPU_FIELDS), os.environ.get("CUDA_VISIBLE_DEVICES"))


@cache
def nvidia_smi(fields: str) -> str:
    """What ``nvidia-smi --query-gpu`` said to this process first, a line for each GPU; "" where it says nothing."""
    query = ["nvidia-smi", f"--query-gpu={fields}", "--format=csv,noheader,nounits"]
    try:
        return subprocess.run(query, capture_output=True, text=True, timeout=60, check=True).stdout
    except (OSError, subprocess.SubprocessError):
        return ""


def parse_gpus(listing: str, visible: str | None) -> tuple[Gpu, ...]:
    """Read nvidia-smi's lines ``index, uuid, name, MiB, compute capability, MIG mode, MiB used, compute mode``.

    Args:
        listing: The lines.
        visible: ``CUDA_VISIBLE_DEVICES``: indices or (starts of) uuids; as in CUDA, the first unknown one ends the
            list. None leaves all visible.
    """
    rows = [[field.strip() for field in line.split(",")] for line in listing.splitlines() if line.strip()]
    found = [_gpu(*row) for row in rows if len(row) >= 6]
    if visible is None:
        return tuple(gpu for _, _, gpu in found)
    chosen: list[Gpu] = []
    for wanted in (part.strip() for part in visible.split(",")):
        match = [
            gpu if wanted == index else replace(gpu, id=uuid)  # whole: vLLM knows no GPU by the start of its uuid
            for index, uuid, gpu in found
            if wanted and (wanted == index or uuid.startswith(wanted))
        ]
        if not match:
            break
        chosen.append(match[0])
    return tuple(chosen)


def _gpu(
    index: str, uuid: str, name: str, mib: str, capability: str, mig: str, used: str = "", mode: str = ""
) -> tuple[str, str, Gpu]:
    """A line of nvidia-smi, which writes "[N/A]" where there is none."""
    size, used_gib = _number(mib) / 1024 or memory_gib(), _number(used) / 1024
    return index, uuid, Gpu(name, size, index, _number(capability) or None, mig == "Enabled", used_gib, mode)


def _number(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        return 0.0


def hub_reachable(timeout_seconds: float = 3.0) -> bool:
    """Whether the model hub answers at all; ``HF_ENDPOINT`` and ``HF_HUB_OFFLINE`` are honoured."""
    if importlib.util.find_spec("huggingface_hub") is None:  # without it nothing could be fetched
        return False
    import httpx
    from huggingface_hub import constants

    if constants.HF_HUB_OFFLINE:
        return False
    try:
        response = httpx.head(constants.ENDPOINT, timeout=timeout_seconds, follow_redirects=False)
    except (httpx.HTTPError, httpx.InvalidURL):
        return False
    return response.status_code < 500


def current_rss_gb() -> float:
    """Resident memory of this process now, in GB (10^9 bytes)."""
    pages = int((PROC / "self/statm").read_text(encoding="ascii").split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / 1e9


def cpu_seconds_below(root: int) -> float:
    """User and system seconds of all living processes below ``root``, without its own; 0 where there is no /proc."""
    children: dict[int, list[int]] = defaultdict(list)
    ticks: dict[int, int] = {}
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = stat.read_text().rpartition(")")[2].split()
        except OSError:
            continue  # it has just ended
        pid = int(stat.parent.name)
        children[int(fields[1])].append(pid)
        ticks[pid] = int(fields[11]) + int(fields[12])
    total, below = 0, children[root]
    while below:
        pid = below.pop()
        total += ticks[pid]
        below += children[pid]
    return total / os.sysconf("SC_CLK_TCK")


def share_cores() -> None:
    """Let OpenMP threads sleep soon after their work, here and in vLLM, before either loads OpenMP.

    By default they spin at barriers, and a thread that waits for its turn on a busy core holds up all others. Beside
    one busy neighbour on two cores, seven learner steps did not end within 70 s by default; with this each took 7.8 s
    (median). On a quiet machine the medians were 4.6 to 5.3 s by default and 4.5 s with this. Other processors than x86
    have no pause that makes a turn of the loop longer (not measured). A ``GOMP_SPINCOUNT`` that the user has set stays.
    """
    os.environ.update(spin_count())


def spin_count() -> dict[str, str]:
    """The variable by which ``share_cores`` does it: the user's own value, or ours."""
    ours = "2000" if platform.machine() in ("x86_64", "AMD64") else "50000"
    return {"GOMP_SPINCOUNT": os.environ.get("GOMP_SPINCOUNT", ours)}

"""How grpo's processes start and end: command line and environment of a child, its end with its parent, the allocator,
torchrun, limits.

glibc keeps the memory of tensors badly. torch asks for tensors that begin at a multiple of 64 bytes. For each, glibc
before 2.39 takes a larger piece and puts the ends that it cuts off into its lists of small pieces, where they join
nothing (its bug 30723). So no tensor fits where one of its size was freed, and a learner on the CPU has a fifth more
memory than with ``KEPT_MEMORY``. And it would give large pieces, and the end of its heap, back to Linux at once, which
the next tensors then pay for page by page: a tenth of a learner's time in float32, a sixth of the time that a prompt
takes vLLM. docs/performance.md has the figures.
"""

import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

try:
    import resource
except ImportError:
    resource = None

_GIB = 1024**3
KEPT_MEMORY = {
    "MALLOC_MMAP_THRESHOLD_": str(4 * _GIB),
    "MALLOC_TRIM_THRESHOLD_": str(16 * _GIB),
    "GLIBC_TUNABLES": "glibc.malloc.tcache_count=0:glibc.malloc.mxfast=0:glibc.malloc.hugetlb=1",
}
"""Nothing is given back, no lists of small pieces, and large pages where Linux gives these on request. Other C
libraries ignore the variables."""

TORCHRUN_VARIABLES = frozenset(
    {"RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE", "GROUP_RANK", "GROUP_WORLD_SIZE"}
    | {"ROLE_RANK", "ROLE_NAME", "ROLE_WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT"}
    | {"TORCHELASTIC_RUN_ID", "TORCHELASTIC_RESTART_COUNT", "TORCHELASTIC_MAX_RESTARTS", "TORCHELASTIC_ERROR_FILE"}
    | {"TORCHELASTIC_USE_AGENT_STORE"}
)
"""Children that are no learners must not inherit them: vLLM would look for its own processes at torchrun's address."""

PARENT_VARIABLE = "GRPO_PARENT_PID"
"""Tells a process of a server of ours the id of the process that started it."""

_POLL_SECONDS = 0.25
_FILES_OF_MACOS = 10_240
"""What macOS gives a process at most (its OPEN_MAX), though it calls the limit infinite."""


def allow_many_files() -> None:
    """Let this process and its children open as many files as the system allows: an episode has a socket and a file."""
    if resource is None:
        return
    few, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    for files in (most, max(few, _FILES_OF_MACOS)):
        with suppress(ValueError, OSError):
            resource.setrlimit(resource.RLIMIT_NOFILE, (files, most))
            return


def module_command(module: str, *arguments: str) -> list[str]:
    """The command line that runs ``module`` with the interpreter of this process."""
    return [sys.executable, "-m", module, *arguments]


def child_environment(extra: Mapping[str, str] | None = None) -> dict[str, str]:
    """The environment of this process, in which a child imports the same grpo as this process does.

    Args:
        extra: Variables to set on top.
    """
    inherited = {name: value for name, value in os.environ.items() if name not in TORCHRUN_VARIABLES}
    environment = {**inherited, **(extra or {})}
    # Without bytecode files every process compiles torch and vLLM anew: half a minute more for each start of a server.
    environment.pop("PYTHONDONTWRITEBYTECODE", None)
    root = Path(__file__).resolve().parents[2]
    if root.name not in ("site-packages", "dist-packages"):  # these would come before the standard library
        others = environment.get("PYTHONPATH", "")
        environment["PYTHONPATH"] = f"{root}{os.pathsep}{others}" if others else str(root)
    return environment


def end_with_parent(parent: int, end: Callable[[], None]) -> None:
    """Call ``end`` in a thread once ``parent``, which started this process, is gone, even if it was before this call.

    It watches, because the kernel's parent-death signal comes when the *thread* ends that started this process.
    """

    def watch() -> None:
        while os.getppid() == parent:
            time.sleep(_POLL_SECONDS)
        end()

    threading.Thread(target=watch, name="grpo-end-with-parent", daemon=True).start()


def kill_group(group: int) -> None:
    """End the processes of a group, but not multiprocessing's trackers: a tracker ends when the others have, and
    removes what these have left in shared memory.
    """
    for entry in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):  # it has just ended
            pid = int(entry.name)
            if os.getpgid(pid) == group and b"resource_tracker" not in (entry / "cmdline").read_bytes():
                os.kill(pid, signal.SIGKILL)


def kept_memory() -> dict[str, str]:
    """The variables of ``KEPT_MEMORY`` that the user has not set."""
    return {name: value for name, value in KEPT_MEMORY.items() if name not in os.environ}


def start_with_kept_memory() -> None:
    """Start this command once more, as the same process, with the variables: glibc reads them only then.

    What the user has set stays. Nothing is done in a program that is not one of the package's commands.
    """
    program = Path(sys.argv[0])
    is_ours = program.name.startswith("grpo-") or program == Path(__file__).parents[1] / "__main__.py"
    if is_ours and (missing := kept_memory()):
        os.execve(sys.executable, [sys.executable, *sys.orig_argv[1:]], os.environ | missing)


@dataclass(frozen=True, slots=True)
class Rank:
    """A process among those that were started together: its number, how many there are; the same on its machine."""

    rank: int
    size: int
    local_rank: int = 0
    local_size: int = 1


def torchrun_rank() -> Rank | None:
    """Of this process; None where neither torchrun nor another launcher of its kind started it."""
    if not {"RANK", "WORLD_SIZE", "MASTER_ADDR"} <= os.environ.keys():
        return None
    here = (int(os.environ.get(name, "0")) for name in ("RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE"))
    rank, size, local_rank, local_size = here
    return Rank(rank, size, local_rank, max(1, local_size))

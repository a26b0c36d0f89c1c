"""How much memory a container has left for vLLM on the CPU: cached files are free there, too.

vLLM takes what a cgroup has used as used, and a cgroup counts every file that was read: after an install of 4 GB it
would find no room for a cache of 2. The kernel drops such pages when memory is asked for.
"""

import os
from collections.abc import Callable
from typing import Any

from grpo.machine.hardware import available_gib, memory_gib

_GIB = 1024**3


def left_in_container() -> float | None:
    """GiB that the cgroups of this process have left; None where they set no limit."""
    whole = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / _GIB
    return available_gib() if memory_gib() < whole else None


def install_count(worker: Any, left: Callable[[], float | None] = left_in_container) -> None:
    """Have vLLM's module ``vllm.v1.worker.cpu_worker`` count what the kernel can drop, within what there is."""
    of_vllm = worker.get_memory_node_info

    def get_memory_node_info(node_id: int = 0) -> Any:
        found = of_vllm(node_id)
        if (gib := left()) is not None:
            found.available_memory = min(max(found.available_memory, int(gib * _GIB)), found.total_memory)
        return found

    worker.get_memory_node_info = get_memory_node_info

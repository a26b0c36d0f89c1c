"""What a run adds to vLLM's processes: each ends when its own parent is gone, and on a CPU the room ``cpu`` is put in.

On the CPU the engine process, which has the model, computes on the run's cores (``CORES_VARIABLE``).

The guard ends vLLM's process group. This module is for the case that the guard itself is killed: vLLM's engine process
would otherwise live on without its API server. It is the main module of the API server, so ``multiprocessing`` imports
it first in each process that vLLM spawns; a forked process keeps it. Nothing of vLLM is imported before it is needed,
and ``python -m grpo.serving.vllm_main ARGUMENTS`` takes the arguments of ``vllm serve``.
"""

from __future__ import annotations

import ctypes
import os
import signal
import sys
import threading
import time

from grpo.machine.installed import has_room
from grpo.serving.guard import CORES_VARIABLE, PARENT_VARIABLE, THREADS_VARIABLE

_POLL_SECONDS = 0.5
_PR_SET_PDEATHSIG = 1  # linux/prctl.h


def end_with_parent() -> None:
    """Kill this process as soon as the process that started it is gone, even if that was before this call.

    A thread watches, and not the kernel's parent-death signal alone, because that signal comes when the *thread* ends
    that started this process.
    """
    parent = int(os.environ[PARENT_VARIABLE])
    os.environ[PARENT_VARIABLE] = str(os.getpid())  # for the processes that this one starts

    def watch() -> None:
        while os.getppid() == parent:
            time.sleep(_POLL_SECONDS)
        os.kill(os.getpid(), signal.SIGKILL)

    threading.Thread(target=watch, name="grpo-end-with-parent", daemon=True).start()


def bind_threads() -> None:
    """Have OpenMP compute with one thread for each of the cores that are named, on these, or with so many threads
    anywhere. It reads that once, as torch is loaded.
    """
    if cores := os.environ.get(CORES_VARIABLE):
        os.environ["OMP_NUM_THREADS"] = str(len(cores.split(",")))
        os.environ["OMP_PLACES"] = f"{{{cores}}}"
        os.environ["OMP_PROC_BIND"] = "true"
    elif threads := os.environ.get(THREADS_VARIABLE):
        os.environ["OMP_NUM_THREADS"] = threads


def _ask_kernel() -> None:
    """On Linux, have the kernel kill this process with the guard (which has one thread), without the watch's delay."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)


def register() -> None:
    """What vLLM calls in each of its processes, whoever started it: on a CPU, ``cpu.lora.register``, where it is there.

    ``pyproject.toml`` names this function, because the room ``cpu`` may be taken out. No run's server starts then.
    """
    from vllm.platforms import current_platform

    if current_platform.is_cpu() and has_room("grpo.serving.cpu"):
        from grpo.serving.cpu import lora

        lora.register()


if __name__ == "__main__":
    _ask_kernel()
    end_with_parent()
    os.register_at_fork(after_in_child=end_with_parent)
    from vllm.entrypoints.launchers.api_server.entry import main

    main()
elif __name__ == "__mp_main__":  # multiprocessing has just started this process, the engine's, and prepares it
    end_with_parent()
    bind_threads()

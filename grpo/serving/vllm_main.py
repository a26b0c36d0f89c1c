"""What a run adds to vLLM's processes: each ends when its own parent is gone, and on a CPU the room ``cpu`` is put in.

    run  -->  vLLM (API server -> engine, with several GPUs -> workers; one process group)

On the CPU the engine process, which has the model, computes on the run's cores (``CORES_VARIABLE``).

It is the main module of the API server, so ``multiprocessing`` imports it first in each process that vLLM spawns; a
forked process keeps it. So no process of vLLM outlives the run, nor the API server, however these end. Nothing of vLLM
is imported before it is needed, and ``python -m grpo.serving.vllm_main ARGUMENTS`` takes the arguments of ``vllm
serve``.
"""

import os
import signal
import sys
import time

from grpo.machine.installed import has_room
from grpo.machine.processes import PARENT_VARIABLE, end_with_parent
from judges.common.files import scratch_folder

CORES_VARIABLE = "VLLM_CPU_OMP_THREADS_BIND"
"""vLLM's variable for the cores of a model on the CPU: their numbers, with commas between them."""

THREADS_VARIABLE = "GRPO_VLLM_THREADS"
"""Tells the same model on how many threads it computes where no cores are named: the system then places them."""

SOCKETS_VARIABLE = "VLLM_RPC_BASE_PATH"
"""vLLM's variable for the folder of its sockets, which it does not remove: here one that goes with the server."""

GRACE_SECONDS = 10.0
"""Between SIGTERM for the API server and the end of it and what it started."""


def watch_parent() -> None:
    """End this process when the one that started it is gone."""
    parent = int(os.environ[PARENT_VARIABLE])
    os.environ[PARENT_VARIABLE] = str(os.getpid())  # for the processes that this one starts
    end_with_parent(parent, _end_server if os.getpid() == os.getpgrp() else _end)


def _end() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def _end_server() -> None:
    """Of the API server, which leads the process group: as the run would end it."""
    os.kill(os.getpid(), signal.SIGTERM)
    time.sleep(GRACE_SECONDS)
    _end()  # and the others with it


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


def register() -> None:
    """What vLLM calls in each of its processes, whoever started it: on a CPU, ``cpu.lora.register``, where it is there.

    ``pyproject.toml`` names this function, because the room ``cpu`` may be taken out. No run's server starts then.
    """
    from vllm.platforms import current_platform

    if current_platform.is_cpu() and has_room("grpo.serving.cpu"):
        from grpo.serving.cpu import lora

        lora.register()


if __name__ in ("__main__", "__mp_main__"):
    watch_parent()
    os.register_at_fork(after_in_child=watch_parent)
if __name__ == "__main__":
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))  # vLLM takes its place
    with scratch_folder("grpo-vllm") as sockets:
        os.environ[SOCKETS_VARIABLE] = str(sockets)
        from vllm.entrypoints.launchers.api_server.entry import main

        main()
elif __name__ == "__mp_main__":  # multiprocessing has just started this process, the engine's, and prepares it
    bind_threads()

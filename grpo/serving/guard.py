"""A small process between a run and its vLLM server: it ends the server when the run ends, however the run ends.

    run  --pipe-->  guard  -->  vLLM (API server -> engine, with several GPUs -> workers; one process group)

The pipe closes when the run's process is gone, SIGKILL included; the guard then ends vLLM's whole process group. It
also watches its parent's id, because a process forked by the run may hold the pipe open. Should the guard itself be
killed, every process of vLLM notices that its own parent is gone and ends itself (``vllm_main``).

Run by ``VllmServer``: ``python -m grpo.serving.guard GRACE_SECONDS COMMAND...``. The first line on its standard output
is the id of the command's process group. The end of its standard input stops the command. Its exit status is the
command's.
"""

from __future__ import annotations

import os
import select
import signal
import subprocess
import sys
import tempfile
import time

PARENT_VARIABLE = "GRPO_PARENT_PID"
"""Tells a process of the server the id of the process that started it."""

CORES_VARIABLE = "VLLM_CPU_OMP_THREADS_BIND"
"""vLLM's variable for the cores of a model on the CPU: their numbers, with commas between them."""

THREADS_VARIABLE = "GRPO_VLLM_THREADS"
"""Tells the same model on how many threads it computes where no cores are named: the system then places them."""

SOCKETS_VARIABLE = "VLLM_RPC_BASE_PATH"
"""vLLM's variable for the folder of its sockets, which it does not remove: here one that goes with the server."""

_POLL_SECONDS = 0.25


def guard(command: list[str], grace_seconds: float) -> int:
    """Run ``command`` until it ends or this process's parent goes away.

    Args:
        command: Program and arguments; it becomes the leader of its own process group.
        grace_seconds: Time between SIGTERM for the command and SIGKILL for its group.

    Returns:
        The command's exit status; 128 + N where signal N ended it.
    """
    for ignored in (signal.SIGINT, signal.SIGHUP):  # a Ctrl-C is for the run, which then tells us to stop
        signal.signal(ignored, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    parent = os.getppid()
    with tempfile.TemporaryDirectory(prefix="vllm-", ignore_cleanup_errors=True) as sockets:
        variables = {PARENT_VARIABLE: str(os.getpid()), SOCKETS_VARIABLE: sockets}
        child = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=sys.stderr, process_group=0, env=os.environ | variables
        )
        try:
            print(child.pid, flush=True)
            while child.poll() is None and os.getppid() == parent:
                readable, _, _ = select.select([0], [], [], _POLL_SECONDS)
                if readable:
                    break  # nothing is ever written to the pipe: it is closed
        finally:
            signal.signal(signal.SIGTERM, signal.SIG_IGN)
            end_group(child, grace_seconds)
    return child.returncode if child.returncode >= 0 else 128 - child.returncode


def end_group(leader: subprocess.Popen[bytes], grace_seconds: float) -> None:
    """Ask the leader to end, wait, then kill whatever is left of its process group."""
    if leader.poll() is None:
        leader.terminate()  # vLLM's API server ends its engine itself, and tidies its shared memory up
        try:
            leader.wait(grace_seconds)
        except subprocess.TimeoutExpired:
            pass
    deadline = time.monotonic() + 1.0
    while leader.poll() is not None and _group_exists(leader.pid) and time.monotonic() < deadline:
        time.sleep(0.05)  # the rest of the group follows its leader by itself
    try:
        os.killpg(leader.pid, signal.SIGKILL)
    except ProcessLookupError:
        pass
    leader.wait()


def _group_exists(group: int) -> bool:
    try:
        os.killpg(group, 0)
    except ProcessLookupError:
        return False
    return True


if __name__ == "__main__":
    sys.exit(guard(sys.argv[2:], float(sys.argv[1])))

"""Which processes run in a session, or were started by another. A server's guard begins a session, and all that it starts
stays in it.

A mark in the environment would not do: a process that sets its title, as vLLM's do, may write over it.
"""

from __future__ import annotations

import time
from pathlib import Path


def processes_in(*sessions: int) -> dict[int, str]:
    """Command lines of the processes in these sessions, by their ids; one that has ended is none, reaped or not."""
    return {pid: _command(pid) for pid, (_, session) in _parents_and_sessions().items() if session in sessions}


def family_of(pid: int) -> set[int]:
    """A process and all that it started, as long as their parents run."""
    running = _parents_and_sessions()
    family, found = {pid}, 0
    while found < len(family):
        found = len(family)
        family |= {child for child, (parent, _) in running.items() if parent in family}
    return family & running.keys()


def sessions_below(pid: int) -> tuple[int, ...]:
    """The sessions of a process and of all that it started, as long as their parents run."""
    running = _parents_and_sessions()
    return tuple({running[member][1] for member in family_of(pid) if member in running})


def wait_until_ended(pids: set[int], seconds: float) -> set[int]:
    """Wait until none of these processes runs; returns those that do."""
    deadline = time.monotonic() + seconds
    while (left := pids & _parents_and_sessions().keys()) and time.monotonic() < deadline:
        time.sleep(0.1)
    return left


def wait_until_gone(*sessions: int, seconds: float) -> dict[int, str]:
    """Wait until nothing runs in these sessions; returns what is left."""
    deadline = time.monotonic() + seconds
    while (left := processes_in(*sessions)) and time.monotonic() < deadline:
        time.sleep(0.1)
    return left


def _parents_and_sessions() -> dict[int, tuple[int, int]]:
    found = {}
    for place in Path("/proc").iterdir():
        try:
            if place.name.isdigit():
                state, parent, _, session = (place / "stat").read_text().rpartition(")")[2].split()[:4]
                if state != "Z":
                    found[int(place.name)] = int(parent), int(session)
        except OSError:  # it has ended meanwhile
            continue
    return found


def _command(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode()
    except OSError:
        return ""

"""Which processes run in a session, or were started by another. A server begins a session, and all that it starts stays
in it.

A mark in the environment would not do: a process that sets its title, as vLLM's do, may write over it.
"""

from pathlib import Path


def processes_in(*sessions: int) -> dict[int, str]:
    """Command lines of the processes in these sessions, by their ids; one that has ended is none, reaped or not."""
    return {pid: _command(pid) for pid, (_, session) in _parents_and_sessions().items() if session in sessions}


def family_of(pid: int) -> set[int]:
    """A process and all that it started, as long as their parents run."""
    everyone = _parents_and_sessions()
    family, found = {pid}, 0
    while found < len(family):
        found = len(family)
        family |= {child for child, (parent, _) in everyone.items() if parent in family}
    return family & everyone.keys()


def sessions_below(pid: int) -> tuple[int, ...]:
    """The sessions of a process and of all that it started, as long as their parents run."""
    everyone = _parents_and_sessions()
    return tuple({everyone[member][1] for member in family_of(pid) if member in everyone})


def running(pids: set[int]) -> set[int]:
    """Which of these processes run; one that has ended does not, reaped or not."""
    return pids & _parents_and_sessions().keys()


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

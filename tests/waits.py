"""Whether the system says how long a thread waited for a core.

Where it does not, a step that computes looks like one that waits, as soon as the machine is busy.
"""

from pathlib import Path

import pytest


def _tells_waits() -> bool:
    try:
        return int(Path("/proc/thread-self/schedstat").read_text().split()[2]) > 0
    except (OSError, ValueError, IndexError):
        return False


TELLS_WAITS = _tells_waits()
needs_waits_told = pytest.mark.skipif(
    not TELLS_WAITS, reason="the system does not say how long a thread waits for a core (/proc/thread-self/schedstat)"
)

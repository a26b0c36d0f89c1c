"""How glibc keeps the memory of tensors: freed pieces join again, and pages are large.

torch asks for tensors that begin at a multiple of 64 bytes. For each, glibc before 2.39 takes a larger piece and puts
the ends that it cuts off into its lists of small pieces, where they join nothing (its bug 30723). So no tensor fits
where one of its size was freed, and a learner on the CPU has a fifth more memory than with these settings, and is
slower by a tenth. docs/performance.md has the figures.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

TUNABLES = {"GLIBC_TUNABLES": "glibc.malloc.tcache_count=0:glibc.malloc.mxfast=0:glibc.malloc.hugetlb=1"}
"""No lists of small pieces, and large pages where Linux gives these on request; other C libraries ignore it."""


def start_with_tunables() -> None:
    """Start this command once more, as the same process: glibc reads its settings only then.

    Nothing is done where the user has set some, nor in a program that is not one of the package's commands.
    """
    program = Path(sys.argv[0])
    is_ours = program.name.startswith("grpo-") or program == Path(__file__).parents[1] / "__main__.py"
    if is_ours and not TUNABLES.keys() & os.environ.keys():
        os.execve(sys.executable, [sys.executable, *sys.orig_argv[1:]], os.environ | TUNABLES)

"""How glibc keeps the memory of tensors: it keeps what is freed, freed pieces join again, and pages are large.

torch asks for tensors that begin at a multiple of 64 bytes. For each, glibc before 2.39 takes a larger piece and puts
the ends that it cuts off into its lists of small pieces, where they join nothing (its bug 30723). So no tensor fits
where one of its size was freed, and a learner on the CPU has a fifth more memory than with these settings. And it would
give large pieces, and the end of its heap, back to Linux at once, which the next tensors then pay for page by page: a
tenth of a learner's time in float32, a sixth of the time that a prompt takes vLLM. docs/performance.md has the figures.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

_GIB = 1024**3
KEPT_MEMORY = {
    "MALLOC_MMAP_THRESHOLD_": str(4 * _GIB),
    "MALLOC_TRIM_THRESHOLD_": str(16 * _GIB),
    "GLIBC_TUNABLES": "glibc.malloc.tcache_count=0:glibc.malloc.mxfast=0:glibc.malloc.hugetlb=1",
}
"""Nothing is given back, no lists of small pieces, and large pages where Linux gives these on request. Other C
libraries ignore the variables."""


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

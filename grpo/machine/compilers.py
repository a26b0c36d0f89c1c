"""What torch and vLLM compile with when they run, if it is there: compilers and Python's headers."""

from __future__ import annotations

import os
import shutil
import sysconfig
from pathlib import Path


def c_compiler() -> str | None:
    """As Triton looks for it."""
    names = [os.environ["CC"]] if "CC" in os.environ else ["gcc", "clang"]
    return next((found for name in names if (found := shutil.which(name))), None)


def cpp_compiler() -> str | None:
    """As ``torch.compile`` looks for it on a CPU."""
    return shutil.which(os.environ.get("CXX", "g++"))


def python_header() -> Path:
    """Where ``Python.h`` is, or would be."""
    return Path(sysconfig.get_paths()["include"]) / "Python.h"


def can_compile_for_cpu() -> bool:
    """Whether ``torch.compile`` can do its work on a CPU."""
    return cpp_compiler() is not None and python_header().exists()

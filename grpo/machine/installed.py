"""What is installed: packages of the extras, optional rooms of this one, and what torch and vLLM compile with."""

import importlib.metadata
import importlib.util
import os
import shutil
import sys
import sysconfig
from contextlib import suppress
from pathlib import Path

from grpo.errors import ConfigError

LEARNER = ("torch", "transformers", "peft", "safetensors")
"""What training, and serving what was trained, needs besides vLLM."""

OF_TRAINING = (*LEARNER, "accelerate", "gguf", "vllm")


def require(*names: str) -> None:
    """Raise for the first package that is not installed, as importing it would.

    Raises:
        ModuleNotFoundError: A package is not installed.
    """
    for name in names:
        if importlib.util.find_spec(name) is None:
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)


def require_linux(work: str) -> None:
    """Raise where training and serving cannot be: vLLM has builds for Linux alone, and /proc says what memory is used.

    Raises:
        ConfigError: The system is another.
    """
    if sys.platform != "linux":
        raise ConfigError(
            f"{work} needs Linux, and this is {sys.platform}; envs, judges and the evaluation of agents work here "
            "(docs/install.md)"
        )


def how_to_install(error: ModuleNotFoundError) -> str | None:
    """What to do about a package that is not installed; None where it is none of an extra."""
    package = (error.name or "").partition(".")[0]
    if package not in OF_TRAINING:
        return None
    return (
        f"this needs the package {package}, which is not installed; scripts/install cpu (or gpu) installs all that "
        "training needs (docs/install.md)"
    )


def version_of(name: str) -> str | None:
    """Of a package, or of its build for CPUs; None where neither is installed."""
    for distribution in (name, f"{name}-cpu"):
        with suppress(importlib.metadata.PackageNotFoundError):
            return importlib.metadata.version(distribution)
    return None


def has_room(name: str) -> bool:
    """Whether an optional room of this package is here: its folder may be taken out, and may leave caches behind."""
    spec = importlib.util.find_spec(name)
    return spec is not None and spec.origin is not None


def c_compiler() -> str | None:
    """As Triton looks for it."""
    names = [os.environ["CC"]] if "CC" in os.environ else ["gcc", "clang"]
    return next((found for name in names if (found := shutil.which(name))), None)


def python_header() -> Path:
    """Where ``Python.h`` is, or would be."""
    return Path(sysconfig.get_paths()["include"]) / "Python.h"


def can_compile_for_cpu() -> bool:
    """Whether ``torch.compile`` can do its work on a CPU."""
    return shutil.which(os.environ.get("CXX", "g++")) is not None and python_header().exists()

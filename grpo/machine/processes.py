"""How grpo starts a Python process that runs one of its own modules, and how many files a process may open."""

from __future__ import annotations

import os
import resource
import sys
from collections.abc import Mapping
from pathlib import Path

from grpo.machine.torchrun import VARIABLES


def allow_many_files() -> None:
    """Let this process and its children open as many files as the system allows: an episode has a socket and a file."""
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))


def module_command(module: str, *arguments: str) -> list[str]:
    """The command line that runs ``module`` with the interpreter of this process."""
    return [sys.executable, "-m", module, *arguments]


def child_environment(extra: Mapping[str, str] | None = None) -> dict[str, str]:
    """The environment of this process, in which a child imports the same grpo as this process does.

    Args:
        extra: Variables to set on top.
    """
    inherited = {name: value for name, value in os.environ.items() if name not in VARIABLES}
    environment = {**inherited, **(extra or {})}
    # Without bytecode files every process compiles torch and vLLM anew: half a minute more for each start of a server.
    environment.pop("PYTHONDONTWRITEBYTECODE", None)
    root = str(Path(__file__).resolve().parents[2])
    if not _is_installed_at(root):
        others = environment.get("PYTHONPATH", "")
        environment["PYTHONPATH"] = f"{root}{os.pathsep}{others}" if others else root
    return environment


def _is_installed_at(root: str) -> bool:
    # A site-packages folder must not go into PYTHONPATH: it would come before the standard library.
    return Path(root).name in ("site-packages", "dist-packages")

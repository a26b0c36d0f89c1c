"""Interpreters that have other projects' packages."""

import functools
import importlib.metadata
import os
from pathlib import Path

import pytest

from tests import ROOT

ENVIRONMENTS = Path(os.environ.get("INTEROP", ROOT / ".venv-interop"))


def needs(name: str) -> pytest.MarkDecorator:
    """Skips where there is no environment of this name."""
    reason = f"no environment at {ENVIRONMENTS / name}; scripts/test_interop {name} makes one"
    return pytest.mark.skipif(not (ENVIRONMENTS / name / "bin" / "python").exists(), reason=reason)


def program(name: str, command: str = "python") -> str:
    """A command of an environment."""
    return str(ENVIRONMENTS / name / "bin" / command)


@functools.cache
def version(name: str, package: str) -> str:
    """Which version of a package an environment has."""
    (found,) = importlib.metadata.distributions(
        name=package, path=[str(next((ENVIRONMENTS / name / "lib").glob("python*/site-packages")))]
    )
    return found.version

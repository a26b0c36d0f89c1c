"""What crosses between a process and its workers of envs. A module of its own: what a program's main module defines
cannot be unpickled elsewhere.
"""

from __future__ import annotations

from typing import Any, NamedTuple

PARENT_VARIABLE = "GRPO_PARENT_PID"
"""Tells a worker the id of the process that started it."""


class Recipe(NamedTuple):
    """How to make an env here as it is made in the process that asks."""

    env_id: str
    env_kwargs: dict[str, Any]
    module: str | None
    """Imported first, because it registers envs."""
    spec: bytes
    """The env's registration, pickled, where it can be."""
    path: list[str]
    """``sys.path``."""


class Reply(NamedTuple):
    """What became of a call: the value, or why there is none; and what it took."""

    value: Any
    error: str
    seconds: float = 0.0
    computing_seconds: float = 0.0

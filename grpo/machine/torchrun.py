"""What ``torchrun`` tells the processes that it starts, in their environment."""

from __future__ import annotations

import os
from dataclasses import dataclass

VARIABLES = frozenset(
    {"RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE", "GROUP_RANK", "GROUP_WORLD_SIZE"}
    | {"ROLE_RANK", "ROLE_NAME", "ROLE_WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT"}
    | {"TORCHELASTIC_RUN_ID", "TORCHELASTIC_RESTART_COUNT", "TORCHELASTIC_MAX_RESTARTS", "TORCHELASTIC_ERROR_FILE"}
    | {"TORCHELASTIC_USE_AGENT_STORE"}
)
"""Children that are no learners must not inherit them: vLLM would look for its own processes at torchrun's address."""


@dataclass(frozen=True, slots=True)
class Place:
    """A process among those that were started together: its number, how many there are; the same on its machine."""

    rank: int
    size: int
    local_rank: int = 0
    local_size: int = 1


def place() -> Place | None:
    """Of this process; None where neither torchrun nor another launcher of its kind started it."""
    if not {"RANK", "WORLD_SIZE", "MASTER_ADDR"} <= os.environ.keys():
        return None
    here = (int(os.environ.get(name, "0")) for name in ("RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE"))
    rank, size, local_rank, local_size = here
    return Place(rank, size, local_rank, max(1, local_size))

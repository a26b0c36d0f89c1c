"""Envs for the tests of where envs are called: they meet each other, wait, compute, and end their process."""

from __future__ import annotations

import os
import subprocess
import threading
import time
from pathlib import Path
from typing import Any

import gymnasium

from tests.fakes import WordEnv

MEETING_ENV = "tests.worker_envs:Meeting-v0"
HARD_ENV = "tests.worker_envs:Hard-v0"
PATIENCE_SECONDS = 60.0


def meet(folder: Path, count: int) -> None:
    """Wait until so many threads or processes have been here."""
    (folder / f"{os.getpid()}-{threading.get_ident()}").touch()
    deadline = time.monotonic() + PATIENCE_SECONDS
    while len(list(folder.iterdir())) < count:
        if time.monotonic() > deadline:
            raise TimeoutError("nobody came")
        time.sleep(0.01)


class Meeting(WordEnv):
    """A step ends when ``count`` envs, wherever they live, have been in a step at the same time."""

    def __init__(self, folder: str, count: int = 2):
        super().__init__()
        self.folder = Path(folder)
        self.count = count

    def step(self, action: str):
        meet(self.folder, self.count)
        return super().step(action)


class Hard(WordEnv):
    """Does in each step what its arguments say: waits, computes (seconds), or what a word of the action says."""

    def __init__(self, waits: float = 0.0, computes: float = 0.0, tool: Any = None):
        super().__init__()
        self.waits, self.computes, self.tool = waits, computes, tool

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None):
        text, info = super().reset(seed=seed, options=options)
        return text, info | {"lock": threading.Lock(), "drawn": float(self.np_random.random())}

    def step(self, action: str) -> Any:
        time.sleep(self.waits)
        began = time.thread_time()
        while time.thread_time() - began < self.computes:
            pass
        if "child" in action:
            subprocess.Popen(["sleep", "1000"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        if "hang" in action:
            time.sleep(1000)
        if "die" in action:
            os._exit(7)
        if "raise" in action:
            raise LookupError("no such page")
        _, *rest = super().step(action)
        return f"{os.getpid()} {threading.get_ident()}", *rest


if "Meeting-v0" not in gymnasium.registry:
    gymnasium.register("Meeting-v0", entry_point="tests.worker_envs:Meeting")
    gymnasium.register("Hard-v0", entry_point="tests.worker_envs:Hard")

"""What a run waits for, and who says so where nothing moves any more.

Whatever may never come back is waited for inside `Waiting`: a request to a server, a call of an env, a verdict of a
judge, a reward function, a gradient. `Watchdog`, a thread of the command, looks at all that wait. Who has not moved for
`PATIENCE_SECONDS` is named, with what it does and what helps; when it is over, that is said, too. What all wait for
stands in a file meanwhile: whether that can be written shows whether the disk answers.

Code of others that runs in this process may end it: an env that calls ``exit``, a reward function that crashes. So a
small program waits for the end of this one, and says so where this one has not.

It only looks. How long something may take at most, and what is done then, is decided where it is waited for.
"""

import faulthandler
import os
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import Any, Self

from judges.common.files import Closeable, write_json

PATIENCE_SECONDS = 45.0
"""How long nothing may move before it is said."""
LOOK_SECONDS = 1.0
WRITE_SECONDS = 5.0
LEARNER_STANDS_STILL = "memory may be short, or a process that learns with it, its device or its server stands still"
COMPUTED_SECONDS = 5.0
"""Of CPU time show that this process computes."""
FILE_NAME = "watch.json"


class Part(StrEnum):
    """Who is waited for."""

    SERVER = "server"
    """That samples the policy."""
    ENV = "env"
    """Its resets and its steps."""
    MODEL = "model"
    """Behind an agent that is evaluated."""
    JUDGE = "judge"
    """Of groups or of answers."""
    REWARD = "reward function"
    """Of the user's."""
    AGENT = "agent"
    """Of others, while it neither asks its model nor acts."""
    LEARNER = "learner"
    """A gradient and its step, in this process, in all that learn together, or on a Tinker server."""
    DISK = "disk"
    """That holds the run's folder."""


@dataclass(slots=True, eq=False)
class Waiting:
    """A wait, from the beginning of its ``with`` block to its end.

    Attributes:
        part: For whom.
        doing: What it does, for people.
        remedy: What helps where it does not come back.
        pulse: Gives what changes while it goes on; it is read at every look.
        holds_all: Whether it is waited for in the event loop's own thread: nothing else can move meanwhile, and that
            time counts for no other.
        beat: What ``pulse`` gave last.
        moved: When it began, or last showed that it goes on, by the clock of ``time.monotonic``.
        named: Whether it was named.
    """

    part: Part
    doing: str
    remedy: str = ""
    pulse: Callable[[], object] = lambda: None
    holds_all: bool = False
    beat: object = field(default=None, init=False)
    began: float = field(default=0.0, init=False)
    moved: float = field(default=0.0, init=False)
    named: bool = field(default=False, init=False)

    @property
    def is_open(self) -> bool:
        """Whether it is waited for still."""
        return self in _WAITING

    def moves(self) -> None:
        """Note that it goes on."""
        self.moved = time.monotonic()

    def leave(self) -> None:
        """Wait no longer, though it may never come back."""
        _WAITING.discard(self)

    def __enter__(self) -> Self:
        self.began = self.moved = time.monotonic()
        _WAITING.add(self)
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        self.leave()
        if kind is None:
            _CAME_BACK[self.part] = time.monotonic()


_WAITING: set[Waiting] = set()
"""Of this process; whoever waits adds itself, from any thread."""

_CAME_BACK: dict[Part, float] = {}


def came_back(part: Part) -> float:
    """When a wait for a part last ended well, by the clock of ``time.monotonic``; 0 where none did."""
    return _CAME_BACK.get(part, 0.0)


def computed() -> int:
    """A pulse of what this process computes itself: its CPU time, in `COMPUTED_SECONDS`."""
    return int(time.process_time() // COMPUTED_SECONDS)


_LAST_WORDS = """
import json, sys
if not sys.stdin.buffer.read():
    try:
        with open(sys.argv[1]) as file:
            parts = json.load(file)["parts"]
        waited = "".join(f"; it waited for the {part}: {one['doing']}" for part, one in parts.items())
    except (OSError, ValueError):
        waited = ""
    print(
        "The process has ended without a word. It was killed (Linux does so when memory is short), or code that it "
        f"ran, an env's or a reward function's, has ended it{waited}. --resume goes on; with env_workers = 2 an env "
        "that ends its process is lost alone.", file=sys.stderr, flush=True
    )
"""


class Watchdog(Closeable):
    """Looks at all that wait, between ``with`` and its end.

    Args:
        say: Is called with a line for people, in a thread of its own.
        folder: Gets `FILE_NAME`, which is removed at the end.
        doing: Tells what the command does meanwhile, in lines for people.
    """

    def __init__(self, say: Callable[[str], None], folder: Path, doing: Callable[[], list[str]] = list):
        self._say, self._doing = say, doing
        self._path = folder / FILE_NAME
        self._patience = PATIENCE_SECONDS
        self._named: dict[Part, Waiting] = {}
        self._looked = time.monotonic()
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._watch, name="grpo-watchdog", daemon=True)
        self._writer = threading.Thread(target=self._write, name="grpo-watchdog-file", daemon=True)
        self._end: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> Self:
        command = [sys.executable, "-I", "-S", "-c", _LAST_WORDS, str(self._path)]
        self._end = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=2, start_new_session=True)
        faulthandler.enable(2)
        self._thread.start()
        self._writer.start()
        return self

    def close(self) -> None:
        """End it."""
        self._ended.set()
        if self._end is not None:
            self._end.communicate(b"a word")  # before all that can be interrupted
            self._end = None
            self._thread.join()
            self._writer.join(self._patience)  # a disk may never answer
        self._path.unlink(missing_ok=True)

    def _watch(self) -> None:
        while not self._ended.wait(min(LOOK_SECONDS, self._patience / 4)):
            self._look(list(_WAITING), time.monotonic())

    def _write(self) -> None:
        while not self._ended.wait(min(LOOK_SECONDS, self._patience / 4)):
            known = state(list(_WAITING), time.monotonic()) | {"doing": self._doing()}
            writing = Waiting(Part.DISK, f"writing {self._path}", "see whether the disk, or its network, answers")
            with suppress(OSError), writing:  # a full disk is told by whoever has something to keep
                write_json(self._path, known)
            self._ended.wait(WRITE_SECONDS)

    def _look(self, waiting: list[Waiting], now: float) -> None:
        before, self._looked = self._looked, now
        is_held = any(one.holds_all and one.began <= before for one in waiting)  # ever since
        for one in waiting:
            last, one.beat = one.beat, one.pulse()
            if one.beat != last:
                one.moves()
            elif is_held and not (one.holds_all or one.named):
                one.moved = min(now, one.moved + now - before)
        for part, named in list(self._named.items()):
            is_over = named not in waiting  # it came back, failed, or was left
            if is_over or named.moved > now - self._patience:
                del self._named[part]
                how = "is waited for no longer" if is_over else "goes on"
                self._say(f"{part}: {named.doing} {how}, after {now - named.began:.0f} s")
        for one in waiting:
            one.named = one.named and now - one.moved >= self._patience
        still = [one for one in waiting if now - one.moved >= self._patience and not one.named]
        for part, count in Counter(one.part for one in still).items():
            ours = sorted((one for one in still if one.part is part), key=lambda one: one.moved)
            for one in ours:
                one.named = True
            if part in self._named:
                continue
            first = self._named[part] = ours[0]
            others = f", and {count - 1} more" if count > 1 else ""
            remedy = f"; {first.remedy}" if first.remedy else ""
            self._say(f"{part}: {first.doing} has not moved for {now - first.moved:.0f} s{others}{remedy}")


def state(waiting: list[Waiting], now: float) -> dict[str, Any]:
    """What is waited for, as the file has it: by part how many, and the oldest with its seconds since it moved."""
    parts: dict[str, Any] = {}
    for one in sorted(waiting, key=lambda one: one.moved):
        entry = parts.setdefault(
            str(one.part), {"doing": one.doing, "seconds": round(now - one.moved, 1), "named": one.named, "waiting": 0}
        )
        entry["waiting"] += 1
    return {"time": time.time(), "pid": os.getpid(), "parts": parts}

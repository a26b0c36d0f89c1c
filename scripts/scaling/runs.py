"""Training runs on this machine: with 1 and 2 processes that learn, 1 and 2 vLLM servers, and staleness 0 and 1.

Each is a real `grpo-train`. The servers are started here, so that runs in turn ask the same ones, and they are asked
how many requests are under way while a run goes on.
"""

from __future__ import annotations

import hashlib
import os
import statistics
import subprocess
import sys
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

import httpx

from grpo.config import load_config
from grpo.files import read_jsonl
from grpo.machine.models import resolve_model
from grpo.serving.fleet import Fleet
from grpo.serving.server import make_servers
from grpo.types import Group

ENV = "email_env:EmailSearch-v0"
POLL_SECONDS = 0.2
FOLDERS = [str(Path(__file__).resolve().parents[depth]) for depth in (1, 2)]


def drawn(group: Group) -> list[float]:
    """A reward that differs within a group, whatever the policy can do: every group is learned from."""
    return [hashlib.sha256(repr(t.token_ids).encode()).digest()[0] / 255.0 for t in group.trajectories]


@dataclass(frozen=True, slots=True)
class Form:
    """What a run uses."""

    servers: int
    processes: int
    staleness: int


@dataclass(frozen=True, slots=True)
class Work:
    """What every run does; ``adapter`` is where it begins, None for the base model with a new one."""

    steps: int
    groups: int
    adapter: Path | None = None
    options: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Found:
    """Medians of a run's steps after the first.

    Attributes:
        step_seconds, publish_seconds: Of a step, and of it until every server had the new adapter.
        sampled, trained: Tokens a second, while episodes were played and while the learner computed.
        sampler_idle: Share of the whole run in which no server had a request.
        learner_idle: Share of a step in which the learner did not compute.
    """

    step_seconds: float
    publish_seconds: float
    sampled: float
    trained: float
    sampler_idle: float
    learner_idle: float


def serving(servers: int, folder: Path) -> Fleet:
    """vLLM servers for the CPU recipe, with a share of the cores each; not yet started."""
    config = load_config("email-cpu", {"env": ENV, "server.replicas": servers})
    return Fleet(make_servers(config, resolve_model(config.model).path, folder / "server.log"))


def run(form: Form, work: Work, fleet: Fleet, folder: Path) -> Found:
    """Train in a process of its own, or several, and read what it wrote.

    Raises:
        RuntimeError: The run failed; with the end of what it said.
    """
    watch = Watch([server.url for server in fleet.servers])
    with watch:
        done = subprocess.run(command(form, work, fleet, folder), env=environment(), capture_output=True, text=True)
    if done.returncode:
        raise RuntimeError(f"{form} ended with {done.returncode}:\n{(done.stderr or done.stdout)[-2000:]}")
    lines = read_jsonl(folder / "metrics.jsonl")
    return summary(lines[1:], watch.idle(sum(line["time/step"] for line in lines)))


def command(form: Form, work: Work, fleet: Fleet, folder: Path) -> list[str]:
    """The program that trains."""
    program = [sys.executable, "-m", "grpo", "train"]
    if form.processes > 1:
        torchrun = ("torch.distributed.run", "--standalone", "--nproc-per-node", str(form.processes), "-m")
        program = [sys.executable, "-m", *torchrun, "grpo", "train"]
    start = ("--warm-start-steps", "0") if work.adapter is None else ("--init-adapter", str(work.adapter))
    return [
        *(*program, "--env", ENV, "--recipe", "email-cpu", "--run-dir", str(folder), "--eval-scenarios", "0"),
        *("--steps", str(work.steps), "--groups-per-step", str(work.groups), "--reward", "scaling.runs:drawn"),
        *("--max-staleness", str(form.staleness), *start),
        *(part for server in fleet.servers for part in ("--server", server.url)),
        *work.options,
    ]


def environment() -> dict[str, str]:
    """Of the run: it finds this module, for its reward."""
    return os.environ | {"PYTHONPATH": os.pathsep.join([*FOLDERS, os.environ.get("PYTHONPATH", "")])}


def summary(steps: Sequence[dict[str, float]], sampler_idle: float) -> Found:
    """Medians over lines of ``metrics.jsonl``."""

    def median(name: str) -> float:
        return statistics.median(step.get(name, 0.0) for step in steps)

    return Found(
        step_seconds=median("time/step"),
        publish_seconds=median("time/publish"),
        sampled=median("speed/sample_tokens_per_second"),
        trained=median("speed/train_tokens_per_second"),
        sampler_idle=sampler_idle,
        learner_idle=1.0 - statistics.median(step.get("time/train", 0.0) / step["time/step"] for step in steps),
    )


@dataclass
class Watch:
    """Asks servers, several times a second, whether any has a request under way."""

    urls: list[str]
    busy: list[tuple[float, bool]] = field(default_factory=list)

    def __enter__(self) -> Watch:
        self._end = threading.Event()
        self._thread = threading.Thread(target=self._ask, daemon=True)
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._end.set()
        self._thread.join()

    def idle(self, seconds: float) -> float:
        """Share of the last ``seconds`` before the last request in which no server had one."""
        newest = max((at for at, busy in self.busy if busy), default=0.0)
        times = [busy for at, busy in self.busy if newest - seconds < at <= newest]
        return 1.0 - sum(times) / len(times) if times else 1.0

    def _ask(self) -> None:
        with httpx.Client(trust_env=False, timeout=10.0) as client:
            while not self._end.wait(POLL_SECONDS):
                self.busy.append((time.monotonic(), any(self._is_busy(client, url) for url in self.urls)))

    @staticmethod
    def _is_busy(client: httpx.Client, url: str) -> bool:
        try:
            return running(client.get(f"{url}/metrics").text) > 0
        except httpx.HTTPError:  # the run says that its server is gone
            return False


def running(metrics: str) -> float:
    """Requests that a server computes, from vLLM's own metrics."""
    lines = (line for line in metrics.splitlines() if line.startswith("vllm:num_requests_running"))
    return sum(float(line.rsplit(" ", 1)[1]) for line in lines)

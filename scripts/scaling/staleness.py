"""What staleness does to learning: the same small run with each staleness, over seeds, from the same vLLM server.

The env is `scaling.words`, whose reward rises within minutes. The server samples in processes of its own while the
run learns, so with staleness 1 both compute at the same time.
"""

from __future__ import annotations

import json
import statistics
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from grpo.files import read_jsonl
from grpo.runs.directory import RunDirectory
from grpo.runs.evaluations import AFTER, BEFORE, SAMPLED, label_of
from grpo.serving.fleet import Fleet
from grpo.statistics import Interval, mean_interval
from scaling.runs import environment

ENV = "scaling.words:Words-v0"
LAST_STEPS = 5
OPTIONS = (
    *("--cpu", "--model", "smollm2-135m", "--group-size", "8", "--groups-per-step", "9", "--learning-rate", "2e-4"),
    *("--set", "rollout.max_turn_tokens=24", "--set", "rollout.max_tokens=128", "--eval-scenarios", "18"),
    *("--set", "eval.samples=8", "--set", "eval.greedy=0"),
)
"""72 episodes a step, 144 held-out ones before and after."""


@dataclass(frozen=True, slots=True)
class Learned:
    """What a run came to.

    Attributes:
        before, after: Mean reward of the held-out episodes at temperature 1.
        last: Mean reward of the rollouts of the last steps.
        age: Mean over tokens and steps of how many optimizer updates old the policy was that sampled them.
        step_seconds: Median.
    """

    staleness: int
    seed: int
    before: float
    after: float
    last: float
    age: float
    step_seconds: float


def command(
    staleness: int, seed: int, steps: int, fleet: Fleet, folder: Path, options: Sequence[str] = ()
) -> list[str]:
    """The program that trains."""
    return [
        *(sys.executable, "-m", "grpo", "train", "--env", ENV, "--run-dir", str(folder), "--quiet", *OPTIONS),
        *("--steps", str(steps), "--seed", str(seed), "--max-staleness", str(staleness)),
        *(part for server in fleet.servers for part in ("--server", server.url)),
        *options,
    ]


def learn(staleness: int, seed: int, steps: int, fleet: Fleet, folder: Path, options: Sequence[str] = ()) -> Learned:
    """Train in a process of its own, and read what it wrote.

    Raises:
        RuntimeError: The run failed; with the end of what it said.
    """
    program = command(staleness, seed, steps, fleet, folder, options)
    done = subprocess.run(program, env=environment(), capture_output=True, text=True)
    if done.returncode:
        raise RuntimeError(f"{' '.join(program)} ended with {done.returncode}:\n{(done.stderr or done.stdout)[-2000:]}")
    run = RunDirectory(folder)
    summaries = (json.loads(run.evaluation(label_of(when, SAMPLED)).read_text()) for when in (BEFORE, AFTER))
    before, after = (summary["metrics"]["reward"]["mean"] for summary in summaries)
    lines = read_jsonl(run.metrics_path)
    return Learned(
        staleness,
        seed,
        before,
        after,
        statistics.fmean(line["reward/mean"] for line in lines[-LAST_STEPS:]),
        statistics.fmean(line["staleness"] for line in lines),
        statistics.median(line["time/step"] for line in lines),
    )


def difference(runs: Sequence[Learned], staleness: int) -> Interval:
    """Of the held-out reward afterwards from that of the runs with staleness 0 and the same seeds."""
    fresh = {run.seed: run.after for run in runs if run.staleness == 0}
    return mean_interval([run.after - fresh[run.seed] for run in runs if run.staleness == staleness])

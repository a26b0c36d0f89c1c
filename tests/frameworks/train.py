"""Trains the policy as the model of each framework's agent, and checks what was captured against vLLM's own replies.

The policy alone, by the env's tools, comes first: its gap between sampler and trainer is what the others' is held to.
All is computed in float32: in bfloat16 the gap is rounding, which differs from text to text.
"""

import argparse
import math
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from grpo.episodes.record import read_episodes
from grpo.machine.hardware import share_cores
from grpo.machine.models import EMBEDDED_MODEL, resolve_model
from grpo.serving.server import KEY_VARIABLE
from grpo.serving.vllm import VllmServer
from grpo.serving.vllm_options import ServerOptions
from grpo.types import Episode
from judges.common.files import read_jsonl
from tests.frameworks.witness import Witness

EXAMPLES = ("langgraph", "openai_agents", "pydantic_ai", "smolagents")
AGENTS = {name: f"examples.agents.{name}_agent:agent" for name in EXAMPLES}
AGENTS |= {name: f"tests.frameworks.{name}_agent:agent" for name in ("agno", "autogen")}
STEPS, MAX_TOKENS, DTYPE = 3, 3072, "float32"
CHANGED = (
    "eval.scenarios=0",
    "warm_start.steps=30",
    "rollout.groups_per_step=4",
    f"rollout.max_tokens={MAX_TOKENS}",
    f"dtype={DTYPE}",
)
SETTINGS = ("--recipe", "email-cpu", "--seed", "0", "--steps", str(STEPS), *(f"--set={value}" for value in CHANGED))
ROUNDING = 1e-5
"""Nats a token by which gaps in float32 differ from run to run."""


@dataclass(frozen=True)
class Trained:
    """What came of a run."""

    spread: float
    gap: float
    calls: int
    rows: int
    episodes: int
    learned: int
    unsaid: int
    failed: int

    def faults(self, gap: float) -> Iterator[str]:
        """What is not as it should be; ``gap`` is that of the policy alone."""
        if not self.spread:
            yield "no group of the first step has spread"
        if self.unsaid:
            yield f"{self.unsaid} of {self.learned} calls are not what vLLM has said"
        if not self.learned:
            yield "nothing was learned from"
        if self.gap > 2 * gap + ROUNDING:
            yield f"sampler and trainer differ by {self.gap:.2g} nats a token, and by {gap:.2g} for the policy alone"
        if self.failed:
            yield f"{self.failed} episodes failed"


def train(run: Path, witness: Witness, *more: str) -> Trained:
    """A run of three steps against the witness.

    Raises:
        CalledProcessError: It failed.
    """
    command = [sys.executable, "-m", "grpo", "train", "--env", "EmailSearch-v0", *SETTINGS]
    environment = os.environ | {KEY_VARIABLE: witness.key}
    command = [*command, "--server", witness.url, "--run-dir", str(run), *more]
    subprocess.run(command, check=True, env=environment)
    steps = read_jsonl(run / "metrics.jsonl")
    episodes = [e for path in sorted(run.glob("trajectories/*.jsonl")) for e in read_episodes(path)]
    said = {(prompt, ids) for prompt, ids, _ in witness.said}
    learned = [pair for episode in episodes for pair in learned_calls(episode)]
    return Trained(
        spread=1.0 - steps[0]["groups/zero_variance_share"],
        gap=max((step["gap/mean_abs"] for step in steps if "gap/mean_abs" in step), default=math.inf),  # has updated
        calls=sum(len(episode.calls) for episode in episodes),
        rows=sum(len(list(episode.rows())) for episode in episodes),
        episodes=len(episodes),
        learned=len(learned),
        unsaid=sum(pair not in said for pair in learned),
        failed=int(sum(step["episodes/failed"] for step in steps)),
    )


def learned_calls(episode: Episode) -> Iterator[tuple[tuple[int, ...], tuple[int, ...]]]:
    """Of each call that is learned from, all ids before it and its own."""
    for call in episode.calls:
        if call.sampled_ids and not call.left_out:
            before = episode.ids_through(call.follows)
            yield tuple(before + call.prompt_ids), tuple(call.sampled_ids)


def print_table(found: Mapping[str, Trained]) -> None:
    """What has come so far."""
    print(f"{'agent':14} spread  episodes  calls  rows  learned, of these not vLLM's  gap, nats")
    for name, run in found.items():
        counts = f"{run.spread:6.2f}  {run.episodes:8}  {run.calls:5}  {run.rows:4}  {run.learned:7}  {run.unsaid:20}"
        print(f"{name:14} {counts}  {run.gap:.2g}", flush=True)


def main() -> None:
    """Train all, print a table, and end with 1 where one has a fault."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("python", help="interpreter that has the frameworks")
    parser.add_argument("names", nargs="*", metavar="FRAMEWORK", help=f"of {', '.join(AGENTS)}; all by default")
    arguments = parser.parse_args()
    if unknown := set(arguments.names) - AGENTS.keys():
        parser.error(f"no framework {', '.join(sorted(unknown))}; there are {', '.join(AGENTS)}")
    share_cores()
    model = resolve_model(EMBEDDED_MODEL).path
    options = ServerOptions(dtype=DTYPE, max_model_len=MAX_TOKENS, kv_cache_gib=1.0, max_loras=2)
    found: dict[str, Trained] = {}
    with tempfile.TemporaryDirectory() as folder, VllmServer(model, Path(folder) / "server.log", options) as server:
        for name in ("policy alone", *(arguments.names or AGENTS)):
            agent = ("--agent", AGENTS[name], "--agent-python", arguments.python) if name in AGENTS else ()
            with Witness(server.url, server.key) as witness:
                found[name] = train(Path(folder) / name.replace(" ", "-"), witness, *agent)
            print_table(found)
    faults = [f"{name}: {fault}" for name, run in found.items() for fault in run.faults(found["policy alone"].gap)]
    print("\n".join(faults) or "All as it should be")
    sys.exit(bool(faults))


if __name__ == "__main__":
    main()

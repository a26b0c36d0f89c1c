"""Evaluation of the policy in training on held-out tasks: at temperature 1 and greedy, before and after.

The tasks and the sampling seeds depend on ``eval_seed`` alone, so that before and after pair question by question.
A finished evaluation of the same weights is read back instead of repeated.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from typing import Any

import httpx

from grpo.chat import Chat
from grpo.config import TrainConfig
from grpo.display import Bar, Display
from grpo.envs import takes_split
from grpo.evaluate import EvalSpec, evaluate_policy, save_evaluation
from grpo.groups import evaluation_tasks
from grpo.policy import CompletionsPolicy
from grpo.rollout import EnvPool
from grpo.rundir import RunDirectory
from grpo.sampled_tokens import SampledTokens
from grpo.server import PolicyServer
from grpo.types import Task, Trajectory

WithPolicy = Callable[[Callable[[CompletionsPolicy], Any]], Any]
"""Runs an async job with the newest policy."""


BEFORE_AND_AFTER = ("before", "after")


class HeldOut:
    """The held-out side of a run."""

    def __init__(self, config: TrainConfig, run: RunDirectory, chat: Chat, display: Display):
        self.config = config
        self.run = run
        self.chat = chat
        self.display = display
        self.sampled_tokens = SampledTokens(chat)
        self._split = config.eval_split if takes_split(config.env) else ""

    def evaluate(self, when: str, step: int, with_policy: WithPolicy) -> list[dict[str, Any]]:
        """Summaries for the weights of ``step``: ``<when>-sampled`` and, before and after, ``<when>-greedy``."""
        config = self.config
        todo = [spec for spec in self._specs(when) if not self._is_done(spec, step)]
        if todo:
            pool = EnvPool(config.env, {**config.env_kwargs, **({"split": self._split} if self._split else {})})
            tasks = self._tasks(pool)
            if when in BEFORE_AND_AFTER:
                self.display.phase(f"Evaluation {when} GRPO: {_what(tasks, self._split)}")
            for spec in todo:
                self._run(spec, tasks, pool, with_policy)
            pool.close()
        return self.saved(when)

    def saved(self, when: str) -> list[dict[str, Any]]:
        """Summaries that lie in the run directory."""
        paths = [self.run.evaluation(spec.label) for spec in self._specs(when)]
        return [json.loads(path.read_text(encoding="utf-8")) for path in paths if path.exists()]

    def _specs(self, when: str) -> list[EvalSpec]:
        config = self.config
        if config.eval_scenarios == 0:
            return []
        sampled = EvalSpec(f"{when}-sampled", self._split, 1.0, config.eval_samples, config.eval_seed)
        greedy = EvalSpec(f"{when}-greedy", self._split, 0.0, 1, config.eval_seed)
        return [sampled, greedy] if config.eval_greedy and when in BEFORE_AND_AFTER else [sampled]

    def _tasks(self, pool: EnvPool) -> list[Task]:
        episode = pool.take()
        tasks = evaluation_tasks(episode.scenario_ids(), self.config.eval_scenarios, self.config.eval_seed)
        pool.give_back(episode)
        return tasks

    def _run(self, spec: EvalSpec, tasks: list[Task], pool: EnvPool, with_policy: WithPolicy) -> None:
        config = self.config
        with self.display.progress(spec.label, len(tasks) * spec.samples) as bar:
            trajectories, summary = with_policy(_job(config, spec, tasks, pool, self.chat, bar))
        records = [t.to_dict() | {"sampled": self.sampled_tokens.of(t)} for t in trajectories]
        save_evaluation(self.run.evaluation(spec.label), summary, records)

    def _is_done(self, spec: EvalSpec, step: int) -> bool:
        path = self.run.evaluation(spec.label)
        return path.exists() and json.loads(path.read_text(encoding="utf-8"))["policy"] == step


def _what(tasks: list[Task], split: str) -> str:
    """What is evaluated, in the env's terms: scenarios where it names them, else episodes with seeds of their own."""
    noun = "episode" if tasks[0].scenario_id is None else "scenario"
    count = f"{len(tasks)} {noun}{'' if len(tasks) == 1 else 's'}"
    return f"{count} of the {split} split" if split else count


def run_with_policy(
    server: PolicyServer, name: str, chat: Chat, version: int, concurrency: int, job: Callable[[CompletionsPolicy], Any]
) -> Any:
    """Run an async job with a policy whose HTTP client lives as long as the job."""

    async def main() -> Any:
        limits = httpx.Limits(max_connections=concurrency)
        options: dict[str, Any] = {"timeout": 600.0, "limits": limits, "trust_env": server.trust_env}
        async with httpx.AsyncClient(base_url=server.url, **options) as client:
            return await job(CompletionsPolicy(client, name, chat.stop_token_ids, version))

    return asyncio.run(main())


def _job(config: TrainConfig, spec: EvalSpec, tasks: list[Task], pool: EnvPool, chat: Chat, bar: Bar) -> Any:
    def on_done(trajectory: Trajectory) -> None:
        bar.update(1, reward=trajectory.reward, completion_tokens=trajectory.num_sampled_tokens)

    async def job(policy: CompletionsPolicy) -> tuple[list[Trajectory], dict[str, Any]]:
        return await evaluate_policy(
            spec,
            tasks,
            pool=pool,
            chat=chat,
            policy=policy,
            max_turn_tokens=config.max_turn_tokens,
            max_tokens=config.max_tokens,
            concurrency=config.concurrency,
            on_done=on_done,
        )

    return job

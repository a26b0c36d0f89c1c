"""Evaluation of the policy in training on held-out tasks: at temperature 1 and greedy, before and after.

Before GRPO, the policies that the env brings along play the tasks of the greedy evaluation, too, and the model without
an adapter: what a run reaches says little without what a script gets there (`grpo.runs.evaluations`).

The tasks and the sampling seeds depend on ``eval.seed`` alone, so that before and after pair question by question.
During the training other tasks are played (``eval.selection_split``, or other seeds where the env has no splits): by
them the best checkpoint is chosen, and a score on the tasks that chose it would be too good. A finished evaluation of
the same weights is read back instead of repeated.
"""

import asyncio
import time
from collections.abc import Callable, Coroutine, Sequence
from contextlib import ExitStack, closing
from dataclasses import dataclass, replace
from itertools import zip_longest
from typing import Any

from grpo.agents.playing import PolicyAgents
from grpo.agents.scripted import ScriptedAgent
from grpo.chat import Chat
from grpo.config import TrainConfig
from grpo.display.capture import captured, context_full
from grpo.display.metrics import counted
from grpo.display.terminal import Display
from grpo.envs.message_env import MessageEnv
from grpo.envs.pool import EnvPool
from grpo.envs.registry import takes_split
from grpo.envs.workers import EnvWorkers
from grpo.episodes.marking import Marker
from grpo.episodes.player import Agent, Player, planned_episodes
from grpo.episodes.record import write_episodes
from grpo.episodes.summary import failures, summarise
from grpo.episodes.tasks import evaluation_tasks
from grpo.errors import EnvError, JudgeFailure, ServerDiedError
from grpo.runs.directory import RunDirectory
from grpo.runs.evaluations import (
    BASE_MODEL,
    BASELINE,
    BEFORE,
    GREEDY,
    SAMPLED,
    baseline_of,
    is_done,
    is_final,
    label_of,
    planned,
    plays_base_model,
    summaries,
    tasks_of,
)
from grpo.seeds import derive_seed
from grpo.serving.policy import Policy
from grpo.types import Episode, Task
from judges.common.files import write_json


@dataclass(frozen=True, slots=True)
class EvalSpec:
    """What to evaluate: ``samples`` episodes of each of so many ``tasks``.

    ``who`` plays: a policy that is sampled, or one that the env brings along, by its name, which may know the answers.
    ``split`` may be "": none.
    """

    label: str
    who: Policy | str
    split: str
    temperature: float
    tasks: int
    samples: int
    seed: int
    knows_answers: bool = False


class HeldOutEvaluation:
    """The held-out side of a run."""

    def __init__(
        self,
        config: TrainConfig,
        run: RunDirectory,
        chat: Chat,
        agents: PolicyAgents,
        display: Display,
        marker: Marker | None = None,
        workers: EnvWorkers | None = None,
    ):
        self.config = config
        self.run = run
        self.chat = chat
        self.agents = agents
        self.display = display
        self.marker = marker or Marker()
        self.workers = workers
        self._has_splits = takes_split(config.env)

    async def evaluate(
        self, when: str, step: int, policy: Policy, base_model: Policy | None = None
    ) -> list[dict[str, Any]]:
        """Summaries of the ``policy`` of ``step``: sampled and, before and after GRPO, greedy.

        Baselines are played before GRPO; ``base_model`` is the model without an adapter, where it can be sampled.
        """
        config, specs = self.config, self._specs(when, policy)
        if specs and when == BEFORE and config.eval.baselines != "none":
            specs += self._baselines(specs[-1], base_model)
        todo = [spec for spec in specs if not is_done(self.run, spec.label, step)]
        if todo:
            kwargs = self._env_kwargs(todo[0].split)
            with EnvPool(config.env, kwargs, self.workers, home=self.agents.env_thread) as pool:
                tasks = {spec: self._tasks(pool, when, spec) for spec in todo}
                if is_final(when):
                    self.display.phase(f"Evaluation {when} GRPO: {_what(tasks)}")
                if sampled := {spec: tasks[spec] for spec in todo if not isinstance(spec.who, str)}:
                    await self._play(sampled, pool)
            await self._play_scripts({spec: tasks[spec] for spec in todo if isinstance(spec.who, str)})
        return summaries(self.run, config, when)

    def _specs(self, when: str, policy: Policy) -> list[EvalSpec]:
        settings = self.config.eval
        split = settings.split if is_final(when) else settings.selection_split
        split = split if self._has_splits else ""
        seed = settings.seed if is_final(when) else derive_seed(settings.seed, "selection")
        temperatures = {SAMPLED: (1.0, settings.samples), GREEDY: (0.0, 1)}
        return [
            EvalSpec(label_of(when, how), policy, split, temperature, tasks_of(self.config, how), samples, seed)
            for how, (temperature, samples) in temperatures.items()
            if how in planned(self.config, when)
        ]

    def _baselines(self, spec: EvalSpec, base_model: Policy | None) -> list[EvalSpec]:
        """Who else plays the tasks of ``spec``."""
        with closing(MessageEnv(self.config.env, self._env_kwargs(spec.split))) as env:
            others: list[tuple[str, Policy | str, bool]] = [
                (name, name, env.knows_answers(name)) for name in env.scripted_names()
            ]
        if base_model is not None and plays_base_model(self.config):
            others.append((BASE_MODEL, base_model, False))
        spec = replace(spec, temperature=0.0, samples=1)
        return [
            replace(spec, label=label_of(name, BASELINE), who=who, knows_answers=knows) for name, who, knows in others
        ]

    def _env_kwargs(self, split: str) -> dict[str, Any]:
        return self.config.env_kwargs | ({"split": split} if split else {})

    def _tasks(self, pool: EnvPool, when: str, spec: EvalSpec) -> list[Task]:
        """The first ones are the same for all ``spec`` of a time: those of the seed."""
        ids, count = pool.scenario_ids(), spec.tasks
        if ids is not None and (spec.tasks > self.config.eval.scenarios or not is_final(when)):
            count = min(count, len(ids))
        return evaluation_tasks(ids, count, spec.seed)

    async def _play_scripts(self, tasks: dict[EvalSpec, list[Task]]) -> None:
        """Policies of the env's play with the env itself, in this thread, and apart: they cost next to no time."""
        if tasks:
            kwargs = self._env_kwargs(next(iter(tasks)).split)
            with EnvWorkers(stay=True) as workers, EnvPool(self.config.env, kwargs, workers) as pool:
                await self._play(tasks, pool)

    async def _play(self, tasks: dict[EvalSpec, list[Task]], pool: EnvPool) -> None:
        """Play the episodes of all in one pass; write them and then summaries, which say that all is there.

        One pass, because the last episodes of each keep the server waiting for a few long ones; task by task, because
        the server then has the prompt in its cache. The seconds of the pass are shared by the number of episodes.
        """
        gate = asyncio.Semaphore(self.config.rollout.concurrency)
        began = time.monotonic()
        played: dict[EvalSpec, list[asyncio.Task[list[Episode]]]] = {spec: [] for spec in tasks}
        players = {spec: self._player(spec, pool, gate) for spec in tasks}
        with ExitStack() as bars:
            play = {spec: self._playing(spec, len(own), players[spec], bars) for spec, own in tasks.items()}
            for turn in zip_longest(*tasks.values()):
                for spec, task in zip(tasks, turn, strict=True):
                    if task is not None:
                        played[spec].append(asyncio.create_task(play[spec](task)))
            jobs = [job for own in played.values() for job in own]
            try:
                groups = await asyncio.gather(*jobs)
            finally:
                for job in jobs:
                    job.cancel()
        if lost := next((player.lost for player in players.values() if player.lost), None):
            raise ServerDiedError(
                f"the evaluation is not recorded, because episodes were lost with their server; --resume plays it "
                f"again: {lost}"
            )
        seconds = (time.monotonic() - began) / sum(map(len, groups))
        for spec, own in played.items():
            episodes = [episode for job in own for episode in job.result()]
            self._check(spec, episodes)
            about = {"label": spec.label, "split": spec.split, "temperature": spec.temperature, "seed": spec.seed}
            about |= {"knows_answers": True} if spec.knows_answers else {}
            version = 0 if isinstance(spec.who, str) or baseline_of(spec.label) else spec.who.version
            summary = summarise(episodes, seconds * len(episodes), **about, policy=version)
            path = self.run.evaluation(spec.label)
            write_episodes(path.with_suffix(".jsonl"), episodes)
            write_json(path, summary)
            if spec.label == label_of(BEFORE, SAMPLED):  # told before the first step, while little is lost
                for line in [*context_full(episodes, self.config.rollout.max_tokens), *captured(episodes)]:
                    self.display.note(line)

    def _player(self, spec: EvalSpec, pool: EnvPool, gate: asyncio.Semaphore) -> Player:
        settings = self.config.rollout
        if isinstance(spec.who, str):
            agent: Agent = ScriptedAgent(spec.who)
        else:
            agent = self.agents.agent(spec.who, self.chat, spec.temperature)
        return Player(agent, pool, timeout_seconds=settings.timeout, marker=self.marker, gate=gate)

    def _playing(
        self, spec: EvalSpec, tasks: int, player: Player, bars: ExitStack
    ) -> Callable[[Task], Coroutine[Any, Any, list[Episode]]]:
        """What plays ``spec.samples`` episodes of a task; its bar counts those of all ``tasks``."""
        bar = bars.enter_context(self.display.progress(spec.label, tasks * spec.samples))

        def on_done(episode: Episode) -> None:
            bar.update(1, reward=episode.reward, tokens=episode.num_sampled_tokens)

        return lambda task: player.all(planned_episodes([task], spec.samples, "evaluation", spec.seed), on_done=on_done)

    def _check(self, spec: EvalSpec, episodes: Sequence[Episode]) -> None:
        """Refuse an evaluation that says too little, and tell of episodes that failed.

        Raises:
            JudgeFailure: A judge failed on too many answers, or its money is spent: what a rule can decide alone would
                be all that is left.
            EnvError: Every episode failed; the first failure is named.
        """
        unmarked = [episode.unmarked for episode in episodes if episode.unmarked]
        bound = self.config.judge.max_failures
        if len(unmarked) > bound * len(episodes) or (unmarked and self.marker.is_spent):
            raise JudgeFailure(
                f"evaluation {spec.label!r}: {len(unmarked)} of {len(episodes)} episodes have no verdict on their "
                f"answers; the last error: {unmarked[-1]}. Mend the judge and go on with --resume"
            )
        if not any(episode.ending.counted for episode in episodes):
            first = episodes[0].error if episodes else "no episode was asked for"
            raise EnvError(f"evaluation {spec.label!r}: all {len(episodes)} episodes failed; the first: {first}")
        for what in failures(episodes):
            self.display.note(f"{spec.label}: {what}")


def _what(tasks: dict[EvalSpec, list[Task]]) -> str:
    """What is evaluated, in the env's terms: scenarios where it names them, else episodes with seeds of their own."""
    beside = [name for spec in tasks if (name := baseline_of(spec.label))]
    own = {spec: asked for spec, asked in tasks.items() if not baseline_of(spec.label)} or tasks
    (spec, first), *others = own.items()
    noun = "episode" if first[0].scenario_id is None else "scenario"
    what = counted(len(first), noun) + (f" of the {spec.split} split" if spec.split else "")
    what += "".join(f", {len(other)} greedily" for _, other in others if len(other) != len(first))
    return f"{what}; beside it {', '.join(beside)}" if beside else what

"""The training run, from warm start to report, in the order it happens.

    warm start -> evaluation before -> steps of (rollout, reward, advantages, loss, update, publish) -> evaluation after

Every phase leaves its result in the run directory, so a stopped run goes on where it was: a finished phase is skipped,
GRPO goes on from the newest checkpoint. This module computes no gradients (``engine``) and serves no model
(``sampler``); it joins them.
"""

import asyncio
import time
from collections.abc import Callable, Coroutine, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from itertools import islice
from pathlib import Path
from statistics import fmean
from typing import Any, TypeVar

from grpo.agents.playing import PolicyAgents
from grpo.chat import Chat, chat_for, load_tokenizer, served_chat
from grpo.chat.transcript import best_and_worst, transcript
from grpo.config import TrainConfig
from grpo.devices.shape import ModelShape
from grpo.display.terminal import Display
from grpo.envs.pool import EnvPool
from grpo.envs.registry import with_split
from grpo.envs.workers import EnvWorkers
from grpo.episodes.marking import Marker, newest_audits_warning
from grpo.episodes.record import read_episodes, with_transcript, write_episodes
from grpo.episodes.tasks import TaskStream
from grpo.errors import FullGpuError, TrainingError
from grpo.learner.segments import Segment
from grpo.learner.update import computed_rows, update_config, update_policy
from grpo.learner.update_metrics import check_gap, mean_distance
from grpo.machine.background import BackgroundLoop
from grpo.machine.hardware import current_rss_gb
from grpo.machine.models import ResolvedModel
from grpo.runs.checkpoint import Begun, Checkpoints, TrainState, newest_checkpoint
from grpo.runs.diagnosis import FIRST_STEPS, MOVED, diagnose
from grpo.runs.directory import RunDirectory
from grpo.runs.evaluations import AFTER, BEFORE, forget_after, is_final
from grpo.runs.model_card import name_base_model, write_card
from grpo.runs.retention import checkpoint_name, note_score
from grpo.runs.trackers import Tracking
from grpo.runs.trained_policy import init_adapter, run_card
from grpo.seeds import derive_seed
from grpo.serving.sampler import Sampler
from grpo.serving.server import Servers
from grpo.serving.sleep_mode import Turns
from grpo.training.batches import Batches
from grpo.training.engines import backend_of
from grpo.training.first_look import look_at_servers
from grpo.training.held_out import HeldOutEvaluation
from grpo.training.imitation import demonstrations, scripted_episodes, taught_episodes, warm_start
from grpo.training.pace import Began, Clock, estimated_pace
from grpo.training.rewards import group_reward
from grpo.training.unfinished_step import UnfinishedStep
from grpo.types import Episode, Task
from judges.common.files import JsonlLog, link_files

T = TypeVar("T")

FIRST_EPISODES = 8
"""Demonstrations whose length stands for that of the run's episodes."""


class Trainer:
    """One run in one directory against the servers that sample its policy."""

    def __init__(
        self,
        config: TrainConfig,
        run: RunDirectory,
        model: ResolvedModel,
        servers: Servers,
        display: Display,
        tracking: Tracking,
        gflops: float | None = None,
    ):
        self.config = config
        self.run = run
        self.servers = servers
        self.display = display
        self.tracking = tracking
        rollout = config.rollout
        self.chat: Chat = chat_for(load_tokenizer(model.path), rollout.history, rollout.chat_template_kwargs)
        self.model = model
        self.workers = EnvWorkers(rollout.env_workers, config.env_import, display.note)
        self.agents = PolicyAgents(rollout, config.agent, config.agent_python)
        kwargs = with_split(config.env, config.env_kwargs, config.train_split)
        self.pool = EnvPool(config.env, kwargs, self.workers, home=self.agents.env_thread)
        backend = backend_of(config)
        self.engine = backend.engine(model.path, init_adapter(config))
        self.sampler: Sampler = backend.sampler(servers, run.adapters, self.chat.stop_token_ids)
        self.turns = Turns(self.engine, servers)
        self.marker = Marker(config.answer_judge, run.root)
        self.held_out = HeldOutEvaluation(config, run, self.chat, self.agents, display, self.marker, self.workers)
        self.tasks = TaskStream(self.pool.scenario_ids(), config.seed)
        reward = group_reward(config, run.root)
        unfinished = UnfinishedStep(run.partial, rollout.max_staleness)
        self.batches = Batches(
            config, self.pool, self.chat, self.agents, self.tasks, reward, display, unfinished, self.marker
        )
        self.checkpoints = Checkpoints(run.checkpoints, config.keep_checkpoints)
        self._overlap = BackgroundLoop("rollouts") if rollout.max_staleness else None
        self.step = 0
        self.gflops = gflops
        self.clock = Clock(config, run)

    def train(self) -> None:
        """Do what is not done yet."""
        config, display = self.config, self.display
        asyncio.run(self.agents.open())
        if (found := newest_checkpoint(self.run.checkpoints)) is not None:
            folder, state = found
            self.engine.load_state(folder)
            self.step, self.tasks.position = state.step, state.task_position
            forget_after(self.run, self.step)
            self.tasks.again = [Task.of_key(key, seed) for key, seed in state.open_tasks]
            display.note(f"resumed from {folder.name} ({folder})")
            if config.steps != self.run.earlier_steps and config.optimizer.final_lr_share < 1:
                display.note(f"the learning rate falls until step {config.steps} now, not {self.run.earlier_steps}")
        else:
            self._estimate()
            self._warm_start()
            self.checkpoints.finish(self._begin_checkpoint(), self._description())
        self.servers.wait_ready()
        display.note(f"{self.servers.name} is ready")
        self._publish(self.engine.save_adapter)
        if self.step == 0:
            self._evaluate(BEFORE)
        if self._overlap is not None:
            self.pool.close()  # from here on envs are made and stepped in another thread
        self._choose_steps(self.step)
        if self.step < self.config.steps:
            if left := self.clock.describe(self.step, self.config.steps):
                display.note(f"left: {left}")
            self._grpo_steps()
        if config.eval.every:
            self._evaluate(checkpoint_name(self.step))
        if self.step:
            self._evaluate(AFTER)
        self.checkpoints.wait()

    def look_at_servers(self) -> None:
        """Ask servers that somebody else started whether they sample the model that is about to be trained.

        Raises:
            ServerError: One does not, takes no adapter, or does not answer.
        """
        self.sampler.publish(self.engine.save_adapter, self.step)
        where = self.sampler, self.servers, self.engine, self.chat, self.model.path
        look_at_servers(*where, version=self.step, max_gap=self.config.loss.max_gap)

    def close(self) -> None:
        """End what is played and the worker processes, close envs, and wait for the checkpoint."""
        if self._overlap is not None:
            with self._overlap as overlap:
                overlap.run(self.batches.close())
        self.pool.close()
        self.workers.close()
        asyncio.run(self.agents.close())
        self.checkpoints.close()

    # -- phases ------------------------------------------------------------------------------------------------

    def _estimate(self) -> None:
        """Say how long the run will take, from the speed that was measured of this machine."""
        config = self.config
        if self.gflops is None:
            return
        tokens = config.rollout.max_tokens / 2
        if config.warm_start.steps and config.agent is None:
            with self._demonstrations("estimate") as segments:
                tokens = fmean(len(segment.ids) for segment in islice(segments, FIRST_EPISODES))
        estimate = estimated_pace(config, ModelShape.read(self.model.path), self.gflops, tokens)
        self.clock = Clock(config, self.run, estimate)
        self._choose_steps(None)
        left = self.clock.describe(None, self.config.steps)
        self.display.note(f"the run will take {left}, estimated from {self.gflops:.0f} GFLOP/s measured here")

    def _choose_steps(self, step: int | None) -> None:
        """With ``minutes``: how many steps fit, as far as it is known; the run keeps the number."""
        steps = self.clock.steps(step)
        if steps is not None and steps != self.config.steps:
            self.config = self.run.write_config(self.config.model_copy(update={"steps": steps}))
            self.display.note(
                f"in {self.config.minutes:g} minutes fit{'s 1 step' if steps == 1 else f' {steps} steps'}"
            )

    @contextmanager
    def _demonstrations(self, *purpose: str | int) -> Iterator[Iterator[Segment]]:
        config, stream = self.config, TaskStream(self.tasks.scenario_ids, derive_seed(self.config.seed, *purpose))
        if config.agent is None:
            with self.pool.here() as env:
                yield demonstrations(scripted_episodes(env, stream, self.chat, config.warm_start.policy), config)
            return
        where = self.pool.env_id, self.pool.env_kwargs
        with EnvWorkers(stay=True) as workers, EnvPool(*where, workers, home=self.agents.env_thread) as pool:
            yield demonstrations(taught_episodes(self.agents, self.chat, pool, stream, config), config)

    def _warm_start(self) -> None:
        config, settings = self.config, self.config.warm_start
        if settings.steps == 0:
            return
        self.display.phase(f"Warm start: {settings.steps} steps on demonstrations of {settings.teacher}")
        self.run.warm_start_path.unlink(missing_ok=True)
        self.turns.train()
        with (
            JsonlLog(self.run.warm_start_path) as log,
            self._demonstrations("demonstrations") as segments,
            self.display.progress("warm start", settings.steps) as bar,
        ):
            for metrics in warm_start(self.engine, segments, config, settings.steps):
                log.append(metrics)
                self.tracking.log(metrics, int(metrics["step"]), "warmstart/")
                bar.update(1, loss=metrics["loss"])
        self.engine.reset_optimizer()

    def _grpo_steps(self) -> None:
        config = self.config
        groups = f"{config.rollout.groups_per_step} groups of {config.rollout.group_size}"
        about = config.minutes is not None
        self.display.phase(f"GRPO: steps {self.step + 1} to {'about ' if about else ''}{config.steps}, {groups}")
        self._await_checkpoint()
        with JsonlLog(self.run.metrics_path) as log:
            log.truncate_after(self.step)
            damaged: list[str] = []
            for record in self.run.metrics(damaged):
                self.display.step(record, config.steps)
            for what in damaged:
                self.display.note(f"Warning: {what}; it is left out")
            while self.step < self.config.steps:
                if config.eval.every and self.step and self.step % config.eval.every == 0:
                    self._evaluate(checkpoint_name(self.step))
                metrics = self._grpo_step(log)
                self.tracking.log(metrics, self.step)
                self._choose_steps(self.step)
                left = self.clock.left(self.step, self.config.steps)
                self.display.step(metrics, self.config.steps, left_seconds=left, about=about)

    def _grpo_step(self, log: JsonlLog) -> dict[str, float]:
        """One step of GRPO: sample groups, reward them, update the policy, publish the new version.

        The step has happened once its checkpoint is whole, soon after; a run that ends before does it again.
        """
        began = Began.now()
        batch = self._play(self.batches.next(self.step, self.sampler.policy, self.config.steps))
        write_episodes(self.run.trajectories(self.step + 1), batch.sampled)
        if self.config.keep_trajectories is not None:
            self.run.drop_trajectories(self.step + 2 - self.config.keep_trajectories)
        for remark in batch.remarks(self.config.rollout, is_first=self.step == 0):
            self.display.note(f"step {self.step + 1}: {remark}")
        metrics = self._finish_step(log, began, batch.metrics() | self._update(batch.segments))
        so_far = self.run.metrics()
        if metrics.get("answer/audit_disagreement") and (warning := newest_audits_warning(so_far)):
            self.display.note(f"step {self.step}: Warning: {warning}")
        for finding in diagnose(so_far):
            if finding.step == self.step:
                self.display.note(f"step {self.step}: {finding.name}: {finding.text}")
        self._show(batch.sampled)
        return metrics

    def _finish_step(self, log: JsonlLog, began: Began, found: dict[str, float]) -> dict[str, float]:
        """Keep and publish the updated policy, and log what was ``found``; its checkpoint is made whole meanwhile."""
        self.run.check_in_place()
        waits = time.monotonic()
        self._await_checkpoint()
        self.step += 1
        checkpoint = self._begin_checkpoint()
        checkpoint_seconds = time.monotonic() - waits
        publish_seconds = self._publish(partial(link_files, checkpoint.folder))
        metrics = {
            "step": self.step,
            **found,
            "time/checkpoint": checkpoint_seconds,
            "time/publish": publish_seconds,
            "time/step": time.monotonic() - began.seconds,
            "time/cpu": max(0.0, Began.now().cpu_seconds - began.cpu_seconds),
            "mem/trainer_rss_gb": current_rss_gb(),
        }
        log.append(metrics)
        self.checkpoints.finish(checkpoint, self._description())
        return metrics

    def _show(self, sampled: Sequence[Episode]) -> None:
        if self.config.show_every and self.step % self.config.show_every == 0:
            for which, episode in best_and_worst(sampled):
                self.display.note(f"-- step {self.step}, {which} episode")
                for line in transcript(episode):
                    self.display.note(line)
            self.tracking.log_episodes(sampled, self.step, "rollout")

    # -- parts of a step ---------------------------------------------------------------------------------------

    def _play(self, episodes: Coroutine[Any, Any, T]) -> T:
        """Play episodes to their end; with ``rollout.max_staleness`` in a thread in which others go on meanwhile."""
        return asyncio.run(episodes) if self._overlap is None else self._overlap.run(episodes)

    def _update(self, rows: list[Segment]) -> dict[str, float]:
        """Raise the probability of what did better than its group, lower that of what did worse.

        Raises:
            TrainingError: The loss is not finite, or the server samples another policy than the one that is trained.
        """
        update = update_config(self.config, self.step)
        if computed := computed_rows(rows, update.loss.kl_coef):
            self.turns.train()
        began = time.monotonic()
        seed = derive_seed(self.config.seed, "updates", self.step)
        looked_at = computed[:1] if self.step < FIRST_STEPS else []
        before = self.engine.logprobs(looked_at) if looked_at else []
        try:
            with self.display.progress(f"update {self.step + 1}:", len(computed)) as bar:
                metrics = update_policy(self.engine, rows, update, seed=seed, on_rows=bar.update)
            check_gap(metrics, self.config.loss.max_gap, self.step + 1)
            if looked_at:
                metrics[MOVED] = mean_distance(before, self.engine.logprobs(looked_at))
        except FullGpuError:
            raise
        except TrainingError:
            self.batches.unfinished.clear()  # what cannot be learned from must not meet the run again
            raise
        seconds = time.monotonic() - began
        return metrics | {
            "lr": update.learning_rate,
            "time/train": seconds,
            "speed/train_tokens_per_second": sum(len(row.ids) for row in computed) / seconds,
        }

    def _publish(self, save: Callable[[Path], None]) -> float:
        self.turns.sample()
        began = time.monotonic()  # a server that slept has woken up, as the learner has where its seconds begin
        self.sampler.publish(save, self.step)
        return time.monotonic() - began

    def _evaluate(self, when: str) -> None:
        """Evaluate the newest policy; between steps, note whether its checkpoint is the best so far."""
        self._await_checkpoint()
        self.run.check_in_place()
        found = self._play(self._evaluated(when))
        if found:
            if not is_final(when):
                note_score(self.run.checkpoints, self.step, found[0]["metrics"]["reward/mean"]["mean"])
            self._description()(self.run.checkpoints / checkpoint_name(self.step))
        for summary in found:  # last: a tracker may be slow, and a run that ends meanwhile has its card
            played = read_episodes(self.run.evaluation(summary["label"]).with_suffix(".jsonl"), transcripts=False)
            shown = [with_transcript(episode) for _, episode in best_and_worst(list(played))]
            self.tracking.log_evaluation(summary, self.step, shown)

    async def _evaluated(self, when: str) -> list[dict[str, Any]]:
        async with self.sampler.policy(self.step) as policy, self.sampler.base_model() as base_model:
            return await self.held_out.evaluate(when, self.step, policy, base_model)

    # -- checkpoints -------------------------------------------------------------------------------------------

    def _begin_checkpoint(self) -> Begun:
        """The adapter on disk, with the base model under its public name, and a copy of the rest."""
        state = TrainState(self.step, self.tasks.position, [(task.key, task.seed) for task in self.batches.open_tasks])
        begun = self.checkpoints.begin(self.engine, state)
        name_base_model(begun.folder, self.model.public_name)
        return begun

    def _await_checkpoint(self) -> None:
        """Wait until the newest step has happened; what it learned from is not needed any more."""
        self.checkpoints.wait()
        self.batches.unfinished.finish(self.step)

    def _description(self) -> Callable[[Path], None]:
        """Writes a model card with the held-out scores so far."""
        card = run_card(self.run, self.config, self.model.public_name, self.step)
        return partial(write_card, card=card, served=served_chat(self.chat))

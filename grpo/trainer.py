"""The training run, from warm start to report, in the order it happens.

    warm start -> evaluation before -> steps of (rollout, reward, advantages, loss, update, publish) -> evaluation after

Every phase leaves its result in the run directory, so a stopped run goes on where it was: a finished phase is skipped,
GRPO goes on from the newest checkpoint. This module computes no gradients (``engine``) and serves no model
(``server``); it joins them.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from grpo.adapters import AdapterStore
from grpo.batches import Batches
from grpo.card import name_base_model, write_card
from grpo.chat import Chat, chat_for, load_tokenizer, served_chat
from grpo.checkpoint import TrainState, build_checkpoint, commit_checkpoint, newest_checkpoint
from grpo.config import TrainConfig
from grpo.demonstrations import record_of
from grpo.display import Display
from grpo.engine.local import LocalEngine, LoraSpec
from grpo.envs import Episode, takes_split
from grpo.errors import EnvError, TrainingError
from grpo.finished import FinishedGroups
from grpo.groups import TaskStream
from grpo.handover import init_adapter, run_card
from grpo.heldout import HeldOut, run_with_policy
from grpo.metrics import JsonlLog, current_rss_gb, read_jsonl
from grpo.models import ResolvedModel
from grpo.policy import CompletionsPolicy
from grpo.retention import checkpoint_name, note_score
from grpo.rewards import group_reward
from grpo.rollout import EnvPool
from grpo.rundir import RunDirectory, write_jsonl
from grpo.sampled_tokens import SampledTokens
from grpo.seeds import derive_seed
from grpo.segments import Segment
from grpo.server import PolicyServer
from grpo.sft import demonstrations, warm_start
from grpo.tracking import Tracking
from grpo.transcript import best_and_worst, transcript
from grpo.types import Trajectory
from grpo.update import UpdateConfig, check_gap, computed_rows, learning_rate, loss_config, schedule_note, update_policy


class Trainer:
    """One run in one directory against one policy server."""

    def __init__(
        self,
        config: TrainConfig,
        run: RunDirectory,
        model: ResolvedModel,
        server: PolicyServer,
        display: Display,
        tracking: Tracking,
    ):
        self.config = config
        self.run = run
        self.server = server
        self.display = display
        self.tracking = tracking
        self.chat: Chat = chat_for(load_tokenizer(model.path), config.history, config.chat_template_kwargs)
        self.sampled_tokens = SampledTokens(self.chat)
        self.model = model
        split = {"split": config.train_split} if takes_split(config.env) else {}
        self.pool = EnvPool(config.env, {**split, **config.env_kwargs})
        self.engine = LocalEngine(
            model.path,
            LoraSpec(config.lora_rank, config.lora_alpha),
            seed=config.seed,
            device=config.device,
            threads=config.threads,
            token_budget=config.token_budget,
            init_adapter=init_adapter(config),
        )
        self.held_out = HeldOut(config, run, self.chat, display)
        self.tasks = TaskStream(self._scenario_ids(), config.seed)
        reward = group_reward(config, run.root)
        finished = FinishedGroups(run.partial)
        self.batches = Batches(config, self.pool, self.chat, self.tasks, reward, display, finished)
        self.step = 0

    def train(self) -> list[dict[str, Any]]:
        """Do what is not done yet; returns the evaluations' summaries, before and after."""
        config, display = self.config, self.display
        found = newest_checkpoint(self.run.checkpoints)
        if found is not None:
            folder, state = found
            self.engine.load_state(folder)
            self.step, self.tasks.position = state.step, state.task_position
            display.note(f"resumed from {folder.name} ({folder})")
            if self.run.earlier_steps is not None and (
                note := schedule_note(config, self.run.earlier_steps, state.step)
            ):
                display.note(note)
        else:
            self._warm_start()
            commit_checkpoint(self._build_checkpoint(), config.keep_checkpoints)
        seconds = self.server.wait_ready()
        display.note(f"vLLM is ready ({seconds:.0f} s after its start)")
        self.adapters = AdapterStore(self.server, self.run.adapters)
        self._publish()
        if self.step == 0:
            self._evaluate("before")
        if self.step < config.steps:
            self._grpo_steps()
        return self.held_out.saved("before") + self._evaluate("after")

    def close(self) -> None:
        """Close the envs."""
        self.pool.close()

    # -- phases ------------------------------------------------------------------------------------------------

    def _warm_start(self) -> None:
        config = self.config
        if config.warm_start_steps == 0:
            return
        self.display.phase(f"Warm start: {config.warm_start_steps} steps on {config.warm_start_policy} demonstrations")
        self.run.warm_start_path.unlink(missing_ok=True)
        stream = TaskStream(self.tasks.scenario_ids, derive_seed(config.seed, "demonstrations"))
        episode = self.pool.take()
        segments = demonstrations(episode, stream, self.chat, config.warm_start_policy, config.max_tokens)
        bar = self.display.progress("warm start", config.warm_start_steps)
        with JsonlLog(self.run.warm_start_path) as log:

            def on_step(metrics: dict[str, float]) -> None:
                log.append(metrics)
                self.tracking.log(metrics, int(metrics["step"]), "warmstart/")
                bar.update(1, loss=metrics["loss"])

            warm_start(
                self.engine,
                segments,
                steps=config.warm_start_steps,
                batch_size=config.warm_start_batch,
                peak_learning_rate=config.warm_start_learning_rate,
                max_grad_norm=config.max_grad_norm,
                on_step=on_step,
            )
        bar.close()
        self.pool.give_back(episode)
        self.engine.reset_optimizer()

    def _grpo_steps(self) -> None:
        config = self.config
        self.display.phase(
            f"GRPO: steps {self.step + 1} to {config.steps}, {config.groups_per_step} groups of {config.group_size}"
        )
        with JsonlLog(self.run.metrics_path) as log:
            log.truncate_after(self.step)
            for record in read_jsonl(self.run.metrics_path):
                self.display.step(record, config.steps)
            while self.step < config.steps:
                if config.eval_every and self.step and self.step % config.eval_every == 0:
                    self._evaluate(checkpoint_name(self.step))
                metrics = self._grpo_step(log)
                self.tracking.log(metrics, self.step)
                self.display.step(metrics, config.steps)

    def _grpo_step(self, log: JsonlLog) -> dict[str, float]:
        """One step of GRPO: sample groups, reward them, update the policy, hand the new version to the server.

        The step has happened once its checkpoint is committed; a run that ends before does it again.
        """
        began = time.monotonic()
        batch = self.batches.next(self.step, self._with_policy)
        records = [record_of(t) | {"sampled": self.sampled_tokens.of(t)} for t in batch.sampled]
        write_jsonl(self.run.trajectories(self.step + 1), records)
        for remark in batch.remarks(self.config.max_tokens):
            self.display.note(f"step {self.step + 1}: {remark}")
        trained = time.monotonic()
        loss_metrics = self._update(batch.segments)
        try:
            check_gap(loss_metrics, self.config.max_gap, self.step + 1)
        except TrainingError:
            self.batches.finished.clear()  # what a wrong server sampled must not meet the run again
            raise
        published = time.monotonic()
        self.step += 1
        checkpoint = self._build_checkpoint()
        publish_seconds = self._publish()
        trained_tokens = sum(len(row.ids) for row in computed_rows(batch.segments, loss_config(self.config)))
        metrics = {
            "step": self.step,
            **batch.metrics(),
            **loss_metrics,
            "staleness": 0.0,
            "time/rollout": batch.seconds,
            "time/train": published - trained,
            "time/publish": publish_seconds,
            "time/step": time.monotonic() - began,
            "speed/sample_tokens_per_second": sum(t.num_sampled_tokens for t in batch.sampled) / batch.seconds,
            "speed/train_tokens_per_second": trained_tokens / (published - trained),
            "mem/trainer_rss_gb": current_rss_gb() or 0.0,
        }
        log.append(metrics)
        commit_checkpoint(checkpoint, self.config.keep_checkpoints)
        self.batches.finished.clear()
        self._show(batch.sampled)
        return metrics

    def _show(self, sampled: Sequence[Trajectory]) -> None:
        if self.config.show_every and self.step % self.config.show_every == 0:
            for which, trajectory in best_and_worst(sampled):
                self.display.note(f"-- step {self.step}, {which} episode")
                for line in transcript(trajectory):
                    self.display.note(line)

    # -- parts of a step ---------------------------------------------------------------------------------------

    def _update(self, rows: list[Segment]) -> dict[str, float]:
        config = self.config
        update = UpdateConfig(
            config.updates_per_step,
            learning_rate(self.step, config.steps, config.learning_rate, config.lr_warmup_steps, config.lr_final),
            config.max_grad_norm,
            loss_config(config),
        )
        bar = self.display.progress(f"update {self.step + 1}:", len(computed_rows(rows, update.loss)))
        metrics = update_policy(
            self.engine, rows, update, seed=derive_seed(config.seed, "updates", self.step), on_rows=bar.update
        )
        bar.close()
        return metrics | {"lr": update.learning_rate}

    def _evaluate(self, when: str) -> list[dict[str, Any]]:
        """Evaluate the newest weights, and note whether their checkpoint is the best so far."""
        summaries = self.held_out.evaluate(when, self.step, self._with_policy)
        for summary in summaries:
            self.tracking.log_evaluation(summary, self.step)
        if summaries:
            note_score(self.run.checkpoints, self.step, summaries[0]["metrics"]["reward"]["mean"])
            self._describe(self.run.checkpoints / checkpoint_name(self.step))
        return summaries

    # -- hand-over ---------------------------------------------------------------------------------------------

    def _publish(self) -> float:
        began = time.monotonic()
        self.adapters.publish(self.engine.save_adapter, self.step)
        return time.monotonic() - began

    def _build_checkpoint(self) -> Path:
        state = TrainState(self.step, self.tasks.position)
        return build_checkpoint(self.run.checkpoints, self.engine, state, self._describe)

    def _describe(self, checkpoint: Path) -> None:
        """A model card with the held-out scores so far, and the base model under its public name."""
        name_base_model(checkpoint, self.model.public_name)
        card = run_card(self.run, self.config, self.model.public_name, self.step)
        write_card(checkpoint, card, served_chat(self.chat))

    def _with_policy(self, job: Callable[[CompletionsPolicy], Any]) -> Any:
        """Run an async job with a policy bound to the newest adapter; once more where vLLM had to be restarted."""
        concurrency = self.config.concurrency
        with self.adapters.using() as adapter:
            try:
                result = run_with_policy(self.server, adapter.name, self.chat, self.step, concurrency, job)
            except EnvError:  # every episode failed: the server's fault if it has ended, the env's otherwise
                if not self.server.recover():
                    raise
            else:
                if not self.server.recover():
                    return result
            self.display.note("vLLM had ended and was restarted; its work is repeated")
            return run_with_policy(self.server, adapter.name, self.chat, self.step, concurrency, job)

    def _scenario_ids(self) -> list[str] | None:
        episode: Episode = self.pool.take()
        try:
            return episode.scenario_ids()
        finally:
            self.pool.give_back(episode)

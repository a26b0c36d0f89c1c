"""The arm ``trl``: steps of TRL's ``GRPOTrainer``, with its own generation, on the CPU.

TRL generates (transformers, no vLLM), pads, computes loss and gradient, steps its optimizer and writes its checkpoint.
Ours are the env's turns between two generations, as TRL's ``rollout_func`` asks for them, and all that is no step: the
adapter is copied into the engine after each, and the trainer keeps, publishes and evaluates it as in every arm. A run
that was stopped goes on from TRL's own checkpoint of the last step that was kept.

TRL's ``environment_factory`` would play other episodes than this env's: there a call that cannot be run ends one, a
final answer does not, and it refuses SmolLM2's chat template, which shows no tool calls.
"""

import os
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import torch
from transformers import TrainerCallback

from grpo.agents.policy import most_tokens
from grpo.chat import Chat, load_tokenizer
from grpo.chat.tree import CallTree, Prompt
from grpo.config import TrainConfig
from grpo.envs.message_env import MessageEnv
from grpo.envs.pool import Seat
from grpo.envs.step_cost import Place
from grpo.episodes.play import Play, Turn
from grpo.episodes.player import ending_of
from grpo.episodes.record import write_episodes
from grpo.errors import ConfigError, ContextFullError
from grpo.learner.advantages import has_spread
from grpo.learner.local_engine import LocalEngine
from grpo.runs.retention import checkpoint_name
from grpo.serving.policy import SamplingParams
from grpo.settings import RolloutSettings
from grpo.training.batch import Batch
from grpo.training.pace import Began
from grpo.training.trainer import Trainer
from grpo.types import Episode, Group
from judges.common.files import JsonlLog

Sample = Callable[[list[list[int]]], list[list[int]]]
"""Prompts to what is sampled after each, with the token that ends a turn."""


class Trl(Trainer):
    """Takes its steps with TRL."""

    def _grpo_steps(self) -> None:
        folder = self.run.root / "trl"
        self.engine.save_adapter(folder / "start")
        trl = grpo_trainer(self.config, self.model.path, self.chat, folder / "start", self.rollout)
        rollout = self.config.rollout
        self.display.phase(f"TRL: from step {self.step + 1}, {rollout.groups_per_step} groups of {rollout.group_size}")
        with JsonlLog(self.run.metrics_path) as log:
            log.truncate_after(self.step)
            trl.add_callback(Steps(self, log))
            trl.train(resume_from_checkpoint=str(folder / f"checkpoint-{self.step}") if self.step else None)

    def rollout(self, prompts: Sequence[str], trl: Any) -> dict[str, Any]:
        """TRL's ``rollout_func``: the step's episodes; ``prompts`` only say how many.

        An episode is one row: its first prompt, and all that follows; ``env_mask`` is 1 for what was sampled.

        Raises:
            ConfigError: The chat template rewrites what was said, so that an episode is more than a row.
        """
        began, settings = time.monotonic(), self.config.rollout

        def sample(prompts: list[list[int]]) -> list[list[int]]:
            return trl._generate_single_turn(prompts, None, {}, 1)[0]  # as TRL's own loop of tool calls does

        tasks = self.tasks.take(settings.groups_per_step)
        groups = [
            [Episode(self.pool.env_id, task, number, self.step) for number in range(settings.group_size)]
            for task in tasks
        ]
        episodes = [episode for group in groups for episode in group]
        with ExitStack() as taken:
            envs = [taken.enter_context(self.pool.here()) for _ in episodes]
            play(sample, envs, episodes, self.chat, settings)
        if any(episode.num_forks for episode in episodes):
            raise ConfigError(
                "the model's chat template rewrites earlier turns, and TRL learns from one row an episode; "
                "--set rollout.history=append"
            )
        self.batch = batch_of(groups, time.monotonic() - began)
        write_episodes(self.run.trajectories(self.step + 1), episodes)
        return rows_of(episodes)

    def evaluate_if_due(self) -> None:
        """Evaluate what the last step made, where an evaluation follows it."""
        every = self.config.eval.every
        if every and self.step and self.step % every == 0:
            self._evaluate(checkpoint_name(self.step))

    def take_over(self, log: JsonlLog, began: Began, trained: torch.nn.Module, logged: dict[str, float]) -> bool:
        """Keep, publish and log what a step of TRL made; says whether it was the run's last."""
        assert isinstance(self.engine, LocalEngine), "check_trl() refuses the others"
        copy_adapter(trained, self.engine.model)
        found = self.batch.metrics()
        found["time/train"] = time.monotonic() - began.seconds - found["time/rollout"]
        metrics = self._finish_step(
            log, began, found | {"loss/grad_norm": logged["grad_norm"], "lr": logged["learning_rate"]}
        )
        self.tracking.log(metrics, self.step)
        self._choose_steps(self.step)
        left = self.clock.left(self.step, self.config.steps)
        self.display.step(metrics, self.config.steps, left_seconds=left, about=self.config.minutes is not None)
        return self.step >= self.config.steps


class Steps(TrainerCallback):
    """Says when a step of TRL begins, and when its checkpoint is written."""

    def __init__(self, trainer: Trl, log: JsonlLog):
        self.trainer, self.log = trainer, log

    def on_step_begin(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        self.trainer.evaluate_if_due()
        self.began = Began.now()

    def on_save(self, args: Any, state: Any, control: Any, *, model: torch.nn.Module, **_: Any) -> None:
        logged = state.log_history[-1]
        control.should_training_stop = self.trainer.take_over(self.log, self.began, model, logged)


def grpo_trainer(config: TrainConfig, model: Path, chat: Chat, adapter: Path, rollout: Callable[..., Any]) -> Any:
    """TRL's trainer of ``adapter``, which writes its checkpoints beside it. What is not set is as TRL comes."""
    os.environ.setdefault("TRL_EXPERIMENTAL_SILENCE", "1")  # rollout_func is experimental
    from trl import import_utils

    import_utils.is_vllm_available = lambda *args, **kwargs: False  # it would import vLLM and use none of it
    from datasets import Dataset
    from peft import PeftModel
    from transformers import AutoModelForCausalLM, PrinterCallback
    from transformers.utils import logging
    from trl import GRPOConfig, GRPOTrainer

    logging.set_verbosity_error()
    settings = config.rollout
    arguments = GRPOConfig(
        str(adapter.parent),
        seed=config.seed,
        use_cpu=True,
        bf16=config.dtype == "bfloat16",
        per_device_train_batch_size=settings.group_size,  # a group is a batch, its groups one update
        gradient_accumulation_steps=settings.groups_per_step,
        num_generations=settings.group_size,
        temperature=settings.temperature,
        generation_kwargs={"max_new_tokens": settings.max_turn_tokens},
        learning_rate=config.optimizer.learning_rate,
        lr_scheduler_type="constant",
        max_grad_norm=config.optimizer.gradient_bound,
        max_steps=1_000_000,  # take_over() says when it is enough
        save_steps=1,
        save_total_limit=2,
        logging_steps=1,
        report_to="none",
        disable_tqdm=True,
    )
    base = AutoModelForCausalLM.from_pretrained(str(model), dtype=getattr(torch, config.dtype))
    base.generation_config.eos_token_id = chat.stop_token_ids
    trl = GRPOTrainer(
        PeftModel.from_pretrained(base, str(adapter), is_trainable=True),
        reward_funcs=lambda completions, env_reward, **_: env_reward,
        args=arguments,
        train_dataset=Dataset.from_list([{"prompt": "?"}] * settings.groups_per_step),
        processing_class=load_tokenizer(model),
        rollout_func=rollout,
    )
    trl.remove_callback(PrinterCallback)
    return trl


def play(
    sample: Sample, envs: Sequence[MessageEnv], episodes: Sequence[Episode], chat: Chat, settings: RolloutSettings
) -> None:
    """Play the episodes to their end, a turn of all at once, within the limits of `grpo.agents.policy.PolicyAgent`."""
    asked: list[tuple[Play, CallTree, Prompt]] = []
    sampling = SamplingParams(max_turn_tokens=settings.max_turn_tokens)

    def ask(play: Play, tree: CallTree) -> None:
        prompt = tree.following(play.episode.messages, play.episode.tools)
        full = None
        try:
            most_tokens(prompt, sampling, settings.max_tokens)
        except ContextFullError as error:
            full = error
        if play.is_over or full:
            play.episode.ending, _ = ending_of(play, full)
        else:
            asked.append((play, tree, prompt))

    for env, episode in zip(envs, episodes, strict=True):
        play = Play(episode, Seat(Place.LOOP, lambda env=env: env))
        play.begin()
        ask(play, CallTree(chat, episode))
    while asked:
        playing, asked = asked, []
        for (play, tree, prompt), turn in zip(playing, sample([prompt.ids for _, _, prompt in playing]), strict=True):
            ids = turn[: settings.max_tokens - len(prompt.ids)]
            tree.said(prompt, ids, [0.0] * len(ids))
            play.take(Turn(chat.decode(ids)))
            ask(play, tree)


def rows_of(episodes: Sequence[Episode]) -> dict[str, Any]:
    """What TRL asks of a ``rollout_func``; ``env_reward`` goes on to the reward function."""
    rows = [(row, len(episode.calls[0].prompt_ids)) for episode in episodes for row in episode.rows()]
    return {
        "prompt_ids": [row.ids[:start] for row, start in rows],
        "completion_ids": [row.ids[start:] for row, start in rows],
        "env_mask": [[int(call is not None) for call in row.calls[start:]] for row, start in rows],
        "logprobs": None,  # TRL has none of its own generation
        "env_reward": [episode.reward for episode in episodes],
    }


def batch_of(groups: Sequence[Sequence[Episode]], seconds: float) -> Batch:
    """The step's groups for its metrics. TRL learns from all episodes, those that were cut too."""
    rewarded = [Group(group[0].task, list(group)) for group in groups]
    used = [group for group in rewarded if has_spread(group.rewards)]
    return Batch(
        used,
        rewarded,
        segments=[],
        sampled=[episode for group in groups for episode in group],
        dropped=len(rewarded) - len(used),
        unrewarded=0,
        stale=0,
        seconds=seconds,
        sampling_seconds=seconds,
    )


@torch.no_grad()
def copy_adapter(trained: torch.nn.Module, into: torch.nn.Module) -> None:
    """Copy the weights that are trained, by their names."""
    found = {name: weight for name, weight in trained.named_parameters() if weight.requires_grad}
    mine = {name: weight for name, weight in into.named_parameters() if weight.requires_grad}
    assert found.keys() == mine.keys(), "both are peft's form of one model"
    for name, weight in mine.items():
        weight.copy_(found[name])

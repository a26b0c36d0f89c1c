"""A warm start on its own: demonstrations become an adapter, which ``grpo-train`` can start from.

`demonstrations` turns episodes and chats into token ids and `imitation` learns them; ``grpo-sft`` is the command.
"""

import math
import random
from collections.abc import Iterator, Sequence
from contextlib import closing
from dataclasses import replace
from itertools import islice
from pathlib import Path
from typing import Any

from grpo.chat import served_chat
from grpo.config import TrainConfig, dotted
from grpo.devices.plan import plan_gpus
from grpo.devices.shape import ModelShape
from grpo.display.terminal import Display
from grpo.envs.message_env import MessageEnv
from grpo.envs.registry import with_split
from grpo.episodes.store import FILE_NAME
from grpo.episodes.tasks import TaskStream
from grpo.learner.engine import Engine
from grpo.learner.lora_model import usable_device
from grpo.learner.segments import Segment
from grpo.machine.models import resolve_model
from grpo.runs.model_card import Card, name_base_model, write_card
from grpo.runs.trained_policy import init_adapter, saved_config
from grpo.seeds import derive_seed
from grpo.training.demonstrations import Choice, Demonstrations, from_episodes
from grpo.training.engines import backend_of
from grpo.training.first_look import check_before_start
from grpo.training.imitation import is_kept, scripted_episodes, warm_start
from judges.common.files import JsonlLog


class SupervisedFineTuning:
    """Collects demonstrations from one source, then imitates them.

    Args:
        config: Model, LoRA, limits and the settings of ``warm_start``.
        display: Shows how it goes.

    Attributes:
        found: The demonstrations, and how many were left out.

    Raises:
        ConfigError: The GPU that is asked for is not there, or the learner does not fit on it.
        ModelError: The model cannot be used.
    """

    def __init__(self, config: TrainConfig, display: Display):
        self.config = config
        self.display = display
        self.model = resolve_model(config.model)
        self.chat = check_before_start(config, self.model.path)
        if config.device == "cuda":  # before the demonstrations, which may take long
            plan_gpus(without_servers(config), ModelShape.read(self.model.path))
            usable_device(config.device)
        self.found = Demonstrations(config.rollout.max_tokens)

    def play_policy(self, name: str, episodes: int) -> None:
        """Have a policy that the env brings along play episodes; its successes are imitated, or all that it does."""
        config = self.config
        self.display.phase(f"{episodes} demonstrations of {name}")
        kwargs = with_split(config.env, config.env_kwargs, config.train_split)
        with closing(MessageEnv(config.env, kwargs)) as env, self.display.progress("demonstrations", episodes) as bar:
            tasks = TaskStream(env.scenario_ids(), derive_seed(config.seed, "demonstrations"))
            for episode in islice(scripted_episodes(env, tasks, self.chat, name), episodes):
                if is_kept(episode, config):
                    self.found.add(episode.task.key, episode)
                else:
                    self.found.left_out["no success"] += 1
                bar.update()

    def read_run(self, run: Path, choice: Choice) -> None:
        """Take the best episodes of a run, or of an evaluation; where none are chosen, the best of each scenario."""
        if choice == Choice(reward=choice.reward) and self.config.warm_start.keep == "rewarded":
            choice = replace(choice, best_per_scenario=1)
        evaluated = run / FILE_NAME
        from_episodes(
            self.found,
            [evaluated] if evaluated.exists() else sorted((run / "trajectories").glob("*.jsonl")),
            self.chat,
            same_model=not evaluated.exists() and form_of(saved_config(run)) == form_of(self.config),
            learn_auxiliary=self.config.rollout.learn_auxiliary,
            choice=choice,
        )

    def train(
        self, folder: Path, name: str, source: str, *, steps: int | None, epochs: float, validation: float
    ) -> tuple[int, list[float]]:
        """Imitate what was collected, and write the adapter with its model card.

        Args:
            folder: Gets the adapter.
            name: Of the adapter, for its card.
            source: Where the demonstrations come from, for the card.
            steps: Optimizer steps.
            epochs: Passes over the demonstrations, where ``steps`` is not given.
            validation: Share of the tasks that are held out.

        Returns:
            The number of steps, and the validation losses in nats a token: before, after each epoch and at the end.

        Raises:
            DataError: There is nothing to train on.
        """
        config = self.config
        rows, held_out = self.found.split(validation, config.seed)
        total = steps or max(1, math.ceil(epochs * len(rows) / config.warm_start.batch))
        losses = self._imitate(rows, held_out, total, folder)
        base = self.model.public_name
        name_base_model(folder, base)
        groups = {"rollout": {"max_tokens"}, "lora": True, "warm_start": {"batch", "learning_rate"}}
        used = dict.fromkeys(("env", "env_kwargs", "seed", "model"), True) | groups
        settings = dotted(config.model_dump(mode="json", include=used))
        task = f"{config.env}, {source}" if config.env else source
        write_card(
            folder, Card(name, base, config.model, "SFT", task, total, settings=settings), served_chat(self.chat)
        )
        return total, losses if held_out else []

    def _imitate(self, rows: Sequence[Segment], held_out: Sequence[Segment], steps: int, folder: Path) -> list[float]:
        """Write the adapter and ``metrics.jsonl``; returns the validation losses."""
        config, batch = self.config, self.config.warm_start.batch
        self.display.phase(f"Imitation: {steps} steps of {batch}, rows: {len(rows)}")
        engine = backend_of(without_servers(config)).engine(self.model.path, init_adapter(config))
        epoch_steps = max(1, len(rows) // batch)
        losses = [validation_loss(engine, held_out)]
        with JsonlLog(folder / "metrics.jsonl") as log, self.display.progress("sft", steps) as bar:
            log.append({"step": 0, "validation/loss": losses[0]})
            for metrics in warm_start(engine, _shuffled_forever(rows, config.seed), config, steps):
                if metrics["step"] % epoch_steps == 0 or metrics["step"] == steps:
                    losses.append(validation_loss(engine, held_out))
                    metrics["validation/loss"] = losses[-1]
                log.append(metrics)
                bar.update(1, loss=metrics["loss"])
        engine.save_adapter(folder)
        return losses


def without_servers(config: TrainConfig) -> TrainConfig:
    """For a learner alone: nothing is sampled, so no server takes its part of the GPU."""
    return config.model_copy(update={"server": config.server.model_copy(update={"urls": (), "replicas": 0})})


def validation_loss(engine: Engine, rows: Sequence[Segment]) -> float:
    """Mean negative log-probability of the rows' action tokens, in nats; NaN without rows."""
    logprobs = [value for values in engine.logprobs(rows) for value in values]
    return -math.fsum(logprobs) / len(logprobs) if logprobs else math.nan


def _shuffled_forever(rows: Sequence[Segment], seed: int) -> Iterator[Segment]:
    order = random.Random(derive_seed(seed, "imitation"))
    while True:
        yield from order.sample(rows, len(rows))


def form_of(config: TrainConfig) -> tuple[str, str, dict[str, Any]]:
    """What decides which token ids an episode has."""
    model = Path(config.model).expanduser()
    name = str(model.resolve()) if model.exists() else config.model
    return name, config.rollout.history, config.rollout.chat_template_kwargs

"""The arms with steps of their own: everything else is the trainer's, checkpoints, ``--resume``, evaluations, metrics.

They do not reinforce. Their steps imitate the policy of the warm start, in as many demonstrations as a GRPO step has
rollouts, and one pass over as many rows, in batches of ``warm_start.batch`` at the learning rate of ``optimizer``.

imitation   fresh demonstrations, played by the policy of the warm start from the first turn on; no rollouts
dagger      the policy in training plays the step's rollouts; in each, from a random turn on, the policy of the warm
            start takes over, and its turns are imitated (DAgger, arXiv 1011.0686, algorithm 3.1; there the expert says
            what it would do in every state of the learner and does not go on from it). Rows are drawn from those of all
            steps so far. They are made again from the run's trajectories when a run goes on.
"""

import math
import random
import time
from collections.abc import Iterable, Sequence
from itertools import islice
from typing import Any

from grpo.episodes.record import read_episodes, write_episodes
from grpo.errors import TrainingError
from grpo.learner.engine import LossSpec
from grpo.learner.segments import Segment, segments_of
from grpo.learner.update import scheduled_learning_rate
from grpo.seeds import derive_seed
from grpo.training.imitation import demonstrate
from grpo.training.pace import Began
from grpo.training.trainer import Trainer
from grpo.types import Episode
from judges.common.files import JsonlLog


class Imitation(Trainer):
    """Imitates fresh demonstrations."""

    def _grpo_step(self, log: JsonlLog) -> dict[str, float]:
        began = Began.now()
        with self._demonstrations("imitation", self.step) as fresh:
            rows = list(islice(fresh, self._count))
        return self._finish_step(log, began, {"time/rollout": 0.0, **self._imitate(rows)})

    @property
    def _count(self) -> int:
        """Demonstrations of a step."""
        return self.config.rollout.groups_per_step * self.config.rollout.group_size

    def _imitate(self, rows: Sequence[Segment]) -> dict[str, float]:
        """A pass over the rows; returns what is logged of it."""
        config, began = self.config, time.monotonic()
        rate = scheduled_learning_rate(self.step, config.steps, config.optimizer)
        losses: list[float] = []
        size = config.warm_start.batch
        with self.display.progress(f"imitation {self.step + 1}:", len(rows)) as bar:
            for batch in (rows[at : at + size] for at in range(0, len(rows), size)):
                spec = LossSpec("imitation", normalizer=sum(row.num_actions for row in batch))
                loss = math.fsum(row.loss for row in self.engine.forward_backward(batch, spec, bar.update))
                if not math.isfinite(loss):
                    raise TrainingError(f"the loss of imitation is {loss} in step {self.step + 1}")
                losses.append(loss)
                self.engine.optim_step(rate, config.optimizer.gradient_bound)
        return {
            "loss/imitation": math.fsum(losses) / len(losses) if losses else 0.0,
            "tokens/imitated": float(sum(len(row.ids) for row in rows)),
            "lr": rate,
            "time/train": time.monotonic() - began,
        }


class Dagger(Imitation):
    """Imitates what the policy of the warm start does behind turns of the policy in training."""

    def __init__(self, *arguments: Any):
        super().__init__(*arguments)
        self._rows: list[Segment] = []
        self._read = 0  # steps whose episodes have their rows here

    def _grpo_step(self, log: JsonlLog) -> dict[str, float]:
        began = Began.now()
        batch = self._play(self.batches.next(self.step, self.sampler.policy, self.config.steps))
        write_episodes(self.run.trajectories(self.step + 1), batch.sampled)
        while self._read <= self.step:
            self._read += 1
            self._rows += self._taken_over(read_episodes(self.run.trajectories(self._read)))
        order = random.Random(derive_seed(self.config.seed, "dagger", self.step))
        rows = order.sample(self._rows, min(self._count, len(self._rows)))
        found = {"dagger/rows": float(len(self._rows)), **self._imitate(rows)}
        return self._finish_step(log, began, batch.metrics() | found)

    def _taken_over(self, episodes: Iterable[Episode]) -> list[Segment]:
        """Rows of the episodes that the policy of the warm start brought to a good end."""
        config, rows = self.config, list[Segment]()
        with self.pool.here() as env:
            for episode in episodes:
                turns = [call.sampled_ids for call in episode.calls]
                if not episode.ending.counted or not turns:
                    continue
                seed = derive_seed(config.seed, "takes over", episode.task.seed, episode.sample_index)
                said = turns[: random.Random(seed).randrange(len(turns))]
                shown = demonstrate(env, episode.task, self.chat, config.warm_start.policy, seed, said)
                segments = segments_of(shown, advantage=1.0)
                fits = all(len(row.ids) <= config.rollout.max_tokens for row in segments)
                if shown.metrics.get("success", 1.0) > 0 and shown.reward > 0 and fits:
                    rows += segments
        return rows

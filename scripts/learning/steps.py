"""The arms with steps of their own: everything else is the trainer's, checkpoints, ``--resume``, evaluations, metrics.

curriculum  from the second step on, half of a step's questions are earlier ones: those whose rewards lay farthest apart
            when they were played last. Where a reward says right or wrong, these are the questions with a pass rate
            near one half. They are played anew. Source: questions that are neither always nor never solved, DAPO,
            arXiv 2503.14476, section 3.2 (there others are drawn in place of those).

Two do not reinforce. Their steps imitate the policy of the warm start, in as many demonstrations as a GRPO step has
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
from collections import defaultdict
from collections.abc import Iterable, Sequence
from itertools import islice
from statistics import pstdev
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
from grpo.types import Episode, Task
from judges.common.files import JsonlLog


class Curriculum(Trainer):
    """Plays half of each step's questions again."""

    def _grpo_step(self, log: JsonlLog) -> dict[str, float]:
        wanted = self.config.rollout.groups_per_step // 2
        again = [task for task in farthest_apart(self._spreads()) if task not in self.tasks.again]
        self.tasks.again += again[:wanted]
        return super()._grpo_step(log)

    def _spreads(self) -> dict[Task, float]:
        """Standard deviation of the rewards of each question's newest group, from the run's trajectories."""
        spreads: dict[Task, float] = {}
        for step in range(1, self.step + 1):
            rewards: dict[Task, list[float]] = defaultdict(list)
            for episode in read_episodes(self.run.trajectories(step), transcripts=False):
                rewards[episode.task].append(episode.reward)
            spreads |= {task: pstdev(values) for task, values in rewards.items()}
        return spreads


def farthest_apart(spreads: dict[Task, float]) -> list[Task]:
    """Those with a spread, the largest first; among equals the one that was played first."""
    return sorted((task for task, spread in spreads.items() if spread > 0), key=lambda task: -spreads[task])


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

"""The arms with steps of their own: everything else is the trainer's, checkpoints, ``--resume``, evaluations, metrics.

They do not reinforce. Their steps imitate the policy of the warm start, which plays as many fresh demonstrations as a
GRPO step has rollouts. A step is one pass over them, in batches of ``warm_start.batch`` at the learning rate of
``optimizer``.
"""

import math
import time
from collections.abc import Sequence
from itertools import islice

from grpo.errors import TrainingError
from grpo.learner.engine import LossSpec
from grpo.learner.segments import Segment
from grpo.learner.update import scheduled_learning_rate
from grpo.training.pace import Began
from grpo.training.trainer import Trainer
from judges.common.files import JsonlLog


class Imitation(Trainer):
    """Imitates fresh demonstrations."""

    def _grpo_step(self, log: JsonlLog) -> dict[str, float]:
        began, settings = Began.now(), self.config.rollout
        with self._demonstrations("imitation", self.step) as fresh:
            rows = list(islice(fresh, settings.groups_per_step * settings.group_size))
        return self._finish_step(log, began, {"time/rollout": 0.0, **self._imitate(rows)})

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
            "loss/imitation": math.fsum(losses) / len(losses),
            "tokens/imitated": float(sum(len(row.ids) for row in rows)),
            "lr": rate,
            "time/train": time.monotonic() - began,
        }

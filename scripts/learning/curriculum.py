"""The arm that plays again what taught most.

From the second step on, half of a step's questions are earlier ones: those whose rewards lay farthest apart when they
were played last. Where a reward says right or wrong, these are the questions with a pass rate near one half. They are
played anew. Source: questions that are neither always nor never solved, DAPO, arXiv 2503.14476, section 3.2 (there
others are drawn in place of those).
"""

from collections import defaultdict
from statistics import pstdev

from grpo.episodes.record import read_episodes
from grpo.training.trainer import Trainer
from grpo.types import Task
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

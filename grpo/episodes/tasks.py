"""Which tasks come next: every scenario once per epoch, in an order fixed by the seed, from a position on."""

import random
from dataclasses import dataclass, field
from functools import lru_cache

from grpo.errors import ConfigError
from grpo.seeds import derive_seed
from grpo.types import Task


@dataclass(slots=True)
class TaskStream:
    """An endless stream of tasks.

    With ``scenario_ids`` each epoch is a fresh permutation of them; without, tasks differ in their seed alone.
    ``position`` counts the tasks handed out; ``again`` are those of them that were given back. Both are all the state
    there is.
    """

    scenario_ids: list[str] | None
    seed: int
    position: int = 0
    again: list[Task] = field(default_factory=list)

    def take(self, count: int) -> list[Task]:
        """The next ``count`` tasks, those that were given back first."""
        back, self.again = self.again[:count], self.again[count:]
        count -= len(back)
        tasks = [self._task(self.position + offset) for offset in range(count)]
        self.position += count
        return back + tasks

    def _task(self, index: int) -> Task:
        seed = derive_seed(self.seed, "task", index)
        if self.scenario_ids is None:
            return Task(seed)
        epoch, offset = divmod(index, len(self.scenario_ids))
        return Task(seed, self.scenario_ids[_order(self.seed, epoch, len(self.scenario_ids))[offset]])


@lru_cache(maxsize=4)  # an order serves a whole epoch; made for each task, drawing is quadratic
def _order(seed: int, epoch: int, count: int) -> tuple[int, ...]:
    order = list(range(count))
    random.Random(derive_seed(seed, "epoch", epoch)).shuffle(order)
    return tuple(order)


def evaluation_tasks(
    scenario_ids: list[str] | None, count: int, seed: int, *, option: str = "eval.scenarios"
) -> list[Task]:
    """``count`` distinct tasks chosen by ``seed``, the same for every policy; ``option`` is where ``count`` was set."""
    if scenario_ids is not None and count > len(scenario_ids):
        raise ConfigError(
            f"the evaluation asks for {count} scenarios but there are {len(scenario_ids)}; ask for fewer ({option})"
        )
    return TaskStream(scenario_ids, derive_seed(seed, "evaluation")).take(count)

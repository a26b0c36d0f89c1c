"""How many of the questions a rule can ever mark, said at the start of a run that has no answer judge.

LLM-written references are often sentences. An answer in other words is then right, the rule cannot say so, and it
counts as wrong: a policy would be trained to quote, and an evaluation would measure wording.
"""

from collections.abc import Sequence
from contextlib import closing
from itertools import islice

from grpo.config import TrainConfig
from grpo.envs.message_env import MessageEnv
from grpo.envs.registry import with_split
from grpo.episodes.tasks import TaskStream
from grpo.types import Task
from judges.answers.matching import is_short_enough

MAX_LOOKED_AT = 200
"""Questions that are looked at; more say nothing new."""
ENOUGH = 0.9
"""Share of questions within the rule's reach from which on nothing is said."""


def check_references(config: TrainConfig) -> list[str]:
    """What to say of a training run's questions, if anything."""
    if config.answer_judge.model is not None or config.reward == "ruler":
        return []
    with closing(MessageEnv(config.env, with_split(config.env, config.env_kwargs, config.train_split))) as env:
        if not env.has_answer_key():
            return []
        ids = env.scenario_ids()
        tasks = TaskStream(ids, config.seed).take(min(MAX_LOOKED_AT, len(ids) if ids else MAX_LOOKED_AT))
        return reach_warning(env, tasks)


def reach_warning(env: MessageEnv, tasks: Sequence[Task]) -> list[str]:
    """A line where the references of too many tasks are out of a rule's reach; else none."""
    found: list[bool] = []
    for task in islice(tasks, MAX_LOOKED_AT):
        env.reset(task)
        if (key := env.answer_key()) is not None:
            found.append(is_short_enough(key.references, key.question))
    if not found or (share := sum(found) / len(found)) >= ENOUGH:
        return []
    return [
        f"Warning: a rule alone can mark right answers to at most {share:.0%} of the questions ({len(found)} looked "
        "at), and on real mail to far fewer. The references of the others are sentences. Right answers in other words "
        "stay undecided and count as wrong. Name a judge that marks them: --answer-judge MODEL"
    ]

"""Batches of steps that overlap: whose groups are taken, which are left over, dropped or played again."""

import asyncio
from contextlib import nullcontext
from dataclasses import replace

import pytest

from grpo.episodes.tasks import TaskStream
from grpo.training.rewards import EnvReward
from grpo.training.unfinished_step import UnfinishedStep
from grpo.types import Task
from judges.common.files import read_jsonl
from tests.support.batches import IDS, Guesser, batches, right_at_first
from tests.support.policies import always


class Paced(Guesser):
    """A version of the policy whose groups end when they are told to; ``slow`` words do not end by themselves."""

    def __init__(self, version, slow=(), release=None):
        super().__init__(lambda letter, number: right_at_first(letter, (number - 1) % 4 + 1))  # a group asks four times
        self.version, self.slow, self.release = version, slow, release

    async def sample(self, prompt_ids, params, *, max_tokens, seed):
        letter = self.chat.decode(prompt_ids).split("begins with ")[1][0]
        if letter in self.slow:
            await self.release.wait()
        return await super().sample(prompt_ids, params, max_tokens=max_tokens, seed=seed)


def versions_of(made):
    return [(g.task.scenario_id[6], g.episodes[0].policy_version) for g in made.groups]


def overlapped(slow="", **settings):
    """Three steps of two groups, in one event loop: the batches, and what is open after each."""
    settings = {"steps": 3, "rollout.groups_per_step": 2, **settings}

    async def steps():
        made = batches(EnvReward(), **settings)
        release = asyncio.Event()
        policies = {version: Paced(version, slow, release) for version in range(3)}
        found, left = [], []
        for step in range(3):
            found.append(await made.next(step, lambda version: nullcontext(policies[version])))
            left.append([task.scenario_id[6] for task in made.open_tasks])
            await asyncio.sleep(0.05)  # the learner
        await made.close()
        return found, left

    return asyncio.run(steps())


ORDER = "".join(task.scenario_id[6] for task in TaskStream(IDS, 0).take(8))
"""First letters of the words, in the order in which they come."""


def test_with_staleness_the_next_steps_groups_are_played_while_a_step_is_learned():
    found, left = overlapped(**{"rollout.max_staleness": 1})
    assert [versions_of(made) for made in found] == [
        [(ORDER[0], 0), (ORDER[1], 0)],
        [(ORDER[2], 0), (ORDER[3], 0)],  # begun before step 1 was learned
        [(ORDER[4], 1), (ORDER[5], 1)],
    ]
    assert left == [[*ORDER[2:4]], [*ORDER[4:6]], []]
    assert [{row.staleness for row in made.segments} for made in found] == [{0}, {1}, {1}]
    assert [made.metrics()["groups/stale"] for made in found] == [0.0] * 3


def test_two_steps_ahead_the_policy_is_up_to_two_steps_old():
    found, left = overlapped(**{"rollout.max_staleness": 2})
    assert [{row.staleness for row in made.segments} for made in found] == [{0}, {1}, {2}]
    assert [len(tasks) for tasks in left] == [4, 2, 0], "no more than the run has use for"


def test_without_staleness_nothing_is_left_of_a_step_and_no_row_is_stale():
    found, left = overlapped()
    assert [versions_of(made) for made in found] == [
        [(ORDER[2 * step], step), (ORDER[2 * step + 1], step)] for step in range(3)
    ]
    assert left == [[]] * 3
    assert {row.staleness for made in found for row in made.segments} == {0}


ONE_OF_TWO = {"rollout.groups_per_step": 1, "rollout.oversample": 1}


def test_a_long_tail_holds_no_step_and_its_task_comes_again():
    found, left = overlapped(slow=ORDER[0], **ONE_OF_TWO)
    assert [versions_of(made) for made in found] == [[(ORDER[1], 0)], [(ORDER[2], 1)], [(ORDER[3], 2)]]
    assert left == [[ORDER[0]]] * 3
    assert [made.metrics()["groups/stale"] for made in found] == [1.0, 1.0, 1.0], "no other policy may use it"


def test_a_group_that_is_too_old_for_the_next_step_is_dropped_and_counted():
    found, left = overlapped(slow=ORDER[0], **ONE_OF_TWO, **{"rollout.max_staleness": 1})
    assert [versions_of(made) for made in found] == [[(ORDER[1], 0)], [(ORDER[2], 0)], [(ORDER[3], 1)]]
    assert left == [[ORDER[0], ORDER[2]], [ORDER[0], ORDER[3]], [ORDER[0]]]
    assert [made.metrics()["groups/stale"] for made in found] == [0.0, 1.0, 1.0], "in the end the run needs none"


@pytest.mark.parametrize("oversample", [1, 2])
def test_a_whole_group_that_became_too_old_is_played_again_where_more_are_asked_for_than_needed(oversample):
    found, _ = overlapped(**{"rollout.max_staleness": 1, "rollout.oversample": oversample})
    ages = [[step - version for _, version in versions_of(made)] for step, made in enumerate(found)]
    assert ages == [[0, 0], [1, 1], [1, 1]]


def test_a_killed_run_takes_the_whole_groups_of_older_policies_that_it_may_learn_from(tmp_path):
    settings = {"steps": 3, "rollout.groups_per_step": 2, "rollout.max_staleness": 1}

    async def first():
        made = replace(batches(EnvReward(), **settings), unfinished=UnfinishedStep(tmp_path, 1))
        batch = await made.next(0, always(Paced(0)))
        made.unfinished.finish(1)
        kept = [(task.key, task.seed) for task in made.open_tasks]
        while len(read_jsonl(tmp_path / "step-0000.jsonl")) < 4:
            await asyncio.sleep(0.01)
        return batch, kept, made.tasks.position

    async def resumed(kept, position):
        made = replace(batches(EnvReward(), **settings), unfinished=UnfinishedStep(tmp_path, 1))
        made.tasks.position, made.tasks.again = position, [Task.of_key(key, seed) for key, seed in kept]
        policy = Paced(1)
        batch = await made.next(1, always(policy))
        asked = dict(policy.asked)
        await made.close()
        return batch, asked

    _, kept, position = asyncio.run(first())
    batch, asked = asyncio.run(resumed(kept, position))
    assert versions_of(batch) == [(ORDER[2], 0), (ORDER[3], 0)]
    assert {row.staleness for row in batch.segments} == {1}
    assert set(asked.values()) == {0}, "nothing was played again"
    assert [path.name for path in tmp_path.iterdir()] == ["step-0000.jsonl"]

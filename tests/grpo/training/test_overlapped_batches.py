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


ONE_AHEAD = {"rollout.max_staleness": 1}
ONE_OF_TWO = {"rollout.groups_per_step": 1, "rollout.oversample": 1}


@pytest.mark.parametrize(
    ("settings", "slow", "groups", "left", "stale"),
    [
        ({}, "", [[(0, 0), (1, 0)], [(2, 1), (3, 1)], [(4, 2), (5, 2)]], [[], [], []], [0, 0, 0]),
        (ONE_AHEAD, "", [[(0, 0), (1, 0)], [(2, 0), (3, 0)], [(4, 1), (5, 1)]], [[2, 3], [4, 5], []], [0, 0, 0]),
        (
            {"rollout.max_staleness": 2},
            "",
            [[(0, 0), (1, 0)], [(2, 0), (3, 0)], [(4, 0), (5, 0)]],
            [[2, 3, 4, 5], [4, 5], []],  # no more than the run has use for
            [0, 0, 0],
        ),
        (ONE_OF_TWO, ORDER[0], [[(1, 0)], [(2, 1)], [(3, 2)]], [[0], [0], [0]], [1, 1, 1]),
        # in the end the run needs none
        (ONE_OF_TWO | ONE_AHEAD, ORDER[0], [[(1, 0)], [(2, 0)], [(3, 1)]], [[0, 2], [0, 3], [0]], [0, 1, 1]),
    ],
    ids=[
        "without staleness nothing is left of a step",
        "the next step's groups are played while a step is learned",
        "two steps ahead the policy is up to two steps old",
        "a long tail holds no step and its task comes again",
        "a group that is too old for the next step is dropped",
    ],
)
def test_whose_groups_a_step_takes_and_what_it_leaves(settings, slow, groups, left, stale):
    """Groups are (place in the order, version of the policy), and those that are left are places."""
    found, open_tasks = overlapped(slow, **settings)
    assert [versions_of(made) for made in found] == [[(ORDER[at], version) for at, version in own] for own in groups]
    assert open_tasks == [[ORDER[at] for at in own] for own in left]
    assert [made.metrics()["groups/stale"] for made in found] == stale
    ages = [{row.staleness for row in made.segments} for made in found]
    assert ages == [{step - version for _, version in own} for step, own in enumerate(groups)]


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

"""Episodes that we cut because their context was full: where every step costs, being cut must not pay."""

import asyncio
from collections import Counter
from dataclasses import replace

from grpo.agents.playing import PolicyAgents
from grpo.config import load_config
from grpo.display.terminal import Display
from grpo.ending import Ending
from grpo.envs.pool import EnvPool
from grpo.episodes.tasks import TaskStream
from grpo.learner.segments import segments_of
from grpo.settings import RolloutSettings
from grpo.training.batches import Batches
from grpo.training.rewards import EnvReward, FunctionReward
from tests.support.batches import unfinished_step
from tests.support.policies import ByteChat, Says, always

UP, RIGHT, DOWN = 0, 1, 2
FROM_START = {UP: -1, RIGHT: -100, DOWN: -1}
"""What CliffWalking gives for a first step: to the right of the start is the cliff, and it leads back there."""
ROLLOUT = RolloutSettings(max_tokens=2400, max_turn_tokens=600)


def walkers(*members):
    """Members of a group, one after another; each does the first action of its plan once and then stays at the wall."""
    plans, is_wordy = iter(members), False

    def say(prompt, seed):
        nonlocal is_wordy
        action = DOWN
        if "<tool_call>" not in prompt.split("Call act", 1)[1]:
            is_wordy, action = next(plans)
        said = "well, " * 85 if is_wordy else ""
        return f'{said}<tool_call>\n{{"name": "act", "arguments": {{"action": {action}}}}}\n</tool_call>'

    return Says(say)


def walked(*members, reward=None, rollout=ROLLOUT):
    kwargs = {"max_episode_steps": 4}
    size = {"groups_per_step": 1, "group_size": len(members), "concurrency": 1}
    rollout = rollout.model_dump(exclude_unset=True) | size
    config = load_config(None, {"env": "CliffWalking-v1", "env_kwargs": kwargs, "rollout": rollout})
    pool = EnvPool(config.env, kwargs)
    batches = Batches(
        config,
        pool,
        ByteChat(),
        PolicyAgents(config.rollout),
        TaskStream(None, 0),
        reward or EnvReward(),
        Display(quiet=True),
        unfinished_step(),
    )
    batch = asyncio.run(batches.next(0, always(walkers(*members))))
    pool.close()
    return batch


def test_a_cut_episode_is_neither_learned_from_nor_part_of_the_baseline():
    """By hand: four steps of -1; the cliff (-100) and three of -1; and long turns, cut after two steps of -1."""
    batch = walked((False, UP), (True, UP), (False, RIGHT))
    down, cut, cliff = batch.sampled
    assert [t.reward for t in batch.sampled] == [-4.0, -2.0, -103.0]
    assert [t.ending for t in batch.sampled] == [
        Ending.MAX_TURNS, Ending.CONTEXT_FULL, Ending.MAX_TURNS,
    ]  # fmt: skip
    (group,) = batch.groups
    assert group.advantages == [49.5, -49.5]  # around (-4 - 103) / 2 and not around a mean with -2 in it
    assert batch.segments == [*segments_of(down, 49.5), *segments_of(cliff, -49.5)]
    metrics = batch.metrics()
    assert (metrics["reward/mean"], metrics["reward/std"]) == (-53.5, 49.5)
    assert (metrics["episodes/context_full"], metrics["episodes/failed"]) == (1.0, 0.0)
    (remark,) = batch.remarks(ROLLOUT)
    assert remark.startswith(
        "1 of 3 episodes were cut, their context full (rollout.max_tokens = 2400); such are not learned"
    )
    assert cut.metrics["return"] == -2.0, "it stays in the log as it was"


def test_a_group_of_which_all_but_one_were_cut_teaches_nothing_and_says_so():
    batch = walked((False, UP), (True, UP), (True, RIGHT))
    assert (batch.groups, batch.segments, batch.dropped) == ([], [], 1)
    assert batch.metrics()["groups/zero_variance_share"] == 1.0
    assert "of 1 group, 1 had less than two episodes that were played out. What helps" in batch.remarks(ROLLOUT)[1]
    nothing = walked((True, UP), (True, RIGHT))
    assert "reward/mean" not in nothing.metrics()
    assert nothing.metrics()["episodes/context_full"] == 2.0


def test_what_rewards_a_group_does_not_see_those_that_were_cut():
    seen = []

    def ranks(group):
        seen.append([t.reward for t in group.episodes])
        return [float(sum(other < reward for other in group.rewards)) for reward in group.rewards]

    batch = walked((False, UP), (True, UP), (False, RIGHT), reward=FunctionReward(ranks, "ranks"))
    assert seen == [[-4.0, -103.0]]
    assert [t.reward for t in batch.sampled] == [1.0, -2.0, 0.0]
    assert batch.groups[0].advantages == [0.5, -0.5]
    nothing = walked((True, UP), (True, RIGHT), reward=FunctionReward(ranks, "ranks"))
    assert (len(seen), nothing.dropped, nothing.unrewarded) == (1, 1, 0), "none is asked for, and none is missing"


def test_a_step_without_a_difference_says_what_to_do():
    (remark,) = walked((False, UP), (False, UP)).remarks(ROLLOUT)
    assert remark.startswith("no update, for there is nothing to compare: of 1 group, 1 had equal rewards. What helps:")
    assert walked((False, UP), (False, RIGHT)).remarks(ROLLOUT) == []


def test_turns_that_were_cut_are_counted():
    short = ROLLOUT.model_copy(update={"max_turn_tokens": 30})  # 30 bytes hold no whole call
    batch = walked((False, UP), (False, DOWN), rollout=short)
    assert batch.metrics()["turns/cut_share"] == 1.0
    assert walked((False, UP), (False, RIGHT)).metrics()["turns/cut_share"] == 0.0


def test_how_alike_turns_are_and_what_giving_up_earns_is_counted():
    tasks = walked((False, UP), (False, UP), (False, RIGHT)), walked((False, RIGHT), (False, RIGHT), (False, DOWN))
    batch = replace(tasks[0], rewarded=[*tasks[0].rewarded, *tasks[1].rewarded])
    batch.sampled = [*tasks[0].sampled, *tasks[1].sampled]
    said = Counter(tuple(call.sampled_ids) for episode in batch.sampled for call in episode.calls)
    assert batch.metrics()["actions/top_share"] == max(said.values()) / said.total() < 1.0
    assert "actions/top_share" not in tasks[0].metrics(), "of one task all may say the same"
    assert "episodes/idle_share" not in batch.metrics(), "the env tells no success"
    (first, second), rewards = batch.rewarded, ((0.0, -1.0, 2.0), (0.5, 0.0, -0.5))
    for group, earned, solved in ((first, rewards[0], (0, 0, 1)), (second, rewards[1], (0, 0, 0))):
        for episode, reward, one in zip(group.episodes, earned, solved, strict=True):
            episode.reward, episode.metrics["success"] = reward, float(one)
    first.episodes[0].metrics["dont_know"] = second.episodes[0].metrics["dont_know"] = 1.0
    metrics = batch.metrics()
    assert metrics["episodes/idle_share"] == 2 / 6
    assert metrics["reward/idle_advantage"] == ((0.0 - -1.0) + (0.5 - -0.25)) / 2

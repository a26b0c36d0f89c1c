import asyncio
import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from grpo.envs.pool import EnvPool
from grpo.episodes.rollout import Rollout, group_of, group_specs
from grpo.episodes.tasks import TaskStream, evaluation_tasks
from grpo.errors import EnvError, ServerError
from grpo.serving.policy import SamplingParams
from grpo.types import StopReason, Task
from tests.support.envs import WORD_ENV
from tests.support.policies import ByteChat, ScriptedPolicy


def rollout(policy, *, max_turn_tokens=64, max_tokens=400, concurrency=4):
    sampling = SamplingParams(1.0, max_turn_tokens)
    return Rollout(EnvPool(WORD_ENV, {}), ByteChat(), policy, sampling, max_tokens, concurrency)


async def test_each_prompt_is_the_previous_ids_plus_the_sampled_and_the_observed_ids():
    chat = ByteChat()
    policy = ScriptedPolicy(chat, ["is it oak?", "maybe pine", "falcon"])
    (trajectory,) = await rollout(policy).run(group_specs([Task(0, "train-falcon")], 1, "t"))
    observed = chat.delta_ids([], [{"role": "tool", "content": "wrong, guess again"}], [])
    first, second, third = policy.prompts
    assert second == [*first, *b"is it oak?", 256, *observed]
    assert third == [*second, *b"maybe pine", 256, *observed]
    assert trajectory.token_ids == [*third, *b"falcon", 256]
    sampled = [i for i, flag in zip(trajectory.token_ids, trajectory.action_mask, strict=True) if flag]
    assert sampled == [*b"is it oak?", 256, *b"maybe pine", 256, *b"falcon", 256]
    assert [lp for lp, flag in zip(trajectory.logprobs, trajectory.action_mask, strict=True) if not flag] == [0.0] * (
        len(trajectory.token_ids) - len(sampled)
    )
    assert (trajectory.reward, trajectory.stop_reason) == (1.0, StopReason.TERMINATED)
    assert trajectory.metrics["success"] == 1.0
    assert trajectory.turn_errors == ["no_tool_call", "", ""]
    assert [m["role"] for m in trajectory.messages] == [
        "system", "user", "assistant", "tool", "assistant", "tool", "assistant", "tool",
    ]  # fmt: skip


async def test_a_turn_that_stopped_for_its_length_is_closed_with_an_unmasked_end_token():
    policy = ScriptedPolicy(ByteChat(), ["is it oak? no, wait"], ended=False)
    (trajectory,) = await rollout(policy, max_turn_tokens=9).run(group_specs([Task(0, "train-maple")], 1, "t"))
    start = len(policy.prompts[0])
    assert trajectory.token_ids[start : start + 10] == [*b"is it oak", 256]
    assert trajectory.action_mask[start : start + 10] == [True] * 9 + [False]
    assert trajectory.stop_reason is StopReason.TRUNCATED
    assert (trajectory.num_turns, trajectory.cut_turns) == (3, 3)


async def test_an_episode_without_room_for_another_turn_ends_as_context_full():
    policy = ScriptedPolicy(ByteChat(), ["no"])
    (trajectory,) = await rollout(policy, max_tokens=90).run(group_specs([Task(0, "train-maple")], 1, "t"))
    assert trajectory.stop_reason is StopReason.CONTEXT_FULL
    assert trajectory.num_turns == 1


words = st.lists(st.text("abc", min_size=1, max_size=60), min_size=1, max_size=4)


@settings(max_examples=150, deadline=None)
@given(turns=words, ended=st.booleans(), max_tokens=st.integers(45, 220), max_turn_tokens=st.integers(1, 64))
def test_no_trajectory_exceeds_max_tokens_and_none_ends_while_there_is_room(turns, ended, max_tokens, max_turn_tokens):
    chat = ByteChat()
    policy = ScriptedPolicy(chat, turns, ended=ended)
    runner = rollout(policy, max_turn_tokens=max_turn_tokens, max_tokens=max_tokens)
    (t,) = asyncio.run(runner.run(group_specs([Task(0, "train-maple")], 1, "t")))
    room = max(1, max_turn_tokens // 2)
    if t.stop_reason is StopReason.FAILED:
        assert t.error.startswith(f"the first prompt of 'train-maple' has {len(t.token_ids)} tokens")
        assert policy.prompts == []
        assert len(t.token_ids) + room > max_tokens
        return
    assert len(t.token_ids) <= max_tokens
    assert all(len(prompt) + room <= max_tokens for prompt in policy.prompts)
    assert len(policy.prompts) == t.num_turns == len(t.turn_errors)
    assert t.action_mask[-1], "what follows the last turn is not appended"
    if t.stop_reason is StopReason.CONTEXT_FULL:
        answer = chat.delta_ids([], [t.messages[-1]], [])
        last = t.token_ids[-1:]
        assert len(t.token_ids) + len(chat.close_ids(last)) + len(answer) + room > max_tokens


async def test_a_first_prompt_without_room_for_a_turn_is_a_failure_that_says_what_to_raise():
    policy = ScriptedPolicy(ByteChat(), ["no"])
    (trajectory,) = await rollout(policy, max_tokens=50).run(group_specs([Task(0, "train-maple")], 1, "t"))
    assert trajectory.stop_reason is StopReason.FAILED
    assert re.search(
        r"has 43 tokens; rollout\.max_tokens 50 .* one of 18\. Raise rollout\.max_tokens", trajectory.error
    )


async def test_a_server_fault_is_recorded_with_its_reason_and_never_a_silent_zero():
    class Broken(ScriptedPolicy):
        async def sample(self, *args, **kwargs):
            raise ServerError("connection refused")

    (trajectory,) = await rollout(Broken(ByteChat(), ["x"])).run(group_specs([Task(0, "train-maple")], 1, "t"))
    assert trajectory.stop_reason is StopReason.FAILED
    assert trajectory.error == "connection refused"


async def test_many_episodes_at_once_keep_their_order_and_their_own_envs():
    tasks = TaskStream([f"train-{w}" for w in ("falcon", "maple", "harbor", "quartz")], 0).take(4)
    policy = ScriptedPolicy(ByteChat(), ["maple"])
    trajectories = await rollout(policy, concurrency=3).run(group_specs(tasks, 2, "t"))
    assert [t.task for t in trajectories] == [task for task in tasks for _ in range(2)]
    assert [t.reward for t in trajectories] == [float(t.task.scenario_id == "train-maple") for t in trajectories]
    groups = await asyncio.gather(*(rollout(policy).group(task, 2, "t") for task in tasks))
    assert [g.task for g in groups] == tasks
    assert [t.token_ids for g in groups for t in g.trajectories] == [t.token_ids for t in trajectories]


def test_a_scenario_that_comes_again_has_other_episodes():
    tasks = TaskStream(["only"], 0).take(2)
    seeds = [spec.seed for spec in group_specs(tasks, 4, "train", 0, 7)]
    assert len(set(seeds)) == 8
    assert [spec.seed for spec in group_specs(tasks, 4, "train", 0, 7)] == seeds


async def test_members_that_begin_differently_stop_the_run():
    trajectories = await rollout(ScriptedPolicy(ByteChat(), ["maple"])).run(
        group_specs([Task(0, "train-maple")], 2, "t")
    )
    trajectories[1].token_ids[3] += 1
    with pytest.raises(EnvError, match="began from 2 different prompts"):
        group_of(trajectories)


def test_every_scenario_is_handed_out_once_per_epoch_and_the_stream_resumes_at_its_position():
    names = [f"s{i}" for i in range(7)]
    whole = TaskStream(names, 5)
    first, second = whole.take(7), whole.take(7)
    assert sorted(t.scenario_id for t in first) == names
    assert sorted(t.scenario_id for t in second) == names
    assert [t.scenario_id for t in first] != [t.scenario_id for t in second]
    assert TaskStream(names, 5, position=4).take(10) == (first + second)[4:14]


def test_evaluation_tasks_are_distinct_and_the_same_for_every_policy():
    names = [f"s{i}" for i in range(20)]
    tasks = evaluation_tasks(names, 12, 99)
    assert len({t.scenario_id for t in tasks}) == 12
    assert tasks == evaluation_tasks(names, 12, 99)
    with pytest.raises(ValueError, match="asks for 21 scenarios but there are 20"):
        evaluation_tasks(names, 21, 99)

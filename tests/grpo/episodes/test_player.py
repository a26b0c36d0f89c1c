import asyncio
import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from grpo.ending import Ending
from grpo.envs.pool import EnvPool
from grpo.episodes.player import planned_episodes
from grpo.episodes.tasks import TaskStream, evaluation_tasks
from grpo.errors import ServerError
from grpo.serving.policy import SamplingParams
from grpo.types import Task
from tests.support.envs import WORD_ENV
from tests.support.episodes import ids_of, logprobs_of, mask_of, planned, player
from tests.support.policies import ByteChat, ScriptedPolicy


def playing(policy, *, max_turn_tokens=64, max_tokens=400, concurrency=4):
    sampling = SamplingParams(1.0, max_turn_tokens)
    return player(EnvPool(WORD_ENV, {}), ByteChat(), policy, sampling, max_tokens, concurrency)


async def test_each_prompt_is_the_previous_ids_plus_the_sampled_and_the_observed_ids():
    chat = ByteChat()
    policy = ScriptedPolicy(chat, ["is it oak?", "maybe pine", "falcon"])
    (episode,) = await playing(policy).all(planned(Task(0, "train-falcon"), 1))
    observed = chat.delta_ids([], [{"role": "tool", "content": "wrong, guess again"}], [])
    first, second, third = policy.prompts
    assert second == [*first, *b"is it oak?", 256, *observed]
    assert third == [*second, *b"maybe pine", 256, *observed]
    assert ids_of(episode) == [*third, *b"falcon", 256]
    sampled = [i for i, flag in zip(ids_of(episode), mask_of(episode), strict=True) if flag]
    assert sampled == [*b"is it oak?", 256, *b"maybe pine", 256, *b"falcon", 256]
    assert [lp for lp, flag in zip(logprobs_of(episode), mask_of(episode), strict=True) if not flag] == [0.0] * (
        len(ids_of(episode)) - len(sampled)
    )
    assert (episode.reward, episode.ending) == (1.0, Ending.ANSWERED)
    assert episode.metrics["success"] == 1.0
    assert episode.turn_errors == ["no_tool_call", "", ""]
    assert [m["role"] for m in episode.messages] == [
        "system", "user", "assistant", "tool", "assistant", "tool", "assistant", "tool",
    ]  # fmt: skip


async def test_a_turn_that_stopped_for_its_length_is_closed_with_an_unmasked_end_token():
    policy = ScriptedPolicy(ByteChat(), ["is it oak? no, wait"], ended=False)
    (episode,) = await playing(policy, max_turn_tokens=9).all(planned(Task(0, "train-maple"), 1))
    start = len(policy.prompts[0])
    assert ids_of(episode)[start : start + 10] == [*b"is it oak", 256]
    assert mask_of(episode)[start : start + 10] == [True] * 9 + [False]
    assert episode.ending is Ending.MAX_TURNS
    assert (episode.num_turns, episode.cut_turns) == (3, 3)


words = st.lists(st.text("abc", min_size=1, max_size=60), min_size=1, max_size=4)


@settings(max_examples=150, deadline=None)
@given(turns=words, ended=st.booleans(), max_tokens=st.integers(45, 220), max_turn_tokens=st.integers(1, 64))
def test_no_trajectory_exceeds_max_tokens_and_none_ends_while_there_is_room(turns, ended, max_tokens, max_turn_tokens):
    chat = ByteChat()
    policy = ScriptedPolicy(chat, turns, ended=ended)
    runner = playing(policy, max_turn_tokens=max_turn_tokens, max_tokens=max_tokens)
    (t,) = asyncio.run(runner.all(planned(Task(0, "train-maple"), 1)))
    room = max(1, max_turn_tokens // 2)
    if not policy.prompts:
        assert t.ending is Ending.CONTEXT_FULL
        first = len(chat.prompt_ids(t.messages, []))
        assert t.error.startswith(f"the first prompt has {first} tokens")
        assert first + room > max_tokens
        return
    assert len(ids_of(t)) <= max_tokens
    assert all(len(prompt) + room <= max_tokens for prompt in policy.prompts)
    assert len(policy.prompts) == t.num_turns == len(t.turn_errors)
    assert mask_of(t)[-1], "what follows the last turn is not appended"
    if t.ending is Ending.CONTEXT_FULL:
        answer = chat.delta_ids([], [t.messages[-1]], [])
        last = ids_of(t)[-1:]
        assert len(ids_of(t)) + len(chat.close_ids(last)) + len(answer) + room > max_tokens


async def test_a_first_prompt_without_room_for_a_turn_says_what_to_raise():
    policy = ScriptedPolicy(ByteChat(), ["no"])
    (episode,) = await playing(policy, max_tokens=50).all(planned(Task(0, "train-maple"), 1))
    assert episode.ending is Ending.CONTEXT_FULL
    assert re.search(r"has 43 tokens; rollout\.max_tokens 50 .* one of 18\. Raise rollout\.max_tokens", episode.error)


async def test_a_server_fault_is_recorded_with_its_reason_and_never_a_silent_zero():
    class Broken(ScriptedPolicy):
        async def sample(self, *args, **kwargs):
            raise ServerError("connection refused")

    (episode,) = await playing(Broken(ByteChat(), ["x"])).all(planned(Task(0, "train-maple"), 1))
    assert episode.ending is Ending.INFRASTRUCTURE
    assert episode.error == "connection refused"


async def test_many_episodes_at_once_keep_their_order_and_their_own_envs():
    tasks = TaskStream([f"train-{w}" for w in ("falcon", "maple", "harbor", "quartz")], 0).take(4)
    policy = ScriptedPolicy(ByteChat(), ["maple"])
    episodes = await playing(policy, concurrency=3).all(planned_episodes(tasks, 2, "t"))
    assert [t.task for t in episodes] == [task for task in tasks for _ in range(2)]
    assert [t.reward for t in episodes] == [float(t.task.scenario_id == "train-maple") for t in episodes]
    groups = await asyncio.gather(*(playing(policy).group(task, 2, "t") for task in tasks))
    assert [g.task for g in groups] == tasks
    assert [ids_of(t) for g in groups for t in g.episodes] == [ids_of(t) for t in episodes]


def test_a_scenario_that_comes_again_has_other_episodes():
    tasks = TaskStream(["only"], 0).take(2)
    seeds = [spec.seed for spec in planned_episodes(tasks, 4, "train", 0, 7)]
    assert len(set(seeds)) == 8
    assert [spec.seed for spec in planned_episodes(tasks, 4, "train", 0, 7)] == seeds


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

"""RULER as a reward, through a local judge over a real socket."""

import pytest

from grpo.errors import JudgeFailure
from grpo.rewards import HYBRID_WEIGHT, Rewarder
from grpo.types import Group, StopReason, Task, Trajectory
from tests.judge_server import JudgeServer, Reply, score_by

pytest.importorskip("litellm", reason="judges need litellm (install the extra 'judge')")


def group(*answers, failed=()):
    members = []
    for index, answer in enumerate(answers):
        member = Trajectory("E", Task(0, "q1"), index, 0, reward=0.1 * index, metrics={"success": 0.0})
        member.messages = [{"role": "user", "content": "Capital of France?"}, {"role": "assistant", "content": answer}]
        member.stop_reason = StopReason.FAILED if index in failed else StopReason.TERMINATED
        members.append(member)
    return Group(Task(0, "q1"), members)


def judge(messages):
    right = "Paris" in messages[-1]["content"]
    return (0.9, "right") if right else (0.2, "wrong")


async def test_ruler_replaces_the_reward_and_keeps_the_envs_own():
    with JudgeServer(score_by(judge)) as server:
        (scored,) = await Rewarder("ruler", "openai/o4-mini", server.url).reward([group("Paris", "Rome", "Paris!")])
    assert scored.rewards == [0.9, 0.2, 0.9]
    assert [t.metrics["independent_reward"] for t in scored.trajectories] == pytest.approx([0.0, 0.1, 0.2])
    assert scored.trajectories[1].explanation == "wrong"


async def test_the_hybrid_adds_a_fraction_of_the_judges_score_to_the_envs_reward():
    with JudgeServer(score_by(judge)) as server:
        (scored,) = await Rewarder("env+ruler", "openai/o4-mini", server.url).reward([group("Paris", "Rome")])
    assert scored.rewards == pytest.approx([0.0 + HYBRID_WEIGHT * 0.9, 0.1 + HYBRID_WEIGHT * 0.2])


async def test_failed_rollouts_are_not_shown_to_the_judge():
    with JudgeServer(score_by(judge)) as server:
        (scored,) = await Rewarder("ruler", "openai/o4-mini", server.url).reward([group("Paris", "Rome", failed=(1,))])
    assert [t.sample for t in scored.trajectories] == [0]


async def test_a_group_without_a_verdict_is_dropped_and_counted_and_no_verdict_at_all_stops():
    rewarder = Rewarder("ruler", "openai/o4-mini")
    with JudgeServer(lambda request: Reply("I cannot judge this.")) as server:
        rewarder.judge_api_base = server.url
        with pytest.raises(JudgeFailure, match="scored none of 1 groups"):
            await rewarder.reward([group("Paris", "Rome")])
    assert rewarder.failures == 1

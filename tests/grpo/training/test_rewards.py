"""RULER as a reward, through a local judge over a real socket."""

import math
import sys

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from grpo.config import TrainConfig, load_config
from grpo.ending import Ending
from grpo.errors import RewardError
from grpo.settings import JudgeSettings
from grpo.training.rewards import (
    HYBRID_WEIGHT,
    EnvReward,
    FunctionReward,
    HybridReward,
    RulerReward,
    group_reward,
    hybrid_rewards,
)
from grpo.types import Episode, Group, Task
from judges.llm.record import read_judgements
from tests.support.batches import judged
from tests.support.judge_server import JudgeServer, Reply, score_by

pytest.importorskip("litellm", reason="judges need litellm (install the extra 'judge')")


def group(*answers, success=None):
    members = []
    for index, answer in enumerate(answers):
        member = Episode("E", Task(0, "q1"), index, 0, reward=0.1 * index)
        member.metrics = {} if success is None else {"success": success[index]}
        member.messages = [{"role": "user", "content": "Capital of France?"}, {"role": "assistant", "content": answer}]
        member.ending = Ending.ANSWERED
        members.append(member)
    return Group(Task(0, "q1"), members)


def judge(messages):
    right = "Paris" in messages[-1]["content"]
    return (0.9, "right") if right else (0.2, "wrong")


async def test_ruler_replaces_the_reward_and_keeps_the_envs_own():
    with JudgeServer(score_by(judge)) as server:
        scored = await judged(server).reward(group("Paris", "Rome", "Paris!"))
    assert scored.rewards == [0.9, 0.2, 0.9]
    assert [t.metrics["independent_reward"] for t in scored.episodes] == pytest.approx([0.0, 0.1, 0.2])
    assert scored.episodes[1].explanation == "wrong"


async def test_a_group_without_a_verdict_has_no_rewards_and_says_why():
    with JudgeServer(lambda request: Reply("I cannot judge this.")) as server:
        for reward in (judged(server), judged(server, HybridReward)):
            assert await reward.reward(group("Paris", "Rome")) is None
            assert "gave no usable answer on 2 trajectories" in str(reward.last_error)


async def test_the_hybrid_lifts_a_right_answer_above_a_wrong_one_that_the_judge_prefers():
    with JudgeServer(score_by(judge)) as server:
        reward = judged(server, HybridReward)
        scored = await reward.reward(group("Rome", "Paris", "Lyon", success=[1.0, 0.0, 0.0]))
    # 0.0 + 0.25*0.2 = 0.05; 0.1 + 0.25*0.9 = 0.325; 0.2 + 0.25*0.2 = 0.25; the env has the right one lowest
    assert scored.rewards == pytest.approx([0.325 + HYBRID_WEIGHT, 0.325, 0.25])
    assert [t.metrics["ruler_score"] for t in scored.episodes] == [0.2, 0.9, 0.2]


def test_classes_that_lie_further_apart_than_the_weight_get_the_plain_sum():
    rewards = hybrid_rewards([0.0, 1.0, 0.0], [-1.0, 1.2, -0.9], [1.0, 0.0, 0.5])
    assert rewards == pytest.approx([-1.0 + 0.25, 1.2, -0.9 + 0.125])


def test_classes_that_lie_closer_keep_the_envs_distance():
    # wrong: 0.0 + 0.25; right: 0.1 + 0, lifted to 0.25 + 0.1; the second right one is lifted as much
    assert hybrid_rewards([0.0, 1.0, 1.0], [0.0, 0.1, 0.1], [1.0, 0.0, 1.0]) == pytest.approx([0.25, 0.35, 0.6])


MEMBER = st.tuples(st.sampled_from([0.0, 1.0]), st.floats(-5, 5), st.floats(0, 1))


@given(st.lists(MEMBER, min_size=1, max_size=8))
def test_whatever_the_judge_says_a_wrong_answer_never_outranks_a_right_one(members):
    mixed = hybrid_rewards(*zip(*members, strict=True))
    right = [m for m, (success, _, _) in zip(mixed, members, strict=True) if success]
    wrong = [m for m, (success, _, _) in zip(mixed, members, strict=True) if not success]
    assert not right or not wrong or min(right) >= max(wrong)
    for one, (class_one, reward_one, score_one) in zip(mixed, members, strict=True):
        for other, (class_other, reward_other, score_other) in zip(mixed, members, strict=True):
            if class_one == class_other:
                plain = reward_one - reward_other + HYBRID_WEIGHT * (score_one - score_other)
                assert one - other == pytest.approx(plain, abs=1e-12)


@given(st.lists(st.tuples(st.sampled_from([0.0, 0.01, 1.0]), st.floats(0, 1)), min_size=2, max_size=8))
def test_without_a_success_metric_the_judge_only_orders_those_with_equal_rewards(members):
    rewards = [reward for reward, _ in members]
    mixed = hybrid_rewards(rewards, rewards, [score for _, score in members])
    for one, first in zip(mixed, rewards, strict=True):
        for other, second in zip(mixed, rewards, strict=True):
            assert first <= second or one - other >= 0.01 - 1e-12


def brevity(group):
    return [-len(t.messages[-1]["content"]) for t in group.episodes]


async def by_task(group):
    """Async, numpy, and with all that a trajectory knows."""
    return np.array([t.reward + len(t.tools) + float(t.task.scenario_id == "q1") for t in group.episodes])


@pytest.mark.parametrize(("name", "rewards"), [("brevity", [-5.0, -4.0]), ("by_task", [1.0, 1.1])])
async def test_a_function_of_the_users_rewards_a_group(name, rewards):
    made = group_reward(TrainConfig(env="E", reward=f"tests.grpo.training.test_rewards:{name}"), None)
    rewarded = await made.reward(group("Paris", "Rome"))
    assert rewarded.rewards == pytest.approx(rewards)
    assert [t.metrics["independent_reward"] for t in rewarded.episodes] == pytest.approx([0.0, 0.1])


@pytest.mark.parametrize(
    ("function", "message"),
    [
        (lambda group: [1.0], "returned 1 rewards for a group of 2 episodes"),
        (lambda group: [1.0, math.nan], r"returned \[1.0, nan\]; every reward must be a finite number"),
        (lambda group: None, "returned None; it must return a list of numbers"),
        (lambda group: "01", "returned '01'; it must return a list of numbers"),
        (lambda group: {0: 1.0, 1: 0.5}, "returned {0: 1.0, 1: 0.5}; it must return a list of numbers"),
        (lambda group: [t.metrics["judged"] for t in group.episodes], "raised KeyError: 'judged'"),
        (lambda group: sys.exit(3), "raised SystemExit: 3"),
    ],
    ids=["too few", "not finite", "no numbers", "text", "no order", "raises", "exits"],
)
async def test_what_a_function_may_not_return_stops_the_run_with_its_name(function, message):
    with pytest.raises(RewardError, match=f"^mine:own {message}"):
        await FunctionReward(function, "mine:own").reward(group("Paris", "Rome"))


def test_a_config_names_its_reward(tmp_path):
    (tmp_path / "rubric.txt").write_text("Be brief.")

    def made(kind):
        settings = {"judge.model": "openai/x", "judge.rubric": str(tmp_path / "rubric.txt"), "judge.permutations": 3}
        return group_reward(load_config(None, {"env": "E", "reward": kind, "seed": 7, **settings}), tmp_path)

    asked = JudgeSettings(model="openai/x", rubric=str(tmp_path / "rubric.txt"), permutations=3)

    assert isinstance(made("env"), EnvReward)
    ruler = made("ruler")
    assert ruler == RulerReward(asked, ruler.session, "Be brief.", 7)
    assert isinstance(made("env+ruler"), HybridReward)


async def test_the_judge_is_called_as_the_settings_say(tmp_path):
    prices = {"input_cost_per_token": 0.01, "output_cost_per_token": 0}
    call = {"judge.timeout_seconds": 50, "judge.extra_litellm_params": {"temperature": 0, **prices}}
    members = group("Paris " * 2000, "Rome " * 2000)
    with JudgeServer(score_by(judge)) as server:
        named = {"env": "E", "reward": "ruler", "judge.model": "local", "judge.api_base": server.url}
        cut = group_reward(load_config(None, {**named, **call, "judge.max_prompt_tokens": 4000}), tmp_path)
        assert (await cut.reward(members)).rewards == [0.9, 0.2]
    (request,) = server.requests
    assert (request.body["temperature"], cut.cost_usd) == (0, 1.0)
    assert len(request.body["messages"][1]["content"]) < 4000 * 4 < 22_000
    assert "characters left out" in request.body["messages"][1]["content"]


async def test_a_run_keeps_every_judgement_counts_its_cost_and_pays_once(tmp_path):
    settings = {"env": "E", "reward": "ruler", "judge.model": "openai/o4-mini", "judge.permutations": 2}
    with JudgeServer(score_by(judge)) as server:
        config = load_config(None, settings | {"judge.api_base": server.url})
        first, second = group_reward(config, tmp_path), group_reward(config, tmp_path)
        scored = await first.reward(group("Paris", "Rome"))
        again = await second.reward(group("Paris", "Rome"))
    assert scored.rewards == again.rewards == [0.9, 0.2]
    assert len(server.requests) == 2, "two orders, and the second time from the cache"
    price = litellm_price("o4-mini")
    assert first.cost_usd == pytest.approx(2 * (100 * price["input"] + 10 * price["output"]))
    assert second.cost_usd == 0.0
    records = list(read_judgements(tmp_path))
    assert [[v["cached"] for v in record["verdicts"]] for record in records] == [[False, False], [True, True]]
    assert [score["score"] for score in records[0]["scores"]] == [0.9, 0.2]


def litellm_price(model):
    import litellm

    known = litellm.model_cost[model]
    return {"input": known["input_cost_per_token"], "output": known["output_cost_per_token"]}


async def test_spent_money_is_a_failure_that_says_so(tmp_path):
    settings = {"env": "E", "reward": "ruler", "judge.model": "openai/o4-mini", "judge.max_cost": 1e-9}
    with JudgeServer(score_by(judge)) as server:
        reward = group_reward(load_config(None, settings | {"judge.api_base": server.url}), tmp_path)
        assert await reward.reward(group("Paris", "Rome")) is not None
        assert await reward.reward(group("Paris", "Lyon")) is None
    assert "are spent and the limit is" in str(reward.last_error)

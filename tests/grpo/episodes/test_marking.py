"""Marking answers in training: the rule, then a judge over a real socket; what it costs, what is audited, what fails."""

import asyncio
import json
import re
from collections import Counter
from dataclasses import replace

import pytest

from grpo.agents.playing import PolicyAgents
from grpo.config import load_config
from grpo.display.terminal import Display
from grpo.envs.message_env import MessageEnv
from grpo.envs.pool import EnvPool
from grpo.episodes.marking import Marker, audit_warning, check_markable, is_audited, newest_audits_warning
from grpo.episodes.record import episode_of, line_of
from grpo.episodes.tasks import TaskStream
from grpo.errors import ConfigError, EnvError, JudgeFailure
from grpo.settings import AnswerJudgeSettings
from grpo.training.batches import Batches
from grpo.training.rewards import group_reward
from grpo.training.unfinished_step import UnfinishedStep
from grpo.types import AnswerKey, Episode, Outcome, Task
from judges.common.files import read_jsonl
from judges.llm.record import read_judgements
from tests.email_env.mails import build, mail, question
from tests.support.envs import SUMS_ENV
from tests.support.judge_server import ASKED, JudgeServer, Reply, score_by, shown
from tests.support.policies import ByteChat, Says, always

pytest.importorskip("litellm", reason="judges need litellm (install the extra 'judge')")

IDS = ["sum/2", "sum/4", "sum/8"]


@pytest.fixture(autouse=True)
def key(monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", "sk-of-the-tests")


def speaker(*turns):
    """Says what stands for the scenario and the member, and asks for nothing."""
    asked = Counter()

    def say(prompt, seed):
        number = re.search(r"What is (\d+)", prompt)[1]
        asked[number] += 1
        return turns[asked[number] - 1].format(double=2 * int(number))

    return Says(say)


def judge(accepts):
    def verdict(messages):
        *_, said = shown(messages)
        return json.dumps({"answer_id": ASKED, "reasoning": f"About {said}.", "accept": accepts(said)})

    return verdict


def batches(folder, server, ids=IDS, reward="env", **settings):
    rollout = {"groups_per_step": len(ids), "group_size": 2, "max_tokens": 4000, "max_turn_tokens": 100}
    named = {"answer_judge.model": "openai/o4-mini", "answer_judge.api_base": server.url} if server else {}
    if reward != "env":
        named |= {"judge.model": "openai/o4-mini", "judge.api_base": server.url}
    config = load_config(None, {"env": SUMS_ENV, "rollout": rollout, "reward": reward, **named, **settings})
    return Batches(
        config,
        EnvPool(SUMS_ENV, {}),
        ByteChat(),
        PolicyAgents(config.rollout),
        TaskStream(list(ids), 0),
        group_reward(config, folder),
        Display(quiet=True),
        UnfinishedStep(folder / "partial"),
        Marker(config.answer_judge, folder),
    )


def sample(made, *turns):
    return asyncio.run(made.next(0, always(speaker(*turns))))


def test_the_judge_decides_what_the_rule_leaves_undecided_and_the_reward_follows(tmp_path):
    with JudgeServer(judge(lambda said: said == "twice that")) as server:
        made = sample(batches(tmp_path, server), "twice that", "17")
        other = sample(batches(tmp_path / "b", server), "{double}", "a handful")
    assert [g.rewards for g in made.groups] == [[1.0, 0.0]] * 3
    assert [t.metrics["success"] for t in made.sampled] == [1.0, 0.0] * 3
    assert made.sampled[0].verdict == {"reasoning": "About twice that.", "accept": True, "decided_by": "judge"}
    assert made.sampled[1].verdict["decided_by"] == "match"
    metrics = made.metrics()
    assert (metrics["answer/by_rule"], metrics["answer/by_judge"], metrics["answer/undecided"]) == (0.5, 0.5, 0.0)
    assert (metrics["env/success"], metrics["judge/failures"]) == (0.5, 0.0)
    assert metrics["answer/cost_usd"] > 0
    assert "judge/cost_usd" not in metrics, "no RULER here"
    assert [g.rewards for g in other.groups] == [[1.0, 0.0]] * 3
    assert [t.verdict for t in other.sampled[::2]] == [None] * 3, "the env itself said so"
    assert len(server.requests) == 6


def test_without_a_judge_the_undecided_answers_are_counted_and_no_reward_changes(tmp_path):
    made = sample(batches(tmp_path, None), "{double}", "a handful")
    metrics = made.metrics()
    assert (metrics["answer/by_rule"], metrics["answer/undecided"], metrics["reward/mean"]) == (0.5, 0.5, 0.5)
    assert "answer/cost_usd" not in metrics
    assert not list(tmp_path.glob("judge*"))


def test_a_verdict_is_paid_for_once_also_by_a_run_that_goes_on(tmp_path):
    with JudgeServer(judge(lambda said: "twice" in said)) as server:
        first = sample(batches(tmp_path, server), "twice that", "a handful")
        paid = len(server.requests)
        for path in (tmp_path / "partial").iterdir():
            path.unlink()  # as if the process had been killed before a group was whole
        again = sample(batches(tmp_path, server), "twice that", "a handful")
    assert paid == len(server.requests) == 6
    assert [g.rewards for g in again.groups] == [g.rewards for g in first.groups] == [[1.0, 0.0]] * 3
    assert again.metrics()["answer/cost_usd"] == 0.0
    assert sum(record["cached"] for record in read_judgements(tmp_path)) == 6


def test_a_finished_group_keeps_its_verdicts_on_disk_and_not_the_right_answers(tmp_path):
    with JudgeServer(judge(lambda said: True)) as server:
        made = sample(batches(tmp_path, server), "some sum", "17")
    (line, *_) = read_jsonl(tmp_path / "partial" / "step-0000.jsonl")
    saved = line["episodes"][0]
    assert saved["verdict"]["accept"] is True
    assert "answer_key" not in saved
    kept = UnfinishedStep(tmp_path / "partial").groups(0)
    assert {task: group.rewards for task, group in kept.items()} == {g.task: [1.0, 0.0] for g in made.groups}


def test_a_judge_that_fails_fails_the_group_and_no_answer_counts_as_wrong(tmp_path):
    def moody(messages):
        question, *_ = shown(messages)
        return Reply("no") if "What is 4" in question else judge(lambda said: True)(messages)

    with JudgeServer(moody) as server:
        made = sample(batches(tmp_path, server), "some sum", "17")
    assert {g.task.key for g in made.rewarded} == {"sum/2", "sum/8"}
    assert (made.unrewarded, made.dropped, made.metrics()["judge/failures"]) == (1, 1, 1.0)
    (failed,) = [t for t in made.sampled if t.unmarked]
    assert failed.unmarked.startswith("the answer judge: openai/o4-mini gave no usable answer")
    assert made.metrics()["reward/mean"] == 0.5, "the unmarked group is no part of the mean"


def test_too_many_failed_verdicts_stop_the_run(tmp_path):
    with JudgeServer(lambda messages: Reply("no")) as server:
        made = batches(tmp_path, server)
        assert sample(made, "some sum", "17").unrewarded == 3
        with pytest.raises(JudgeFailure, match=r"6 of the newest 6 groups .*no usable answer on an answer.*--resume"):
            sample(made, "some sum", "17")


def test_spent_money_asks_no_more(tmp_path):
    with JudgeServer(judge(lambda said: True)) as server:
        limits = {"answer_judge.max_cost": 1e-9, "answer_judge.concurrency": 1}
        made = sample(batches(tmp_path, server, **limits), "some sum", "17")
    assert made.unrewarded == 2
    assert {"are spent" in episode.unmarked for episode in made.sampled if episode.unmarked} == {True}
    assert len(server.requests) == 1


def test_with_ruler_beside_it_a_right_answer_in_other_words_outranks_a_wrong_one(tmp_path):
    """RULER likes the wrong answer better; it may order answers only within right and wrong."""

    def both(messages):
        if "<trajectory" not in messages[1]["content"]:
            return judge(lambda said: said == "twice that")(messages)
        return score_by(lambda trajectory: (1.0 if trajectory[-2]["content"] == "a handful" else 0.0, ""))(messages)

    with JudgeServer(both) as server:
        made = sample(batches(tmp_path, server, reward="env+ruler"), "twice that", "a handful")
    assert [g.rewards for g in made.groups] == [[1.0, 0.25]] * 3
    metrics = made.metrics()
    assert (metrics["reward/env"], metrics["judge/score"], metrics["answer/by_judge"]) == (0.5, 0.5, 1.0)
    assert metrics["judge/cost_usd"] > 0
    assert metrics["answer/cost_usd"] > 0


def test_what_a_rule_took_for_right_is_audited_and_keeps_its_reward(tmp_path):
    with JudgeServer(judge(lambda said: said == "4")) as server:
        made = sample(batches(tmp_path, server, **{"answer_judge.audit_share": 1.0}), "{double}", "17")
    assert sorted(shown(request.body["messages"])[-1] for request in server.requests) == ["16", "4", "8"]
    assert [g.rewards for g in made.groups] == [[1.0, 0.0]] * 3
    metrics = made.metrics()
    assert (metrics["answer/audited"], metrics["answer/audit_disagreement"]) == (3.0, pytest.approx(2 / 3))
    assert metrics["answer/by_rule"] == 1.0
    (audit,) = [t.audit for t in made.sampled if t.task.key == "sum/8" and t.audit]
    wanted = {"question": "What is 8 + 8?", "answer": "16", "reasoning": "About 16."}
    assert audit == wanted | {"accept": False, "decided_by": "judge"}


def test_an_audit_that_fails_changes_nothing(tmp_path):
    with JudgeServer(lambda messages: Reply("no")) as server:
        made = sample(batches(tmp_path, server, **{"answer_judge.audit_share": 1.0}), "{double}", "17")
    assert [g.rewards for g in made.groups] == [[1.0, 0.0]] * 3
    assert "answer/audited" not in made.metrics()


def test_a_stable_share_is_audited():
    chosen = [is_audited(0.05, "q", number) for number in range(4000)]
    assert 0.04 < sum(chosen) / 4000 < 0.06
    assert [number for number in range(50) if chosen[number]] == [5, 18, 21, 25, 30, 48]
    assert all(is_audited(1.0, number) and not is_audited(0.0, number) for number in range(100))


def test_the_warning_begins_above_the_bound():
    assert audit_warning(0, 0) == audit_warning(1, 10) == ""
    assert audit_warning(2, 10).startswith("the answer judge refuses 2 of 10 audited answers")
    assert audit_warning(1, 1).endswith("above the bound of 10%: the policy may be exploiting the rule")


def test_the_warning_is_about_the_ten_newest_steps_together():
    old = {"answer/audited": 8.0, "answer/audit_disagreement": 1.0}
    steps = [
        old,
        {},
        *[{"answer/audited": 1.0, "answer/audit_disagreement": 0.0}] * 7,
        {"answer/audited": 3.0, "answer/audit_disagreement": 2 / 3},
        {},
    ]
    assert "refuses 2 of 10 audited answers" in newest_audits_warning(steps)
    assert newest_audits_warning([old, *[steps[2]] * 10]) == newest_audits_warning([]) == ""


async def test_the_mail_env_pays_a_verdict_by_its_own_tiers(tmp_path):
    path = tmp_path / "mail.db"
    asked = question("why", question="Why was it late?", answer="Because of the heavy rain", message_ids=("m1",))
    build(path, mail("m1", "Late", "It was late because of the heavy rain."), scenarios=[asked])
    env = MessageEnv("EmailSearch-v0", {"db_path": str(path), "split": asked.split})
    env.reset(Task(0, "why"))
    env.step('{"name": "read_email", "arguments": {"message_id": "m1"}}')
    said = {"answer": "It rained cats and dogs", "sources": ["m1"]}
    seen = env.step(json.dumps({"name": "return_final_answer", "arguments": said}))
    key = env.answered(None)
    assert key.answer == "It rained cats and dogs"
    assert (seen.metrics["reward"], seen.metrics["undecided"]) == (pytest.approx(-0.7), 1.0)
    with JudgeServer(judge(lambda said: True)) as server:
        marker = Marker(AnswerJudgeSettings(model="openai/o4-mini", api_base=server.url), tmp_path)
        marked = await marker.marked(Episode("E", Task(0, "why"), metrics=seen.metrics, answer_key=key))
    # 1 right + 0.3 recall + 0.1 precision + 0.1 * (1 - 2/10) speed
    assert marked.reward == marked.metrics["reward"] == pytest.approx(1.48)
    assert (marked.metrics["success"], marked.metrics["undecided"]) == (1.0, 0.0)


def test_an_env_that_does_not_say_what_a_right_answer_is_worth_gets_one_more():
    env = MessageEnv(SUMS_ENV, {})
    env.reset(Task(0, "sum/2"))
    assert env.answered("two pairs") == AnswerKey("What is 2 + 2?", ("4",), "two pairs")
    assert env.answered(" ") is None
    assert env.answered(None) is None


@pytest.mark.parametrize("value", [None, 1.0, (1.0,), ("a", {}), (float("nan"), {}), (1.0, {"other": 1.0})])
def test_an_outcome_of_another_form_is_named(monkeypatch, value):
    env = MessageEnv(SUMS_ENV, {})
    env.reset(Task(0, "sum/2"))
    monkeypatch.setattr(type(env.env.unwrapped), "judged", lambda self, right: value, raising=False)
    with pytest.raises(EnvError, match=r"judged"):
        env.answered("4")
    assert env.broken


def test_an_outcome_by_the_env_is_kept_with_the_key(monkeypatch):
    env = MessageEnv(SUMS_ENV, {})
    metrics = env.reset(Task(0, "sum/2")).metrics
    monkeypatch.setattr(type(env.env.unwrapped), "judged", lambda self, right: (3 * right, metrics), raising=False)
    assert env.answered("4").outcomes == {True: Outcome(3.0, metrics), False: Outcome(0.0, metrics)}


def test_an_env_whose_answers_cannot_be_marked_is_refused(monkeypatch):
    env = MessageEnv(SUMS_ENV, {})
    check_markable(env, "--answer-judge")
    monkeypatch.setattr(type(env.env.unwrapped), "_metrics", lambda self: {"turns": 0.0})
    with pytest.raises(ConfigError, match="no metric 'success'"):
        check_markable(MessageEnv(SUMS_ENV, {}), "--answer-judge")


def test_a_group_that_was_marked_keeps_no_key_in_its_copies(tmp_path):
    made = sample(batches(tmp_path, None), "{double}", "17")
    trajectory = made.sampled[0]
    assert trajectory.answer_key is not None
    assert episode_of(json.loads(line_of(trajectory, logprobs=True))) == replace(trajectory, answer_key=None)

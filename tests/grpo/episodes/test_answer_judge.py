"""`grpo-eval --answer-judge`: answers that the env does not take for right are judged, and nothing else is."""

import json
import re

import gymnasium
import pytest

from grpo.envs.message_env import AnswerKey, MessageEnv
from grpo.errors import EnvError
from grpo.report import write_report
from grpo.types import Task
from tests.support.envs import SUMS_ENV
from tests.support.episodes import lines_of
from tests.support.evaluations import refused, rows, run
from tests.support.judge_server import ASKED, JudgeServer

ANSWERS = {
    "sum/0": "0",  # right, says the env
    "sum/1": "17",  # nothing is right here but "I don't know"
    "sum/2": "two pairs",  # another wording: for the judge
    "sum/3": "I don't know",
    "sum/4": "9",  # another number: a rule knows
    "sum/6": "I don't know",  # gives up: the env's no stands
    "sum/8": "a handful",  # for the judge
}


def accept(*wanted):
    def verdict(messages):
        right = any(text in messages[-1]["content"] for text in wanted)
        return json.dumps(
            {"answer_id": ASKED, "reasoning": f"It is {'the same' if right else 'another'} number.", "accept": right}
        )

    return verdict


def evaluate_judged(tmp_path, server, *arguments, said=ANSWERS, count=9):
    """An evaluation of these answers, one by one."""
    path = tmp_path / "answers.jsonl"
    lines = [{"scenario_id": name, "answer": text} for name, text in said.items()]
    path.write_text("\n".join(map(json.dumps, lines)))
    judge = ("--answer-judge", "openai/o4-mini", "--answer-judge-api-base", server.url)
    common = ("--agent", f"file:{path}", "--concurrency", "1", "--out", str(tmp_path / "run"))
    return run(*common, *judge, *arguments, count=count)


@pytest.fixture(autouse=True)
def key(monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", "sk-of-the-tests")


def test_only_what_the_env_refuses_and_no_rule_decides_is_asked(tmp_path):
    with JudgeServer(accept("two pairs")) as server:
        shown = evaluate_judged(tmp_path, server)
        asked = [request.body["messages"][-1]["content"] for request in server.requests]
    assert shown.exit_code == 0, shown.output
    assert len(asked) == 2
    assert all('"What is 2 + 2?"' in text or '"What is 8 + 8?"' in text for text in asked)
    saved = {row["scenario_id"]: row for row in rows(tmp_path / "run")}
    correct = {name for name, row in saved.items() if row["correct"]}
    assert correct == {"sum/0", "sum/2", "sum/3"}
    decided = {name: row["verdict"]["decided_by"] for name, row in saved.items() if row["verdict"]}
    assert decided == {"sum/2": "judge", "sum/4": "match", "sum/8": "judge"}
    assert saved["sum/2"]["verdict"]["reasoning"] == "It is the same number."
    assert saved["sum/2"]["metrics"]["success"] == 1.0, "metrics follow the verdict"
    summary = json.loads((tmp_path / "run" / "summary.json").read_text())
    assert summary["metrics"]["answer/correct"]["mean"] == pytest.approx(3 / 9)
    assert summary["slices"]["easy"]["answer/correct"]["mean"] == pytest.approx(3 / 9)
    judge = summary["answer_judge"]
    assert (judge["verdicts"], judge["by_model"], judge["accepted"]) == (3, 2, 1)
    assert "3 answers (2 by openai/o4-mini), 1 accepted" in shown.output
    page = write_report(tmp_path / "run").read_text()
    assert "right, by judge. It is the same number." in page
    judged = lines_of(tmp_path / "run" / "judgements.jsonl")
    assert sorted(line["verdict"]["accept"] for line in judged) == [False, True]
    for path in (tmp_path / "run").rglob("*"):
        assert path.is_dir() or b"sk-of-the-tests" not in path.read_bytes()


def test_the_verdict_counts_in_the_reward_too_and_a_share_of_the_accepted_is_audited(tmp_path):
    with JudgeServer(accept("two pairs")) as server:
        shown = evaluate_judged(tmp_path, server, "--set", "answer_judge.audit_share=1")
        asked = len(server.requests)
        again = evaluate_judged(tmp_path, server, "--set", "answer_judge.audit_share=1", "--resume")
    assert (shown.exit_code, again.exit_code) == (0, 0)
    assert asked == len(server.requests) == 3, "0 is right by the rule, and was shown to the judge too"
    saved = {row["scenario_id"]: row for row in rows(tmp_path / "run")}
    assert (saved["sum/2"]["reward"], saved["sum/8"]["reward"], saved["sum/0"]["reward"]) == (1.0, 0.0, 1.0)
    assert saved["sum/0"]["correct"] is True, "an audit takes nothing away"
    assert (saved["sum/0"]["audit"]["accept"], saved["sum/0"]["audit"]["answer"]) == (False, "0")
    assert [name for name, row in saved.items() if row["audit"]] == ["sum/0"]
    assert "Audit of the rule" in shown.output
    assert "1 that it accepted, 1 refused by the judge" in shown.output
    page = write_report(tmp_path / "run").read_text()
    assert "Of 1 answer that the rule took for right and the judge saw, too, the judge refuses 1." in page


def test_a_judge_that_never_answers_well_ends_the_evaluation_and_resume_goes_on(tmp_path):
    said = {f"sum/{number}": "some" for number in range(9)}
    with JudgeServer([401, 401, 401, 401]) as server:
        shown = evaluate_judged(tmp_path, server, said=said)
        assert shown.exit_code == 1
        assert "the first 3 answers could not be judged" in shown.output
        assert "Traceback" not in shown.output
    assert len(rows(tmp_path / "run")) < 9
    with JudgeServer(accept("some")) as server:
        again = evaluate_judged(tmp_path, server, "--resume", said=said)
        assert again.exit_code == 0, again.output
        refused = evaluate_judged(tmp_path, server, "--resume", "--answer-judge", "openai/gpt-5", said=said)
    assert {row["correct"] for row in rows(tmp_path / "run") if row["scenario_id"] in ("sum/2", "sum/4")} == {True}
    assert refused.exit_code == 1
    assert "answer_judge.model: 'openai/o4-mini' -> 'openai/gpt-5'" in refused.output


def test_what_a_rule_decides_does_not_make_up_for_a_judge_that_never_answers(tmp_path):
    # in the order of play; 5 is not 4, and 1 is not 16: a rule knows
    said = {"sum/2": "5", "sum/6": "some", "sum/0": "some", "sum/8": "1", "sum/10": "some", "sum/4": "some"}
    with JudgeServer([401] * 9) as server:
        shown = evaluate_judged(tmp_path, server, said=said, count=12)
    assert shown.exit_code == 1
    assert "the first 3 answers could not be judged" in shown.output
    saved = {row["scenario_id"]: row for row in rows(tmp_path / "run")}
    decided = {name: row["verdict"]["decided_by"] for name, row in saved.items() if row.get("verdict")}
    assert decided == {"sum/2": "match", "sum/8": "match"}
    assert "sum/4" not in saved, "it was not played any more"


def test_one_verdict_that_fails_is_an_infrastructure_failure_that_resume_mends(tmp_path):
    first, second = accept("two pairs"), iter([None, 401])

    def moody(messages):
        return next(second, None) or first(messages)

    with JudgeServer(moody) as server:
        shown = evaluate_judged(tmp_path, server)
        assert shown.exit_code == 3, shown.output
        failed = [row for row in rows(tmp_path / "run") if row["ending"] == "infrastructure"]
        assert len(failed) == 1
        assert failed[0]["error"].startswith("the answer judge: ")
        assert failed[0]["correct"] is None
        again = evaluate_judged(tmp_path, server, "--resume")
    assert again.exit_code == 0, again.output
    assert {row["scenario_id"] for row in rows(tmp_path / "run") if row["correct"]} == {"sum/0", "sum/2", "sum/3"}
    assert len(rows(tmp_path / "run")) == 9


def test_spent_money_ends_the_evaluation_and_what_was_played_is_kept(tmp_path):
    with JudgeServer(accept("two pairs")) as server:
        shown = evaluate_judged(tmp_path, server, "--set", "answer_judge.max_cost=0.000001")
        assert shown.exit_code == 1
        assert "are spent" in shown.output
        assert len(server.requests) == 1
        again = evaluate_judged(tmp_path, server, "--set", "answer_judge.max_cost=1", "--resume")
    assert again.exit_code == 0, again.output
    assert len(rows(tmp_path / "run")) == 9


def test_a_judge_of_ones_own_has_a_price_and_is_called_as_told(tmp_path):
    params = {
        "reasoning_effort": "low",
        "input_cost_per_token": 0,
        "output_cost_per_token": 0,
        "my_api_key": "not-for-files",
    }
    with JudgeServer(accept("two pairs")) as server:
        call = {"max_cost": 1, "extra_litellm_params": params, "timeout_seconds": 50}
        options = [f"--set=answer_judge.{name}={json.dumps(value)}" for name, value in call.items()]
        shown = evaluate_judged(tmp_path, server, *options)
    assert shown.exit_code == 0, shown.output
    assert {request.body["reasoning_effort"] for request in server.requests} == {"low"}
    assert "not-for-files" not in "".join(path.read_text() for path in (tmp_path / "run").glob("*.json*"))


def test_the_mail_env_tells_the_harness_what_is_right_and_nothing_where_nothing_is():
    env = gymnasium.make("email_env:EmailSearch-v0", split="test").unwrapped
    assert env.answer_key() is None, "there is no episode yet"
    chosen = {scenario.answerable: scenario for scenario in env.catalog.of("test").values()}
    env = MessageEnv("EmailSearch-v0", {"split": "test"})
    env.reset(Task(0, chosen[True].scenario_id))
    right = chosen[True]
    assert env.answer_key() == AnswerKey(right.question, (right.answer, *right.accepted))
    env.reset(Task(0, chosen[False].scenario_id))
    assert env.answer_key() is None


@pytest.mark.parametrize(
    ("env", "arguments", "problem"),
    [
        (
            "FrozenLake-v1",
            ["--answer-judge", "openai/o4-mini"],
            r"FrozenLake-v1 has no answer_key\(\).*leave --answer-judge out",
        ),
        (SUMS_ENV, ["--set", "answer_judge.max_cost=1"], r"answer_judge\.max_cost goes with .*--answer-judge"),
        (
            SUMS_ENV,
            ["--answer-judge", "m", "--answer-judge-api-base", "127.0.0.1:9/v1"],
            "Error: the answer judge: api_base '127.0.0.1:9/v1' is no URL",
        ),
        (
            SUMS_ENV,
            ["--answer-judge", "m", "--set", 'answer_judge.extra_litellm_params={"n": 2}'],
            "Error: the answer judge: extra_litellm_params may not set n",
        ),
        (SUMS_ENV, ["--answer-judge", ""], "Error: the answer judge: judge_model is empty; name one"),
    ],
)
def test_a_judge_that_cannot_be_asked_is_refused_before_anything_is_played(tmp_path, env, arguments, problem):
    assert re.search(problem, refused(tmp_path, "--agent", "random", *arguments, env=env))


def test_a_key_of_another_form_is_named(monkeypatch):
    env = MessageEnv(SUMS_ENV, {"count": 3})
    env.reset(Task(0, "sum/2"))
    monkeypatch.setattr(type(env.env.unwrapped), "answer_key", lambda self: {"question": "What?"})
    with pytest.raises(EnvError, match=r"answer_key\(\) gave \{'question': 'What\?'\}; want None or"):
        env.answer_key()


def test_a_damaged_cache_of_the_judge_is_explained(tmp_path):
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "judge-cache.db").write_text("no database, but long enough to be looked at as one")
    judge = ("--answer-judge", "openai/m", "--answer-judge-api-base", "http://127.0.0.1:1/v1")
    shown = run("--agent", "oracle", *judge, "--out", str(tmp_path / "run"), count=1)
    assert shown.exit_code == 1
    assert "judge-cache.db cannot be used (file is not a database); see to its disk, or move" in shown.output

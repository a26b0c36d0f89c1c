"""Which scenario an episode plays: by seed, split, difficulty, id or index, from the database or given ones."""

import json
import os
from dataclasses import replace

import pytest

from email_env.env import EmailSearchEnv
from email_env.errors import ConfigurationError, UnknownScenarioError
from tests.email_env.mails import BEN, question
from tests.email_env.office import BUDGET, SCENARIOS, build_office


def test_the_seed_chooses_the_scenario(path):
    env, other = EmailSearchEnv(path, split=None), EmailSearchEnv(path, split=None)
    ids = [env.reset(seed=seed)[1]["scenario_id"] for seed in range(30)]
    assert ids == [other.reset(seed=seed)[1]["scenario_id"] for seed in range(30)]
    assert set(ids) == {scenario.scenario_id for scenario in SCENARIOS}
    assert env.reset(seed=1, options={"scenario_id": "moved"})[1]["scenario_id"] == "moved"


def test_scenarios_are_those_of_the_split_and_difficulty(path):
    env = EmailSearchEnv(path)
    assert env.scenario_ids() == ["budget", "moved", "nowhere"]
    assert len(env.scenario_ids()) == 3
    assert env.reset(options={"index": 1})[1]["scenario_id"] == "moved"
    assert env.reset(options={"split": "test"})[1]["scenario_id"] == "city"
    assert EmailSearchEnv(path, split="test").scenario_ids() == ["city"]
    assert EmailSearchEnv(path, difficulties=["easy", "hard"]).scenario_ids() == ["budget", "moved"]
    assert EmailSearchEnv(path, difficulties="medium").scenario_ids() == ["nowhere"]


@pytest.mark.parametrize(
    ("options", "error", "hint"),
    [
        ({"scenario_id": "budgets"}, UnknownScenarioError, "The nearest are 'budget'"),
        ({"scenario_id": "city"}, UnknownScenarioError, "'city' ('test', '')"),
        ({"scenario_id": 5}, UnknownScenarioError, "No scenario 5"),
        ({"index": 3}, UnknownScenarioError, "from 0 to 2, got 3"),
        ({"index": -1}, UnknownScenarioError, "from 0 to 2, got -1"),
        ({"index": "one"}, UnknownScenarioError, "got 'one'"),
        ({"split": "tests"}, ConfigurationError, "Did you mean 'test'?"),
        ({"split": "validation"}, UnknownScenarioError, "No scenarios in split 'validation'"),
        ({"scenario": "budget"}, ConfigurationError, "Did you mean 'scenario_id'?"),
        ({"scenario_id": "budget", "index": 0}, ConfigurationError, "not both"),
    ],
)
def test_a_scenario_that_is_not_there_is_an_error_that_helps(env, options, error, hint):
    with pytest.raises(error) as caught:
        env.reset(options=options)
    assert hint in str(caught.value)


@pytest.mark.parametrize(
    ("options", "hint"),
    [
        ({"split": "Train"}, "Did you mean 'train'?"),
        ({"order": "new"}, "Did you mean 'newest'?"),
        ({"difficulties": ["eazy"]}, "Did you mean 'easy'?"),
        ({"difficulties": 5}, "difficulties must be a list, got 5"),
        ({"scenarios": 5}, "scenarios must be a list, got 5"),
        ({"fallback_any": "no"}, "fallback_any must be one of True, False, 'fill'; got 'no'"),
        ({"terse": "no"}, "terse must be one of True, False; got 'no'"),
        ({"max_turns": 0}, "max_turns must be a whole number from 1"),
        ({"max_results": 11}, "max_results must be a whole number from 1 to 10, got 11"),
        ({"snippet_words": 2.5}, "snippet_words"),
        ({"max_body_chars": True}, "max_body_chars"),
        ({"render_mode": "human"}, "render_mode must be one of 'ansi', None"),
        ({"reward": {"sped": 1}}, "Did you mean 'speed'?"),
        ({"scenarios": [{"id": 1}]}, "list of Scenario"),
    ],
)
def test_an_option_that_makes_no_sense_is_refused(path, options, hint):
    with pytest.raises(ConfigurationError) as caught:
        EmailSearchEnv(path, **options)
    assert hint in str(caught.value)


def test_scenarios_and_database_may_come_from_the_environment(path, tmp_path, monkeypatch):
    file = tmp_path / "questions.jsonl"
    file.write_text(json.dumps(question("mine", message_ids=("m1",)).to_dict()) + "\n")
    monkeypatch.setenv("EMAIL_ENV_DB", str(path))
    assert len(EmailSearchEnv().scenario_ids()) == 3
    assert EmailSearchEnv(scenarios=file).scenario_ids() == ["mine"]
    monkeypatch.setenv("EMAIL_ENV_SCENARIOS", str(file))
    assert EmailSearchEnv().scenario_ids() == ["mine"]
    assert EmailSearchEnv(scenarios=[BUDGET]).scenario_ids() == ["budget"]
    monkeypatch.setenv("HOME", str(path.parent))
    monkeypatch.setenv("EMAIL_ENV_DB", f"~/{path.name}")
    assert EmailSearchEnv().scenario_ids() == ["mine"]


def test_scenarios_that_the_mail_cannot_serve_are_left_out_with_the_reason(path, caplog):
    given = [
        BUDGET,
        question("other", inbox="nobody@x.com"),
        question("gone", message_ids=("m99",)),
        question("empty", message_ids=("m1",), answer=" "),
    ]
    env = EmailSearchEnv(path, scenarios=given)
    assert env.scenario_ids() == ["budget"]
    assert env.misfits == {"other": "no mail of nobody@x.com", "gone": "no mail m99", "empty": "its answer is empty"}
    assert "3 given scenarios do not fit" in caplog.text
    with pytest.raises(UnknownScenarioError, match=r"'gone' does not fit .*: no mail m99"):
        env.reset(options={"scenario_id": "gone"})


@pytest.mark.parametrize("ids", [{}, {"message_ids": []}, {"message_ids": None}])
def test_an_answer_without_evidence_is_a_misfit_and_not_unanswerable(path, tmp_path, ids):
    answers = {
        "amount": "$13,750",
        "when": "not available until May 5",
        "none": "",
        "unknown": "unknown",
        "known": "I do not know.",
        "said": "The mail does not say what the party cost",
    }
    lines = [
        {"id": key, "question": "What did the party cost?", "answer": answer, "inbox_address": BEN} | ids
        for key, answer in answers.items()
    ]
    file = tmp_path / "questions.jsonl"
    file.write_text("\n".join(json.dumps(line | {"query_date": "2001-06-01"}) for line in lines))
    env = EmailSearchEnv(path, scenarios=file)
    assert env.scenario_ids() == ["none", "unknown", "known", "said"]
    why = 'it has an answer but no message_ids; where the mail does not say, the answer is "I don\'t know"'
    assert env.misfits == {"amount": why, "when": why}


def test_a_given_scenario_may_hold_lists(path):
    given = replace(BUDGET, message_ids=list(BUDGET.message_ids), accepted=list(BUDGET.accepted))
    assert EmailSearchEnv(path, scenarios=[given]).catalog.of("train") == {"budget": BUDGET}


def test_envs_alike_warn_once_and_a_rebuilt_database_is_looked_at_anew(tmp_path, caplog):
    path = build_office(tmp_path)
    given = [BUDGET, question("soon", message_ids=("m98",))]
    assert [EmailSearchEnv(path, scenarios=given).misfits for _ in range(3)] == [{"soon": "no mail m98"}] * 3
    assert caplog.text.count("1 given scenarios do not fit") == 1
    status = path.stat()
    os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns + 1))
    EmailSearchEnv(path, scenarios=given)
    assert caplog.text.count("1 given scenarios do not fit") == 2


def test_scenarios_of_which_none_fits_the_mail_are_refused_with_the_reason(path):
    with pytest.raises(UnknownScenarioError, match=r"1 do not fit the mail: other: no mail of nobody@x\.com"):
        EmailSearchEnv(path, scenarios=[question("other", inbox="nobody@x.com")])

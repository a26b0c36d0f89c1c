"""What a run asks of its judges and says of its questions before anything is started."""

import json

import pytest
from click.testing import CliRunner

from grpo.cli.before_start import what_would_run
from grpo.cli.train import train
from grpo.config import load_config
from grpo.envs.message_env import MessageEnv
from grpo.episodes.judges import check_judges
from grpo.episodes.references import check_references, reach_warning
from grpo.errors import ConfigError, JudgeFailure
from grpo.training.rewards import group_reward
from grpo.types import Task
from tests.email_env.mails import build, mail, question
from tests.support.envs import SUMS_ENV, WORD_ENV
from tests.support.evaluations import run
from tests.support.judge_server import ASKED, JudgeServer, score_by

pytest.importorskip("litellm", reason="judges need litellm (install the extra 'judge')")

RIGHT = json.dumps({"answer_id": ASKED, "reasoning": "Seven is 7.", "accept": True})
NOBODY = "http://127.0.0.1:9/v1"


def config(env=WORD_ENV, **settings):
    return load_config(None, {"env": env, **settings})


def test_every_judge_that_a_run_names_gives_one_real_verdict(monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", "sk-of-the-tests")

    def both(messages):
        asked_for_scores = "<trajectory" in messages[1]["content"]
        return score_by(lambda trajectory: (0.5, "fair"))(messages) if asked_for_scores else RIGHT

    with JudgeServer(both) as server:
        named = {"judge.model": "openai/o4-mini", "judge.api_base": server.url, "answer_judge.model": "openai/gpt-5"}
        found = check_judges(config(reward="env+ruler", **named, **{"answer_judge.api_base": server.url}))
        again = check_judges(config(reward="env+ruler", **named, **{"answer_judge.api_base": server.url}))
    assert [request.body["model"] for request in server.requests] == ["o4-mini", "gpt-5"] * 2, "no cache answers"
    assert [line.partition(" (")[0] for line in found] == [
        "RULER's judge openai/o4-mini gives verdicts",
        "the answer judge openai/gpt-5 gives verdicts",
    ]
    assert found == again


@pytest.mark.parametrize(
    ("settings", "problem"),
    [
        ({"reward": "ruler", "judge.api_base": NOBODY}, r"failed after 2 attempts .*\(judge\.api_base\)"),
        ({"answer_judge.model": "openai/o4-mini"}, r"there is no API key for openai/o4-mini.*\(answer_judge\.model\)"),
        ({"answer_judge.model": "m", "answer_judge.api_base": "ftp://x"}, "api_base 'ftp://x' is no URL"),
    ],
)
def test_a_judge_that_cannot_be_asked_is_named_before_anything_is_started(monkeypatch, settings, problem):
    for name in ("OPENAI_API_KEY", "OPENAI_BASE_URL", "OPENAI_API_BASE"):
        monkeypatch.delenv(name, raising=False)
    with pytest.raises(JudgeFailure, match=f"(?s){problem}") as stopped:
        check_judges(config(**settings))
    assert "nothing was started" in str(stopped.value)


def test_a_rubric_that_cannot_be_read_is_named_before_a_judge_is_asked(tmp_path):
    """A recipe names it, so no option has looked whether it is there."""
    rubric = tmp_path / "rubric.txt"
    with JudgeServer([]) as server:
        named = {"env": "Word-v0", "reward": "env+ruler", "judge.api_base": server.url, "judge.rubric": str(rubric)}
        for content, problem in ((None, "No such file"), (b"\xff\xfe\x00", "can't decode"), (b" \n", "is empty")):
            if content is not None:
                rubric.write_bytes(content)
            for refused in (check_judges, lambda config: list(what_would_run(config, tmp_path / "run"))):
                with pytest.raises(ConfigError, match=rf"the rubric .*rubric\.txt \(judge\.rubric\) .*{problem}"):
                    refused(load_config(None, named))
        assert server.requests == []
    assert check_judges(load_config(None, named | {"reward": "env"})) == [], "no judge reads it"
    rubric.write_text("Größe", encoding="utf-8")
    assert load_config(None, named).rubric() == "Größe"


def test_a_limit_of_money_that_cannot_be_kept_is_said_at_once():
    with JudgeServer([RIGHT]) as server:
        unpriced = {"answer_judge.model": "my-own", "answer_judge.api_base": server.url, "answer_judge.max_cost": 1}
        with pytest.raises(JudgeFailure, match="what a call of my-own costs is not known"):
            check_judges(config(**unpriced))
    with JudgeServer([RIGHT]) as server:
        priced = {"answer_judge.extra_litellm_params": {"input_cost_per_token": 0.0, "output_cost_per_token": 0.0}}
        (found,) = check_judges(config(**unpriced | priced | {"answer_judge.api_base": server.url}))
    assert found.endswith("$0.0000)")


def test_a_run_with_a_judge_that_does_not_answer_loads_no_model(tmp_path):
    judge = ["--answer-judge", "m", "--answer-judge-api-base", NOBODY]
    arguments = ["--env", SUMS_ENV, "--model", "no-such-model", *judge, "--run-dir", str(tmp_path / "run")]
    result = CliRunner().invoke(train, arguments)
    assert result.exit_code == 1
    assert "nothing was started" in result.output
    assert "no-such-model" not in result.output
    assert {path.name for path in (tmp_path / "run").iterdir()} == {"config.json", ".lock"}


def test_an_answer_judge_for_an_env_that_tells_no_answers_is_refused(tmp_path):
    arguments = ["--env", WORD_ENV, "--answer-judge", "m", "--run-dir", str(tmp_path / "run")]
    result = CliRunner().invoke(train, arguments)
    assert result.exit_code == 1
    assert "has no answer_key(), so a judge would not know what is right; leave --answer-judge out" in result.output
    assert not (tmp_path / "run").exists()


def test_settings_of_a_judge_that_is_not_named_are_refused():
    with pytest.raises(ConfigError, match=r"answer_judge\.api_base goes with answer_judge\.model \(--answer-judge\)"):
        config(**{"answer_judge.api_base": NOBODY})


def test_a_damaged_cache_is_explained(tmp_path):
    (tmp_path / "judge-cache.db").write_text("no database, but long enough to be looked at as one")
    with pytest.raises(ConfigError, match=r"judge-cache\.db cannot be used .*move the file away"):
        group_reward(config(reward="ruler"), tmp_path)


SENTENCE = "The lawyers asked for another week because the signatures were missing."


@pytest.fixture(scope="module")
def talkative(tmp_path_factory):
    """A mailbox of ten questions, of which four have sentences for answers and one has none at all."""
    path = tmp_path_factory.mktemp("mail") / "mail.db"
    answers = [SENTENCE] * 4 + ["Anna Keller", "$4,200", "5 May 2022", "Bonn (Germany)", "I could not find the answer."]
    asked = [
        question(f"q{n}", question=f"What about item {n}?", answer=text, message_ids=("m1",))
        for n, text in enumerate(answers)
    ]
    asked.append(question("none", question="Who?", answer="I don't know", message_ids=()))
    build(path, mail("m1", "Items", "All of it."), scenarios=asked)
    return {"db_path": str(path)}


def test_a_run_on_sentences_says_what_a_rule_can_mark_and_what_to_do(talkative, tmp_path):
    (line,) = check_references(config("EmailSearch-v0", env_kwargs=talkative))
    assert line.startswith(
        "Warning: a rule alone can mark right answers to at most 56% of the questions (9 looked at),"
    )
    assert line.endswith("--answer-judge MODEL")
    assert check_references(config("EmailSearch-v0", env_kwargs=talkative, **{"answer_judge.model": "m"})) == []
    arguments = ("--agent", "oracle", "--split", "train", "--out", str(tmp_path / "run"))
    shown = run(*arguments, env="EmailSearch-v0", **talkative)
    assert shown.exit_code == 0
    assert "right answers to at most 56% of the questions (9 looked at)" in shown.stderr
    assert "Undecided by rule" in shown.stdout
    summary = json.loads((tmp_path / "run" / "summary.json").read_text())
    assert summary["metrics"]["answer/correct"]["mean"] == 1.0, "the oracle is right whatever a reference says"


def test_questions_within_reach_need_no_word():
    assert check_references(config("EmailSearch-v0")) == []
    assert check_references(config("FrozenLake-v1")) == []
    env = MessageEnv(SUMS_ENV, {})
    assert reach_warning(env, [Task(0, "sum/2"), Task(0, "sum/3")]) == []
    assert reach_warning(env, [Task(0, "sum/3")]) == [], "no question with an answer was seen"

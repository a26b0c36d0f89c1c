"""`make-scenarios` with an LLM that gives no answer: asked again, counted, or the end of the run."""

import json

import pytest
from click.testing import CliRunner

from email_env.make_scenarios.cli import main
from email_env.scenarios.sets import load_scenarios
from tests.email_env.mails import BEN
from tests.email_env.make_scenarios.parts import ask_for_the_code, llm, make, parcels
from tests.support.judge_server import JudgeServer, Reply

pytest.importorskip("litellm", reason="an LLM needs litellm (install the extra 'judge')")


def test_a_wrong_key_ends_the_run_at_once_and_is_not_printed(office, monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", "sk-very-secret-0123")
    with JudgeServer([Reply(content="no access for sk-very-secret-0123", status=401)]) as server:
        result = make(office, server, "--inbox", BEN)
    assert (result.exit_code, len(server.requests)) == (1, 1)
    assert "no access for [key]" in result.stderr
    assert (
        "Check --model, --api-base, --timeout and the provider's key. 0 mails are finished; --resume goes on."
        in result.stderr
    )
    assert "very-secret" not in result.output
    with JudgeServer(llm()) as server:
        assert make(office, server, "--inbox", BEN).exit_code == 0, "nothing was written, so nothing is in the way"


def test_a_mail_without_an_answer_is_counted_and_asked_about_again(tmp_path):
    path = parcels(tmp_path / "office.db", 3)

    def author(data):
        return Reply(status=422) if data["subject"] == "Note 1" and fails else ask_for_the_code(data)

    fails = True
    with JudgeServer(llm(author)) as server:
        result = make(path, server, "--inbox", BEN)
        assert result.exit_code == 3, result.output
        assert "2 questions" in result.stdout
        said = result.stdout.partition("failed    1 without an answer of the LLM; --resume asks again\n")[2]
        assert said.startswith(f"            the last: openai/writer at {server.url} failed (")
        assert "Check --model, --api-base, --timeout and the provider's key.\n  LLM  " in said
        fails, before = False, len(server.requests)
        assert make(path, server, "--inbox", BEN).exit_code == 1
        result = make(path, server, "--inbox", BEN, "--resume")
    assert result.exit_code == 0, result.output
    assert len(server.requests) == before + 2, "only the missing mail is asked about"
    assert sorted(s.answer for s in load_scenarios(tmp_path / "made.jsonl")) == ["KX1000", "KX1007", "KX1014"]


def test_the_summary_as_json_says_why_the_llm_gave_no_answer(office):
    with JudgeServer(lambda messages: 422) as server:
        result = make(office, server, "--inbox", BEN, "--json")
        assert result.exit_code == 3
        summary = json.loads(result.stdout)
        assert summary["failed"] == 1
        assert summary["last_failure"].startswith(f"openai/writer at {server.url} failed (")
    with JudgeServer(llm()) as server:
        assert json.loads(make(office, server, "--resume", "--json").stdout)["last_failure"] is None


def test_five_mails_in_a_row_without_an_answer_end_the_run(tmp_path):
    path = parcels(tmp_path / "office.db", 8)
    with JudgeServer(lambda messages: 422) as server:
        result = make(path, server, "--inbox", BEN, "--concurrency", "1")
    assert (result.exit_code, len(server.requests)) == (1, 5)
    assert f"openai/writer at {server.url} failed (" in result.stderr
    assert "0 mails are finished; --resume goes on." in result.stderr


def test_a_model_whose_provider_nobody_knows_ends_the_run_at_once(office):
    arguments = [office, "--out", office.parent / "made.jsonl", "--model", "fake", "--min-mails", 1, "--inbox", BEN]
    result = CliRunner().invoke(main, [str(argument) for argument in arguments])
    assert result.exit_code == 1
    assert (
        "fake: the provider is not clear; write openai/fake for a server that speaks OpenAI's protocol" in result.stderr
    )
    assert "0 mails are finished; --resume goes on." in result.stderr

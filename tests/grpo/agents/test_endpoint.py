"""Door 2, the recording endpoint: unmodified clients, whole and streamed; what it keeps; how a broken model is told apart."""

import base64
import json
import os
import subprocess
import sys

import pytest

from grpo.agents.tool_loop import answer_every_call
from grpo.episodes.record import read_episodes
from tests import ROOT
from tests.support.envs import SUMS_ENV
from tests.support.evaluations import asked, evaluated, refused, rows, run
from tests.support.http_stub import Response
from tests.support.judge_server import ASKED, JudgeServer
from tests.support.model_server import COMPLETION_TOKENS, PROMPT_TOKENS, ModelServer, in_order, sums

pytest.importorskip("openai", reason="the stock client is part of the test (extra 'dev')")


def test_the_stock_client_streams_through_it_and_everything_is_recorded(tmp_path, monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", "the real key")
    found, server, _ = asked(tmp_path, sums, "by_chat", count=3)
    assert [(row["answer"], row["correct"]) for row in found] == [("0", True), ("2", False), ("4", True)]
    for row in found:
        assert (row["model_calls"], row["prompt_tokens"]) == (2, 2 * PROMPT_TOKENS)
        assert row["completion_tokens"] == 2 * COMPLETION_TOKENS
        first, second = row["calls"]
        assert first["reply"]["tool_calls"][0]["function"]["name"] == "double"
        assert second["reply"]["content"] == row["answer"]
        assert (first.get("shared", 0), second["shared"], len(second["messages"])) == (0, 1, 2)
        assert 0 < first["first_token_seconds"] <= first["seconds"]
    for request in server.requests:
        assert request.body["model"] == "vendor/m1", "the agent had asked for another"
        assert request.headers["authorization"] == "Bearer the real key"


def test_the_responses_api_works_whole_and_streamed(tmp_path):
    found, server, shown = asked(tmp_path, sums, "by_responses", count=2)
    assert [(row["answer"], row["ending"]) for row in found] == [("0", "answered"), ("2", "answered")], shown.output
    assert [row["prompt_tokens"] for row in found] == [2 * PROMPT_TOKENS] * 2
    assert {request.path for request in server.requests} == {"/v1/responses"}
    assert found[0]["calls"][0]["reply"]["tool_calls"][0]["function"]["name"] == "double"


def test_all_that_was_asked_and_said_is_kept_in_the_form_of_chat(tmp_path):
    """In a request of responses, instructions are the system message; a second choice is kept beside the first."""
    thinking = {"choices": [{"index": 0, "delta": {"reasoning_content": "4"}}]}
    ended = {"choices": [{"index": 0, "delta": {"content": "x"}, "finish_reason": "length"}]}
    turns = {"content": "0"}, _choices("1", "2"), {"events": [thinking, thinking, ended]}
    (row,), *_ = asked(tmp_path, in_order(*turns), "asking_in_all_ways", count=1)
    first, second, third = row["calls"]
    assert first["messages"] == [{"role": "system", "content": "Be short."}, {"role": "user", "content": "?"}]
    assert (first["tools"][0]["function"]["name"], first["asked"]) == ("peek", {"temperature": 0.5, "max_tokens": 9})
    assert second["tools"] is None, "as in the call before"
    assert second["asked"] == {"n": 2, "seed": 7}
    assert (second["reply"]["content"], [other["content"] for other in second["other_replies"]]) == ("1", ["2"])
    assert (third["reply"]["reasoning_content"], third["reply"]["content"]) == ("44", "x")
    assert (first["finish_reason"], second["finish_reason"], third["finish_reason"]) == ("stop", "stop", "length")
    assert 0 < first["began"] < second["began"] < third["began"] < row["seconds"]
    (episode,) = read_episodes(tmp_path / "results.jsonl")
    assert [[tool["function"]["name"] for tool in call.tools] for call in episode.calls] == [["peek"], ["peek"], []]


def _choices(*texts):
    choices = [{"index": i, "finish_reason": "stop", "message": {"content": t}} for i, t in enumerate(texts)]
    return {"raw": {"id": "c", "object": "chat.completion", "created": 1, "model": "m", "choices": choices}}


def test_responses_are_asked_as_chat_where_the_server_speaks_chat_alone(tmp_path, monkeypatch):
    whole = ModelServer.answer

    def chat_alone(self, request):
        return (
            whole(self, request)
            if request.path.endswith("/chat/completions")
            else Response({"detail": "Not Found"}, 404)
        )

    monkeypatch.setattr(ModelServer, "answer", chat_alone)
    found, server, shown = asked(tmp_path, sums, "by_responses", count=2)
    assert [(row["answer"], row["ending"], row["model_calls"]) for row in found] == [
        ("0", "answered", 2),
        ("2", "answered", 2),
    ], shown.output
    assert [len(call["messages"]) for call in found[0]["calls"]] == [1, 2], "the refused request has left nothing"
    assert "/v1/responses" in {request.path for request in server.requests}


def test_an_agent_that_asks_another_model_than_that_of_the_evaluation_is_told_where_to_ask(tmp_path):
    _, _, shown = asked(tmp_path / "elsewhere", sums, "by_tool", count=1)
    assert "No request came to the model of --model; the agent is to send them to model.base_url" in shown.output
    _, _, shown = asked(tmp_path / "here", sums, "by_chat", count=1)
    assert "No request" not in shown.output


def test_a_reply_that_the_agent_did_not_wait_for_is_not_recorded_as_said(tmp_path):
    with ModelServer(in_order({"content": "late"}), delay_seconds=0.8) as server:
        model = ("--model", f"openai:m@{server.url}")
        ((row,), _) = evaluated(tmp_path, "--agent", "tests.support.agents:impatient", *model, count=1)
    (call,) = row["calls"]
    assert (call["status"], call["error"], "reply" in call) == (499, "the agent hung up before the reply", False)


def test_an_episode_can_not_reach_another_and_learns_the_models_name(tmp_path):
    found, *_ = asked(tmp_path, sums, "nosy", count=1)
    assert found[0]["answer"] == "404 vendor/m1"


@pytest.mark.parametrize(
    ("refusal", "ending", "code"),
    [
        (500, "infrastructure", 3),
        (429, "infrastructure", 3),
        (401, "infrastructure", 3),
        (422, "agent_crash", 0),
        ({"error": {"message": "too long", "code": "context_length_exceeded"}, "status": 400}, "context_full", 0),
    ],
)
def test_a_model_that_fails_is_no_fault_of_the_agent(tmp_path, refusal, ending, code):
    (row,), _, shown = asked(tmp_path, in_order(refusal), "one_question", count=1)
    assert (row["ending"], shown.exit_code) == (ending, code)
    assert row["correct"] is (None if code else False)
    if isinstance(refusal, int):
        assert f"scripted status {refusal}" in row["error"] or "422" in row["error"]


@pytest.mark.parametrize(
    ("status", "outage_seconds", "most", "said"),
    [
        (401, 90.0, 6, "Error: the model refused 5 episodes in a row: http://"),
        (500, 0.3, 39, "Error: the model has answered nothing for 0.3 s: http://"),
    ],
)
def test_an_evaluation_ends_where_its_model_refuses_or_fails_for_long_and_goes_on_later(
    tmp_path, monkeypatch, status, outage_seconds, most, said
):
    monkeypatch.setattr("grpo.eval.request.OUTAGE_SECONDS", outage_seconds)
    with ModelServer(in_order(status)) as server:
        arguments = ("--model", f"openai:m@{server.url}", "--out", str(tmp_path), "--concurrency", "2")
        shown = run("--agent", "tests.support.agents:one_question", *arguments, "--limit", "40", env="FrozenLake-v1")
        assert shown.exit_code == 1
        assert said in shown.output
        assert f"scripted status {status}" in shown.output
        assert 1 <= len(rows(tmp_path)) <= most
    with ModelServer(in_order({"content": "0"})) as server:
        arguments = ("--model", f"openai:m@{server.url}", "--out", str(tmp_path / "other"), "--concurrency", "2")
        shown = run("--agent", "tests.support.agents:one_question", *arguments, "--limit", "6", env="FrozenLake-v1")
    assert shown.exit_code == 0


@pytest.mark.parametrize(("agent", "seconds"), [("", "2"), ("one_question", "60")])  # the tool loop still tries then
def test_a_server_that_is_not_there_is_an_infrastructure_failure(tmp_path, agent, seconds):
    with ModelServer(sums) as server:
        gone = server.url
    model = f"openai:m@{gone}"
    who = ("--agent", f"tests.support.agents:{agent}", "--model", model) if agent else ("--agent", model)
    found, shown = evaluated(tmp_path, *who, "--timeout", seconds, count=2)
    assert shown.exit_code == 3
    assert {(row["ending"], row["correct"]) for row in found} == {("infrastructure", None)}
    assert f"{gone} does not answer" in found[0]["error"]


def test_a_model_that_lets_a_call_wait_for_half_of_the_time_or_longer_has_failed_and_not_the_agent(tmp_path):
    pytest.importorskip("openai").OpenAI(api_key="k").close()  # else it is loaded within the agent's time
    with ModelServer(sums, delay_seconds=60) as server:
        arguments = ("--model", f"openai:m@{server.url}", "--timeout", "3", "--out", str(tmp_path))
        run("--agent", "tests.support.agents:one_question", *arguments, count=1)
    (row,) = rows(tmp_path)
    assert (row["ending"], row["correct"]) == ("infrastructure", None)
    assert row["error"] == "no answer within 3 s; a model call had not been answered for 3 s"


def test_litellm_carries_the_calls_of_any_model(tmp_path, monkeypatch):
    pytest.importorskip("litellm", reason="needs the extra 'judge'")
    with ModelServer(sums) as server:
        monkeypatch.setenv("OPENAI_API_BASE", server.url)
        monkeypatch.setenv("OPENAI_API_KEY", "k")
        agent = ("--agent", "tests.support.agents:by_chat", "--model", "litellm:openai/gpt-4o")
        (row,), shown = evaluated(tmp_path / "a", *agent, count=1)
        assert row["answer"] == "0", shown.output
        assert row["prompt_tokens"] > 0
        (row,), shown = evaluated(tmp_path / "b", "--agent", "litellm:openai/gpt-4o", count=1)
        assert (row["answer"], row["correct"]) == ("0", True), shown.output
        assert row["cost"] == pytest.approx(2 * (100 * 2.5e-6 + 10 * 1e-5))


@pytest.mark.parametrize(
    "agent", [("litellm:openai/m",), ("tests.support.agents:by_chat", "--model", "litellm:openai/m")]
)
def test_litellm_for_an_agent_and_for_its_judge_at_the_same_time_prints_nothing_of_its_own(tmp_path, agent):
    pytest.importorskip("litellm", reason="needs the extra 'judge'")
    verdict = json.dumps({"answer_id": ASKED, "reasoning": "It is the same.", "accept": True})

    def play(messages, tools):
        return sums(messages, tools) if messages[-1]["role"] != "tool" else {"content": "as many as two hands"}

    with ModelServer(play) as server, JudgeServer(lambda messages: verdict) as judge:
        judged = ("--answer-judge", "openai/j", "--answer-judge-api-base", judge.url)
        command = [sys.executable, "-m", "grpo", "eval", "--env", SUMS_ENV, "--agent", *agent, *judged]
        environment = os.environ | {"OPENAI_API_BASE": server.url, "OPENAI_API_KEY": "k"}
        shown = subprocess.run(
            [*command, "--out", str(tmp_path)], cwd=ROOT, env=environment, capture_output=True, text=True, timeout=300
        )
    assert len(judge.requests) == 10
    assert (shown.returncode, "Traceback" in shown.stderr, "Task " in shown.stderr) == (0, False, False), shown.stderr


def test_a_model_by_name_plays_a_plain_tool_loop(tmp_path):
    def play(messages, tools):
        assert [tool["function"]["name"] for tool in tools] == ["double", "return_final_answer"]
        if messages[-1]["role"] == "tool":
            return {"calls": [("return_final_answer", {"answer": messages[-1]["content"], "sources": ["x"]})]}
        return sums(messages, tools)

    found, server, shown = asked(tmp_path, play, "", "--temperature", "0", count=4)
    assert shown.exit_code == 0, shown.output
    assert [(row["answer"], row["sources"], row["implicit"]) for row in found] == [
        (answer, ["x"], False) for answer in ("0", "2", "4", "6")
    ]
    sent = [request.body for request in server.requests]
    assert {body["temperature"] for body in sent} == {0}
    for _, turn, reply in (body["messages"][1:] for body in sent if len(body["messages"]) == 4):
        assert reply["tool_call_id"] == turn["tool_calls"][0]["id"]


def test_calls_at_once_are_told_what_became_of_each(tmp_path):
    turns = [{"calls": [("act", {"action": 1})] * 2}, {"calls": [("act", {"action": 9})] * 2}]
    play = in_order(*turns, {"calls": [("act", {"action": 0})] * 9}, {"content": "done"})
    _, server, _ = asked(tmp_path, play, "", "--limit", "1", "--max-turns", "4", env="FrozenLake-v1", is_slippery=False)
    messages = server.requests[-1].body["messages"]
    told = [message["content"].splitlines()[0] for message in messages if message["role"] == "tool"]
    assert told[:2] == ["reward 0", "reward 0, total 0"]
    assert told[2] == "The next message answers all calls of this turn."
    assert told[3].endswith("total -0.1")
    assert told[4:] == ["Not run.", *["reward 0"] * 7, "reward 0, total -0.1"]
    wanted = [call["id"] for message in messages for call in message.get("tool_calls") or ()]
    assert sorted(message["tool_call_id"] for message in messages if message["role"] == "tool") == sorted(wanted)


def test_calls_without_ids_get_none():
    messages = [{"role": "assistant"}, {"role": "tool", "content": "2"}]
    answer_every_call([{"function": {"name": "double"}}] * 2, messages, 1)
    assert messages == [{"role": "assistant"}, {"role": "tool", "content": "2"}]


def test_the_tool_loop_tries_a_busy_model_again_and_gives_up_in_the_end(tmp_path, monkeypatch):
    from grpo.agents import tool_loop as toolloop

    monkeypatch.setattr(toolloop, "PAUSES_SECONDS", (0.01, 0.01))
    (row,), server, _ = asked(tmp_path / "a", in_order(503, 429, {"content": "0"}), count=1)
    assert (row["answer"], len(server.requests)) == ("0", 3)
    (row,), server, shown = asked(tmp_path / "b", in_order(503), count=1)
    assert (row["ending"], shown.exit_code, len(server.requests)) == ("infrastructure", 3, 3)


@pytest.mark.parametrize("model", ["gpt-4o", "openai:gpt-4o", "openai:@http://x/v1", "litellm:"])
def test_a_model_that_cannot_be_meant_is_explained(tmp_path, model):
    said = refused(tmp_path, "--agent", "tests.support.agents:by_chat", "--model", model)
    assert f"no model {model!r}; write openai:MODEL@URL" in said


def test_passwords_and_keys_reach_the_model_and_nothing_that_is_shown_or_saved(tmp_path, monkeypatch):
    monkeypatch.setenv("SOME_API_KEY", "0123456789abcdef")
    monkeypatch.chdir(tmp_path)
    with ModelServer(in_order({"content": "0"})) as server:
        url = server.url.replace("://", "://me:pass-w0rd@")
        judge = "http://me:pass-w0rd@127.0.0.1:1/v1?key=pass-w0rd"
        common = ("--answer-judge", "openai/judge", "--answer-judge-api-base", judge)
        model = ("--agent", "tests.support.agents:by_chat", "--model", f"openai:m@{url}")
        program = ("--agent", f"cmd:{sys.executable} -c pass --key=0123456789abcdef {{question}}")
        ways = [("--agent", f"openai:m@{url}"), model, program]
        outputs = [run(*way, *common, count=1).output for way in ways]
        sent = {request.headers["authorization"] for request in server.requests}
        assert sent == {"Basic " + base64.b64encode(b"me:pass-w0rd").decode()}
    with_nobody = run("--agent", "openai:m@http://me:pass-w0rd@127.0.0.1:1/v1", *common, count=1)
    assert "http://127.0.0.1:1/v1 does not answer" in with_nobody.output
    outputs += [with_nobody.output, run("--agent", f"openai:@{url}", *common, count=1).output]
    paths = [path for path in (tmp_path / "evals").rglob("*") if path.is_file()]
    assert len(paths) >= 4 * 4
    for text in [*outputs, *map(str, paths), *(path.read_bytes().decode(errors="replace") for path in paths)]:
        assert "pass-w0rd" not in text
        assert "0123456789abcdef" not in text

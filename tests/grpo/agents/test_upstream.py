"""What a model's server may send instead of a reply: it is never taken for the agent's mistake, and is said in words."""

import json
import re
import sys

import pytest

from grpo.agents import tool_loop as toolloop
from grpo.agents.endpoint import _stream
from grpo.agents.recorder import CallRecorder
from grpo.agents.upstream import HttpUpstream, Reply
from grpo.episodes.play import Play
from grpo.eval import Answer
from grpo.types import Episode, Task
from judges.llm.client import load_litellm
from tests.support.evaluations import rows, run
from tests.support.model_server import ModelServer

pytest.importorskip("openai", reason="the stock client is part of the test (extra 'dev')")


def message(**fields):
    return {"raw": {"choices": [{"index": 0, "message": {"role": "assistant", "content": None, **fields}}]}}


ADDRESS = r"http://127\.0\.0\.1:\d+/v1/chat/completions"

NOT_A_REPLY = [
    {"error": {"message": "not loaded yet"}, "status": 200},
    {"raw": {}},
    {"raw": ["not", "an", "object"]},
    {"raw": {"choices": []}},
    {"raw": {"choices": ["text"]}},
    {"raw": {"choices": {"0": "text"}}},
    message(tool_calls=["double"]),
    message(tool_calls={"function": {"name": "double"}}),
]


def ended(folder, agent, turn, *arguments):
    """How the one episode ended, the error that it names, and all that was shown."""
    with ModelServer(lambda messages, tools: turn) as server:
        model = f"openai:m@{server.url}"
        if agent:
            arguments = ("--agent", f"tests.support.agents:{agent}", "--model", model, *arguments)
        else:
            arguments = ("--agent", model, *arguments)
        shown = run(*arguments, "--out", str(folder), count=1)
    row = rows(folder)[0]
    return row["ending"], row["error"], shown


@pytest.mark.parametrize("turn", NOT_A_REPLY)
@pytest.mark.parametrize("agent", ["", "one_question"])
def test_status_200_without_a_message_is_a_failure_of_the_server(tmp_path, monkeypatch, agent, turn):
    monkeypatch.setattr(toolloop, "PAUSES_SECONDS", ())
    ending, error, shown = ended(tmp_path, agent, turn)
    assert (ending, shown.exit_code) == ("infrastructure", 3)
    assert re.match(rf"{ADDRESS} answered 200 without a message: ", error)
    assert "Traceback" not in shown.output


@pytest.mark.parametrize(
    ("events", "error"),
    [
        (
            [{"choices": [{"index": 0, "delta": {"content": "a"}}]}, {"error": {"message": "overloaded"}}],
            " sent an error in its stream: overloaded",
        ),
        ([["not", "an", "object"]], " sent a piece of a reply that cannot be read (no JSON object)"),
    ],
)
def test_a_stream_that_goes_wrong_is_a_failure_of_the_server(tmp_path, events, error):
    ending, said, shown = ended(tmp_path, "by_chat", {"events": events})
    assert (ending, shown.exit_code) == ("infrastructure", 3)
    assert re.fullmatch(rf"http://127.0.0.1:\d+/v1{re.escape(error)}", said)
    assert "Traceback" not in shown.output


FAILED = {"status": "failed", "output": [], "error": {"code": "server_error", "message": "overloaded"}}


@pytest.mark.parametrize(
    ("agent", "turn"),
    [
        ("one_response", {"raw": FAILED}),
        ("one_streamed_response", {"events": [{"type": "response.failed", "response": FAILED}]}),
        ("one_streamed_response", {"events": [{"type": "error", "code": "server_error", "message": "overloaded"}]}),
    ],
)
def test_a_response_that_fails_is_a_failure_of_the_server(tmp_path, agent, turn):
    ending, said, shown = ended(tmp_path, agent, turn)
    assert (ending, shown.exit_code) == ("infrastructure", 3)
    assert "overloaded" in said
    assert re.match(r"http://127.0.0.1:\d+/v1( sent an error in its stream|/responses answered 200 without)", said)


def test_a_response_that_was_cut_is_recorded(tmp_path):
    said = [{"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "1"}]}]
    usage = {"input_tokens": 7, "output_tokens": 5, "total_tokens": 12}
    cut = {"type": "response.incomplete", "response": {"status": "incomplete", "output": said, "usage": usage}}
    ended(tmp_path, "one_streamed_response", {"events": [cut]})
    row = rows(tmp_path)[0]
    assert (row["prompt_tokens"], row["completion_tokens"]) == (7, 5)
    assert row["calls"][0]["reply"] == said


async def test_an_agent_that_hangs_up_after_an_error_in_the_stream_leaves_the_fault_with_the_server():
    async def events():
        yield {"error": {"message": "overloaded"}}
        yield {"choices": []}

    recorder = CallRecorder(
        Play(Episode("E", Task(0)), None), "chat/completions", {"messages": []}, HttpUpstream("m", "http://h/v1")
    )
    stream = _stream(Reply(events=events()), recorder, False)
    assert b"overloaded" in await anext(stream)
    await stream.aclose()
    assert recorder.call.error == "http://h/v1 sent an error in its stream: overloaded"
    assert recorder.call.is_server_fault


def test_a_server_that_does_not_answer_in_time_is_named_and_nothing_is_called_wrong(tmp_path):
    with ModelServer(lambda messages, tools: 503) as server:
        gone = server.url
    shown = run("--agent", f"openai:m@{gone}", "--timeout", "2", "--out", str(tmp_path), count=1)
    row = rows(tmp_path)[0]
    assert (row["ending"], row["correct"], shown.exit_code) == ("infrastructure", None, 3)
    assert f"{gone} does not answer" in row["error"]


def test_a_model_that_writes_half_a_character_goes_on(tmp_path):
    turns = [message(tool_calls=[{"id": "1", "type": "function", "function": {"name": "x", "arguments": '{"a": 1}'}}])]
    turns[0]["raw"]["choices"][0]["message"]["content"] = "half \ud83d"

    with ModelServer(lambda messages, tools: turns.pop(0) if turns else {"content": "0"}) as server:
        shown = run("--agent", f"openai:m@{server.url}", "--out", str(tmp_path), count=1)
    assert rows(tmp_path)[0]["answer"] == "0", shown.output
    assert server.requests[1].body["messages"][2]["content"] == "half ?"


def test_an_answer_in_parts_is_read(tmp_path):
    parts = message(content=[{"type": "thinking", "thinking": "0 + 0"}, {"type": "text", "text": "0"}])
    assert ended(tmp_path, "", parts)[0] == "answered"
    assert rows(tmp_path)[0]["answer"] == "0"


@pytest.mark.parametrize(
    "thought", ["<think>0 {or} 1?</think>\n\n", "0 or 1?</think>", "<think>" + 3000 * "?" + "</think>"]
)
@pytest.mark.parametrize("agent", ["", "one_question"])
def test_the_thought_of_a_reasoning_model_is_no_part_of_its_answer(tmp_path, agent, thought):
    assert ended(tmp_path, agent, message(content=f"{thought}0"))[0] == "answered"
    row = rows(tmp_path)[0]
    assert (row["answer"], row["correct"], row["implicit"]) == ("0", True, True)
    assert row["calls"][0]["reply"]["content"] == f"{thought}0"


def test_a_thought_without_an_end_is_no_answer(tmp_path):
    assert ended(tmp_path, "", message(content="<think>It may be 0"))[0] == "answered"  # this env takes "", too
    assert rows(tmp_path)[0]["answer"] == ""


def test_a_server_that_quotes_the_key_does_not_get_it_shown_or_saved(tmp_path, monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", "sk-0123456789abcdef")
    refused = {"error": {"message": "Incorrect API key: sk-0123456789abcdef"}, "status": 401}
    _, error, shown = ended(tmp_path, "", refused)
    assert re.fullmatch(rf"{ADDRESS} answered 401: Incorrect API key: \[key\]", error)
    assert "0123456789" not in shown.output + (tmp_path / "results.jsonl").read_text()


@pytest.mark.parametrize(
    "url", ["http://127.0.0.1:99999/v1", "http://127.0.0.1: 80/v1", "http://[::1/v1", "http:///v1"]
)
def test_a_url_without_a_usable_host_and_port_is_refused_before_anything_is_played(tmp_path, url):
    shown = run("--agent", f"openai:m@{url}", "--out", str(tmp_path / "run"), count=1)
    assert shown.exit_code == 1
    assert f"{url!r} is no address of a server" in shown.output
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize("agent", ["", "one_question"])
@pytest.mark.parametrize(
    ("status", "body", "said"),
    [
        (404, {"error": {"message": "no model m"}}, "no model m"),
        (422, {"detail": "tools are not supported"}, "{'detail': 'tools are not supported'}"),
        (500, {"error": "out of memory"}, "out of memory"),
    ],
)
def test_what_a_server_refuses_is_told_with_its_address_and_status(tmp_path, monkeypatch, agent, status, body, said):
    monkeypatch.setattr(toolloop, "PAUSES_SECONDS", ())
    _, error, _ = ended(tmp_path, agent, {"raw": body, "status": status})
    told = rf"{ADDRESS} answered {status}: {re.escape(said)}"
    assert re.search(told, error) or (agent and status == 422), error
    trace = rows(tmp_path)[0]
    assert re.fullmatch(told, trace["calls"][-1]["error"])


def test_a_refusal_is_the_reply_and_not_a_turn_without_words(tmp_path):
    ending, _, _ = ended(tmp_path, "", message(refusal="I can't help with that."))
    row = rows(tmp_path)[0]
    assert (ending, row["answer"], row["model_calls"], row["implicit"]) == (
        "answered",
        "I can't help with that.",
        1,
        True,
    )


def test_a_refusal_in_pieces_is_recorded(tmp_path):
    pieces = [{"choices": [{"index": 0, "delta": {"refusal": piece}}]} for piece in ("I can't ", "help.")]
    ended(tmp_path, "by_chat", {"events": pieces})
    (asked,) = rows(tmp_path)[0]["calls"]
    assert asked["reply"] == {"role": "assistant", "content": None, "refusal": "I can't help."}


def test_a_model_that_is_called_with_tools_is_not_told_another_form_of_calls(tmp_path):
    call = {"id": "1", "type": "function", "function": {"name": "search_inbox", "arguments": '{"keywords": ['}}
    turns = [message(), message(tool_calls=[call]), message(tool_calls=[{**call, "function": {"name": "look"}}])]

    with ModelServer(lambda messages, tools: turns.pop(0) if turns else {"content": "I don't know"}) as server:
        arguments = ("--agent", f"openai:m@{server.url}", "--out", str(tmp_path), "--limit", "1")
        shown = run(*arguments, env="EmailSearch-v0")
    assert shown.exit_code == 0, shown.output
    seen = json.dumps(server.requests[-1].body["messages"])
    assert "the turn is empty. Call a tool, or give the answer." in seen
    assert len(server.requests) == 4
    assert "<tool_call>" not in seen


def test_a_call_in_the_form_before_tool_calls_is_a_call(tmp_path):
    turns = [("double", {"number": 21}), ("return_final_answer", {"answer": "42", "sources": []})]
    old = [message(function_call={"name": name, "arguments": json.dumps(given)}) for name, given in turns]
    with ModelServer(lambda messages, tools: old[messages[-1]["role"] == "tool"]) as server:
        assert run("--agent", f"openai:m@{server.url}", "--out", str(tmp_path), "--limit", "1").exit_code == 0
    (row,) = rows(tmp_path)
    assert (row["ending"], row["answer"], row["implicit"], row["turns"]) == ("answered", "42", False, 2)
    turn, reply = server.requests[1].body["messages"][-2:]
    assert (reply["content"], reply["tool_call_id"]) == ("42", turn["tool_calls"][0]["id"])


CALL = '{"name": "double", "arguments": {"number": 0}}'


@pytest.mark.parametrize(
    ("text", "is_call"),
    [
        (f"I will ask.\n<tool_call>\n{CALL}\n</tool_call>", True),
        (CALL, True),
        (f"```json\n{CALL}\n```", True),
        ('<|python_tag|>{"name": "double", "parameters": {"number": 0}}', True),
        ("<|python_tag|>double.call(number=0)", True),
        (f"[TOOL_CALLS] [{CALL}]", True),
        ('[TOOL_CALLS]double[ARGS]{"number": 0}', True),
        ("[double(number=0)]", True),
        ("<tool_call>\n<function=double>\n<parameter=number>\n0\n</parameter>\n</function>\n</tool_call>", True),
        ("0 is the double of 0", False),
        ('{"name": "Ann", "number": 0}', False),
        ("<0>", False),
    ],
)
def test_a_call_that_the_server_left_in_the_text_is_named_and_counted(tmp_path, text, is_call):
    ending, error, shown = ended(tmp_path, "", message(content=text))
    assert (ending, rows(tmp_path)[0]["implicit"], shown.exit_code) == ("answered", True, 0)
    assert ("1 x answered: a tool call came as text and counted as the answer" in shown.output) is is_call
    assert ("--enable-auto-tool-choice and --tool-call-parser" in error) is is_call


def test_a_call_in_the_text_is_a_turn_of_an_env_without_an_answer_tool(tmp_path):
    with ModelServer(lambda messages, tools: {"content": '{"name": "act", "arguments": {"action": 0}}'}) as server:
        arguments = ("--agent", f"openai:m@{server.url}", "--out", str(tmp_path), "--limit", "1")
        shown = run(*arguments, env="FrozenLake-v1", max_episode_steps=3)
    (row,) = rows(tmp_path)
    assert (row["metrics"]["invalid_calls"], row["error"], row["metrics"]["turns"]) == (0, "", 3), shown.output


def test_a_model_by_litellm_without_litellm_is_explained_before_anything_is_played(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "litellm", None)
    load_litellm.cache_clear()
    shown = run("--agent", "litellm:openai/gpt-5", "--out", str(tmp_path / "run"), count=1)
    assert shown.exit_code == 1
    assert "needs the package litellm: pip install 'email-rl[judge]'" in shown.output
    assert not (tmp_path / "run").exists()


def test_a_redirection_is_named(tmp_path):
    moved = {"error": "moved", "status": 307, "headers": {"Location": "http://127.0.0.1:1/v1"}}
    _, error, _ = ended(tmp_path, "", moved)
    assert re.fullmatch(rf"{ADDRESS} answered 307, a redirection to http://127.0.0.1:1/v1; name that server", error)


def test_a_model_on_this_machine_is_not_asked_by_a_proxy(tmp_path, monkeypatch):
    for name in ("NO_PROXY", "no_proxy"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.1:9")
    assert ended(tmp_path, "", {"content": "0"})[0] == "answered"


def test_a_path_that_is_not_there_is_named(tmp_path):
    _, error, _ = ended(tmp_path, "", {"raw": {"detail": "Not Found"}, "status": 404})
    assert re.fullmatch(rf"{ADDRESS} answered 404; does the URL lack its /v1\?", error)


@pytest.mark.parametrize(
    ("text", "sources", "said"), [(42, (), "takes a text, not 42"), ("x", "s1", "a tuple of texts, not 's1'")]
)
def test_an_answer_of_the_wrong_type_says_so_where_it_is_written(text, sources, said):
    with pytest.raises(TypeError, match=said):
        Answer(text, sources)

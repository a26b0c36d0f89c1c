"""What a model's server may send instead of a reply: it is never taken for the agent's mistake, and is said in words."""

import json
import re
import sys

import pytest

from grpo.agents import tool_loop as toolloop
from grpo.agents.endpoint import _stream
from grpo.agents.recorder import CallRecorder
from grpo.agents.upstream import HttpUpstream, Reply
from grpo.agents.wire import Asked
from grpo.episodes.play import Play
from grpo.eval import Answer
from grpo.types import Episode, Task
from judges.llm.client import load_litellm
from tests.support.evaluations import asked, refused
from tests.support.model_server import in_order

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
    {"raw": {"choices": [{"message": {"role": "assistant", "content": "0"}, "finish_reason": "abort"}]}},
    {"raw": {"choices": [{"message": {"role": "assistant", "content": "0"}, "finish_reason": "error"}]}},
    message(content={"answer": 0}),
    message(content=0),
    message(content=float("nan")),
]
FAILED = {"status": "failed", "output": [], "error": {"code": "server_error", "message": "overloaded"}}
STARTED = {"choices": [{"index": 0, "delta": {"content": "a"}}]}
NOT_WHOLE = [
    (
        "by_chat",
        {"events": [STARTED, {"error": {"message": "overloaded"}}]},
        " sent an error in its stream: overloaded",
    ),
    ("by_chat", {"events": [["a", "list"]]}, " sent a piece of a reply that cannot be read (no JSON object)"),
    ("by_chat", {"events": [STARTED, {"choices": ["text"]}]}, " sent a piece of a reply that cannot be read ("),
    (
        "by_chat",
        {"events": [STARTED, {"choices": [{"delta": ["a"]}]}]},
        " sent a piece of a reply that cannot be read (",
    ),
    (
        "by_chat",
        {"events": [STARTED, {"choices": [{"delta": {}, "finish_reason": "abort"}]}]},
        " broke off its reply (abort)",
    ),
    (
        "one_response",
        {"raw": FAILED},
        "/responses answered 200 without a whole message: {'code': 'server_error', 'message': 'overloaded'}",
    ),
    (
        "one_response",
        {"raw": {"status": "cancelled", "output": []}},
        "/responses answered 200 without a whole message: {'status': 'cancelled', 'output': []}",
    ),
    (
        "one_streamed_response",
        {"events": [{"type": "response.failed", "response": FAILED}]},
        " sent an error in its stream: overloaded (server_error)",
    ),
    (
        "one_streamed_response",
        {"events": [{"type": "error", "code": "server_error", "message": "overloaded"}]},
        " sent an error in its stream: overloaded (server_error)",
    ),
]


def ended(folder, agent, turn):
    """The row of the one episode, and all that was shown."""
    (row,), _, shown = asked(folder, in_order(turn), agent, count=1)
    return row, shown


@pytest.mark.parametrize(
    ("agent", "turn", "said"),
    [
        (agent, turn, "/chat/completions answered 200 without a whole message: ")
        for agent in ("", "one_question")
        for turn in NOT_A_REPLY
    ]
    + NOT_WHOLE,
)
def test_a_reply_that_is_none_is_a_failure_of_the_server(tmp_path, monkeypatch, agent, turn, said):
    monkeypatch.setattr(toolloop, "PAUSES_SECONDS", ())
    row, shown = ended(tmp_path, agent, turn)
    assert (row["ending"], shown.exit_code) == ("infrastructure", 3)
    assert re.match(rf"http://127\.0\.0\.1:\d+/v1{re.escape(said)}", row["error"])
    assert "Traceback" not in shown.output


@pytest.mark.parametrize("cost", [float("nan"), float("inf"), -3, "1", None])
def test_a_cost_that_is_none_and_tokens_below_0_are_not_known(tmp_path, cost):
    usage = {"prompt_tokens": -7, "completion_tokens": float("nan"), "cost": cost}
    row, shown = ended(tmp_path, "", {"raw": {**message(content="0")["raw"], "usage": usage}})
    assert (row["ending"], row["cost"], row["prompt_tokens"], row["completion_tokens"]) == ("answered", None, 0, 0)
    assert shown.exit_code == 0


def test_a_response_that_was_cut_is_recorded(tmp_path):
    said = [{"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "1"}]}]
    usage = {"input_tokens": 7, "output_tokens": 5, "total_tokens": 12}
    cut = {"type": "response.incomplete", "response": {"status": "incomplete", "output": said, "usage": usage}}
    row, _ = ended(tmp_path, "one_streamed_response", {"events": [cut]})
    assert (row["prompt_tokens"], row["completion_tokens"]) == (7, 5)
    (call,) = row["calls"]
    assert (call["reply"], call["finish_reason"]) == ({"role": "assistant", "content": "1"}, "length")


async def test_an_agent_that_hangs_up_after_an_error_in_the_stream_leaves_the_fault_with_the_server():
    async def events():
        yield {"error": {"message": "overloaded"}}
        yield {"choices": []}

    recorder = CallRecorder(Play(Episode("E", Task(0)), None), Asked([], []), HttpUpstream("m", "http://h/v1"))
    stream = _stream(Reply(events=events()), recorder, False)
    assert b"overloaded" in await anext(stream)
    await stream.aclose()
    assert recorder.call.error == "http://h/v1 sent an error in its stream: overloaded"
    assert recorder.call.is_server_fault


def test_a_model_that_writes_half_a_character_goes_on(tmp_path):
    turns = [message(tool_calls=[{"id": "1", "type": "function", "function": {"name": "x", "arguments": '{"a": 1}'}}])]
    turns[0]["raw"]["choices"][0]["message"]["content"] = "half \ud83d"
    (row,), server, shown = asked(tmp_path, in_order(*turns, {"content": "0"}), count=1)
    assert row["answer"] == "0", shown.output
    assert server.requests[1].body["messages"][2]["content"] == "half ?"


@pytest.mark.parametrize(
    ("said", "answer"),
    [
        ({"content": [{"type": "thinking", "thinking": "0 + 0"}, {"type": "text", "text": "0"}]}, "0"),
        ({"content": "<think>It may be 0"}, ""),  # this env takes "", too
        ({"refusal": "I can't help with that."}, "I can't help with that."),
    ],
    ids=["in parts", "a thought without an end", "a refusal"],
)
def test_what_is_said_at_the_end_is_the_answer(tmp_path, said, answer):
    row, _ = ended(tmp_path, "", message(**said))
    assert (row["ending"], row["answer"], row["implicit"], row["model_calls"]) == ("answered", answer, True, 1)


@pytest.mark.parametrize(
    "thought", ["<think>0 {or} 1?</think>\n\n", "0 or 1?</think>", "<think>" + 3000 * "?" + "</think>"]
)
@pytest.mark.parametrize("agent", ["", "one_question"])
def test_the_thought_of_a_reasoning_model_is_no_part_of_its_answer(tmp_path, agent, thought):
    row, _ = ended(tmp_path, agent, message(content=f"{thought}0"))
    assert (row["ending"], row["answer"], row["correct"], row["implicit"]) == ("answered", "0", True, True)
    assert row["calls"][0]["reply"]["content"] == f"{thought}0"


def test_a_server_that_quotes_the_key_does_not_get_it_shown_or_saved(tmp_path, monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", "sk-0123456789abcdef")
    refused = {"error": {"message": "Incorrect API key: sk-0123456789abcdef"}, "status": 401}
    row, shown = ended(tmp_path, "", refused)
    assert re.fullmatch(rf"{ADDRESS} answered 401: Incorrect API key: \[key\]", row["error"])
    assert "0123456789" not in shown.output + (tmp_path / "results.jsonl").read_text()


@pytest.mark.parametrize("agent", ["", "one_question"])
@pytest.mark.parametrize(
    ("status", "body", "said"),
    [
        (404, {"error": {"message": "no model m"}}, r": no model m"),
        (404, {"detail": "Not Found"}, r"; does the URL lack its /v1\?"),
        (422, {"detail": "tools are not supported"}, r": \{'detail': 'tools are not supported'\}"),
        (500, {"error": "out of memory"}, r": out of memory"),
    ],
)
def test_what_a_server_refuses_is_told_with_its_address_and_status(tmp_path, monkeypatch, agent, status, body, said):
    monkeypatch.setattr(toolloop, "PAUSES_SECONDS", ())
    row, _ = ended(tmp_path, agent, {"raw": body, "status": status})
    told = rf"{ADDRESS} answered {status}{said}"
    assert re.search(told, row["error"]) or (agent and status == 422), row["error"]
    assert re.fullmatch(told, row["calls"][-1]["error"])


def test_a_refusal_in_pieces_is_recorded(tmp_path):
    pieces = [{"choices": [{"index": 0, "delta": {"refusal": piece}}]} for piece in ("I can't ", "help.")]
    row, _ = ended(tmp_path, "by_chat", {"events": pieces})
    (call,) = row["calls"]
    assert call["reply"] == {"role": "assistant", "content": None, "refusal": "I can't help."}


def test_a_model_that_is_called_with_tools_is_not_told_another_form_of_calls(tmp_path):
    call = {"id": "1", "type": "function", "function": {"name": "search_inbox", "arguments": '{"keywords": ['}}
    turns = [message(), message(tool_calls=[call]), message(tool_calls=[{**call, "function": {"name": "look"}}])]
    play = in_order(*turns, {"content": "I don't know"})
    _, server, shown = asked(tmp_path, play, "", "--limit", "1", env="EmailSearch-v0")
    assert shown.exit_code == 0, shown.output
    seen = json.dumps(server.requests[-1].body["messages"])
    assert "the turn is empty. Call a tool, or give the answer." in seen
    assert len(server.requests) == 4
    assert "<tool_call>" not in seen


def test_a_call_in_the_form_before_tool_calls_is_a_call(tmp_path):
    turns = [("double", {"number": 21}), ("return_final_answer", {"answer": "42", "sources": []})]
    old = [message(function_call={"name": name, "arguments": json.dumps(given)}) for name, given in turns]
    (row,), server, _ = asked(tmp_path, in_order(*old), count=1)
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
    row, shown = ended(tmp_path, "", message(content=text))
    assert (row["ending"], row["implicit"], shown.exit_code) == ("answered", True, 0)
    assert ("1 x answered: a tool call came as text and counted as the answer" in shown.output) is is_call
    assert ("--enable-auto-tool-choice and --tool-call-parser" in row["error"]) is is_call


def test_a_call_in_the_text_is_a_turn_of_an_env_without_an_answer_tool(tmp_path):
    play = in_order({"content": '{"name": "act", "arguments": {"action": 0}}'})
    (row,), _, shown = asked(tmp_path, play, "", "--limit", "1", env="FrozenLake-v1", max_episode_steps=3)
    assert (row["metrics"]["invalid_calls"], row["error"], row["metrics"]["turns"]) == (0, "", 3), shown.output


def test_a_model_by_litellm_without_litellm_is_explained_before_anything_is_played(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "litellm", None)
    load_litellm.cache_clear()
    said = refused(tmp_path, "--agent", "litellm:openai/gpt-5")
    assert "needs the package litellm: pip install 'email-rl[judge]'" in said


def test_a_redirection_is_named(tmp_path):
    moved = {"error": "moved", "status": 307, "headers": {"Location": "http://127.0.0.1:1/v1"}}
    row, _ = ended(tmp_path, "", moved)
    told = rf"{ADDRESS} answered 307, a redirection to http://127.0.0.1:1/v1; name that server"
    assert re.fullmatch(told, row["error"])


def test_a_model_on_this_machine_is_not_asked_by_a_proxy(tmp_path, monkeypatch):
    for name in ("NO_PROXY", "no_proxy"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.1:9")
    row, _ = ended(tmp_path, "", {"content": "0"})
    assert row["ending"] == "answered"


@pytest.mark.parametrize(
    ("text", "sources", "said"), [(42, (), "takes a text, not 42"), ("x", "s1", "a tuple of texts, not 's1'")]
)
def test_an_answer_of_the_wrong_type_says_so_where_it_is_written(text, sources, said):
    with pytest.raises(TypeError, match=said):
        Answer(text, sources)

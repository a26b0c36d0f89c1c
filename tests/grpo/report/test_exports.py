"""Episodes as other programs' viewers take them: OpenTelemetry traces, in a file and sent, and logs of Inspect."""

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from grpo.cli.view import view
from grpo.ending import Ending
from grpo.episodes.record import write_episodes
from grpo.types import Answer, Episode, ModelCall, Task
from judges.common.files import write_json
from judges.common.tool_calls import format_call
from tests.support.episodes import lines_of
from tests.support.evaluations import rows, run
from tests.support.http_stub import HttpStub, Response
from tests.support.reports import make_run

TOOLS = [{"type": "function", "function": {"name": "double", "parameters": {}}}]
ASKED = [{"role": "system", "content": "You add."}, {"role": "user", "content": "What is 2 + 2?"}]
CALLED = {"role": "assistant", "content": None, "tool_calls": [
    {"id": "c1", "type": "function", "function": {"name": "double", "arguments": '{"number": 2}'}}
]}  # fmt: skip
RESULT = {"role": "tool", "content": "4", "tool_call_id": "c1"}
SAID = {"role": "assistant", "content": "It is 4."}


def by_an_agent() -> Episode:
    """Two calls of a model and one of a tool between them: 1.0 to 1.5, 1.5 to 1.75, 1.75 to 2.0 seconds."""
    calls = [
        ModelCall("m1", turn=0, tools=TOOLS, messages=ASKED, reply=CALLED, finish_reason="tool_calls", status=200,
                  prompt_tokens=10, completion_tokens=3, began=1.0, seconds=0.5, asked={"temperature": 0.5}),
        ModelCall("m1", turn=1, tools=TOOLS, shared=2, messages=[CALLED, RESULT], reply=SAID, finish_reason="stop",
                  status=200, prompt_tokens=20, completion_tokens=4, began=1.75, seconds=0.25),
    ]  # fmt: skip
    return Episode(
        "Sums-v0", Task(7, "sum/2"), 1, messages=[*ASKED, CALLED, RESULT, SAID], tools=TOOLS, calls=calls,
        turn_errors=["", ""], reward=1.0, metrics={"success": 1.0}, ending=Ending.ANSWERED, answer=Answer("It is 4."),
        explanation="the best of four", began=1_700_000_000.0, seconds=2.0,
    )  # fmt: skip


def by_a_policy() -> Episode:
    """One turn that was sampled, with its call as the model wrote it; the env ended the episode with an error."""
    said = f"Let me see.\n{format_call('dubble', {'number': 2})}"
    call = ModelCall(
        version=3, turn=0, sampled_ids=[1, 2], prompt_tokens=5, completion_tokens=2, began=0.5, seconds=0.25
    )
    return Episode(
        "Sums-v0", Task(8), messages=[*ASKED, {"role": "assistant", "content": said}, {"role": "tool", "content": "no"}],
        calls=[call], turn_errors=["unknown_tool"], ending=Ending.INFRASTRUCTURE, error="the env broke",
        began=1_700_000_010.0, seconds=1.0,
    )  # fmt: skip


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    root = tmp_path / "evaluation"
    write_json(root / "config.json", {"agent": "mod:agent", "model": "openai:m1@http://127.0.0.1:1/v1"})
    write_episodes(root / "results.jsonl", [by_an_agent(), by_a_policy()])
    return root


def show(*arguments: object) -> Result:
    return CliRunner().invoke(view, list(map(str, arguments)))


def spans_of(body: dict[str, Any]) -> list[dict[str, Any]]:
    (resource,) = body["resourceSpans"]
    return [
        {**span, "attributes": {pair["key"]: next(iter(pair["value"].values())) for pair in span["attributes"]}}
        for span in resource["scopeSpans"][0]["spans"]
    ]


def seconds(span: dict[str, Any]) -> tuple[float, float]:
    """Its beginning and end behind that of the episode, to the millisecond."""
    times = (int(span[f"{end}TimeUnixNano"]) / 1e9 - 1_700_000_000 for end in ("start", "end"))
    begin, end = (round(time, 3) for time in times)
    return begin, end


def test_an_episode_is_a_trace_with_its_calls_its_tools_and_its_reward(folder, tmp_path):
    shown = show(folder, "--otel", tmp_path / "traces.jsonl")
    assert shown.output == f"2 episodes: {tmp_path / 'traces.jsonl'}\n"
    first, _ = lines_of(tmp_path / "traces.jsonl")
    root, chat, again, tool = spans_of(first)
    assert [span["name"] for span in (root, chat, again, tool)] == [
        "invoke_agent mod:agent", "chat m1", "chat m1", "execute_tool double",
    ]  # fmt: skip
    assert [seconds(span) for span in (root, chat, again, tool)] == [(0, 2), (1, 1.5), (1.75, 2), (1.5, 1.75)]
    assert {span["parentSpanId"] for span in (chat, again, tool)} == {root["spanId"]}
    assert "parentSpanId" not in root
    assert {len(span["traceId"]) for span in (root, chat)} == {32}
    assert len({span["spanId"] for span in (root, chat, again, tool)}) == 4
    assert [span["kind"] for span in (root, chat, tool)] == [1, 3, 1]
    asked = again["attributes"]
    assert asked["gen_ai.conversation.id"] == "evaluation/sum/2#1"
    assert (asked["gen_ai.provider.name"], asked["gen_ai.request.model"]) == ("openai", "m1")
    assert (asked["gen_ai.usage.input_tokens"], asked["gen_ai.usage.output_tokens"]) == ("20", "4")
    assert json.loads(asked["gen_ai.system_instructions"]) == [{"type": "text", "content": "You add."}]
    assert json.loads(asked["gen_ai.tool.definitions"]) == TOOLS
    assert json.loads(asked["gen_ai.input.messages"]) == [
        {"role": "user", "parts": [{"type": "text", "content": "What is 2 + 2?"}]},
        {
            "role": "assistant",
            "parts": [{"type": "tool_call", "id": "c1", "name": "double", "arguments": {"number": 2}}],
        },
        {"role": "tool", "parts": [{"type": "tool_call_response", "id": "c1", "response": "4"}]},
    ]
    assert json.loads(asked["gen_ai.output.messages"]) == [
        {"role": "assistant", "parts": [{"type": "text", "content": "It is 4."}], "finish_reason": "stop"}
    ]
    assert chat["attributes"]["gen_ai.request.temperature"] == 0.5
    assert chat["attributes"]["gen_ai.response.finish_reasons"]["values"] == [{"stringValue": "tool_calls"}]
    assert tool["attributes"]["gen_ai.tool.call.arguments"] == '{"number": 2}'
    assert (tool["attributes"]["gen_ai.tool.call.id"], tool["attributes"]["gen_ai.tool.call.result"]) == ("c1", "4")
    given = [{p["key"].removeprefix("gen_ai.evaluation."): p["value"] for p in e["attributes"]} for e in root["events"]]
    assert given == [
        {"name": {"stringValue": "reward"}, "score.value": {"doubleValue": 1.0},
         "explanation": {"stringValue": "the best of four"}},
        {"name": {"stringValue": "correct"}, "score.value": {"doubleValue": 1.0}, "score.label": {"stringValue": "pass"}},
    ]  # fmt: skip


def test_what_a_policy_sampled_is_a_call_beside_its_text_and_a_failed_episode_has_no_reward(folder, tmp_path):
    show(folder, "--otel", tmp_path / "traces.jsonl")
    root, chat, tool = spans_of(lines_of(tmp_path / "traces.jsonl")[1])
    assert (root["status"], root["events"], root["attributes"]["error.type"]) == ({"code": 2}, [], "infrastructure")
    assert root["attributes"]["grpo.error"] == "the env broke"
    (said,) = json.loads(chat["attributes"]["gen_ai.output.messages"])
    text, call = said["parts"]
    assert text == {"type": "text", "content": "Let me see."}
    assert (call["name"], call["arguments"]) == ("dubble", {"number": 2})
    assert seconds(chat) == (10.5, 10.75)
    assert tool["attributes"]["error.type"] == "unknown_tool"
    assert tool["attributes"]["gen_ai.tool.call.id"] == call["id"]


def test_a_collector_gets_every_episode_and_the_headers_of_the_environment(folder, tmp_path, monkeypatch):
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_HEADERS", "authorization=Bearer%20abc,x-team=mail")
    with HttpStub(lambda _: Response({"partialSuccess": {}})) as collector:
        shown = show(folder, "--otel", collector.url)
    assert shown.output == f"2 episodes: {collector.url}\n"
    show(folder, "--otel", tmp_path / "traces.jsonl")
    assert [request.body for request in collector.requests] == lines_of(tmp_path / "traces.jsonl"), "the same ids, too"
    assert {(request.method, request.path) for request in collector.requests} == {("POST", "/v1/traces")}
    headers = collector.requests[0].headers
    assert (headers["authorization"], headers["x-team"]) == ("Bearer abc", "mail")
    assert headers["content-type"] == "application/json"


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        (Response("no such tenant", 403), "took 1 episodes and refuses the next: no such tenant"),
        (Response({"partialSuccess": {"rejectedSpans": "4", "errorMessage": "too old"}}), "too old"),
    ],
)
def test_a_collector_that_refuses_is_told_with_what_it_has(folder, answer, said):
    with HttpStub() as collector:
        collector.answer = lambda _: answer if len(collector.requests) > 1 else Response({})
        shown = show(folder, "--otel", f"{collector.url}/own/path")
    assert shown.exit_code == 1
    assert said in shown.output
    assert collector.requests[0].path == "/own/path"


def test_a_collector_that_is_not_there_and_a_file_that_cannot_be_written_are_named(folder, tmp_path):
    with HttpStub() as collector:
        url = collector.url
    assert f"{url}/v1/traces took 0 episodes and refuses the next: " in show(folder, "--otel", url).output
    assert "name another file" in show(folder, "--otel", tmp_path).output
    assert "leave AGAINST and --out out" in show(folder, folder, "--otel", url).output
    (tmp_path / "empty").mkdir()
    assert "holds no episodes; name a run directory" in show(tmp_path / "empty", "--inspect", tmp_path / "l").output
    (folder / "results.jsonl").write_bytes(b"{}\n" + (folder / "results.jsonl").read_bytes())
    assert "results.jsonl line 1: this is no saved episode" in show(folder, "--otel", tmp_path / "t").output
    assert not (tmp_path / "t").exists()


def test_what_a_run_sampled_and_evaluated_is_all_there(tmp_path):
    root = make_run(tmp_path / "run", episodes=3)
    assert show(root, "--otel", tmp_path / "t").output == f"12 episodes: {tmp_path / 't'}\n"
    names = [span["name"] for line in lines_of(tmp_path / "t") for span in spans_of(line)]
    assert names.count("invoke_agent policy") == 12
    assert "execute_tool search_inbox" in names
    assert len(show(root, "--inspect", tmp_path / "logs").output.splitlines()) == 4
    assert len(list((tmp_path / "logs").iterdir())) == 4


def test_a_log_has_the_numbers_of_our_summary(tmp_path):
    run("--agent", "bm25", "--limit", "8", "-k", "2", "--out", str(tmp_path / "e"), env="EmailSearch-v0")
    shown = show(tmp_path / "e", "--inspect", tmp_path / "logs")
    (path,) = (tmp_path / "logs").iterdir()
    assert shown.output == f"{path}\n"
    log = json.loads(path.read_bytes())
    summary = json.loads((tmp_path / "e" / "summary.json").read_bytes())["metrics"]
    found = {s["name"]: {n: m["value"] for n, m in s["metrics"].items()} for s in log["results"]["scores"]}
    assert found == {"reward": summary["reward/mean"], "correct": summary["answer/correct"]}
    by_key = {(row["scenario_id"], row["sample"] + 1): row for row in rows(tmp_path / "e")}
    assert {(s["id"], s["epoch"]): s["scores"]["reward"]["value"] for s in log["samples"]} == {
        key: row["reward"] for key, row in by_key.items()
    }
    assert (log["eval"]["config"]["epochs"], log["eval"]["dataset"]["samples"]) == (2, 8)
    assert all(row["began"] > 1.7e9 for row in by_key.values()), "the record says when an episode began"


def test_a_failed_episode_is_an_error_in_the_log_and_has_no_score(folder, tmp_path):
    show(folder, "--inspect", tmp_path / "logs")
    (path,) = (tmp_path / "logs").iterdir()
    assert path.name.startswith("2023-11-14T22-13-20-00-00_Sums-v0-evaluation_")
    first, second = json.loads(path.read_bytes())["samples"]
    assert (first["error"], second["error"]["message"], second["scores"]) == (None, "the env broke", {})
    assert first["scores"]["correct"] == {"value": "C", "answer": "It is 4.", "explanation": "the best of four"}
    assert first["messages"][3] == {"role": "tool", "content": "4", "tool_call_id": "c1", "function": "double"}
    assert second["messages"][2]["content"] == "Let me see."

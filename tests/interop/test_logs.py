"""Episodes in the real packages of others: opentelemetry-proto 1.45.2 parses the traces, Inspect 0.3.285 lists the logs.

Each lives in an interpreter of its own under ``.venv-interop``, which ``scripts/test_interop`` makes.
"""

import json
import os
import subprocess
import urllib.request
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from grpo.cli.view import view
from grpo.episodes.record import write_episodes
from tests import ROOT
from tests.grpo.report.test_exports import by_a_policy, by_an_agent
from tests.support.evaluations import run
from tests.support.wait import wait_until

PARSE = """
import base64, json, sys
from google.protobuf import json_format
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
spans = []
for line in open(sys.argv[1]):
    body = json.loads(line)
    for span in body["resourceSpans"][0]["scopeSpans"][0]["spans"]:  # ids are hex in OTLP/JSON, base64 for protobuf
        for name in {"traceId", "spanId", "parentSpanId"} & span.keys():
            span[name] = base64.b64encode(bytes.fromhex(span[name])).decode()
    read = json_format.ParseDict(body, ExportTraceServiceRequest())
    assert ExportTraceServiceRequest.FromString(read.SerializeToString()) == read
    spans += read.resource_spans[0].scope_spans[0].spans
print(json.dumps([[s.name, s.kind, len(s.trace_id), len(s.span_id), s.end_time_unix_nano - s.start_time_unix_nano,
                   [e.name for e in s.events]] for s in spans]))
"""
READ = """
import json, sys
from inspect_ai.log import list_eval_logs, read_eval_log, recompute_metrics, read_eval_log_sample_summaries
(found,) = list_eval_logs(sys.argv[1])
log = read_eval_log(found)
def scores():
    return {s.name: {n: m.value for n, m in s.metrics.items()} for s in log.results.scores}
print(json.dumps({"task": found.task, "status": log.status, "scores": scores(), "samples": len(log.samples),
                  "summaries": [s.completed for s in read_eval_log_sample_summaries(found)],
                  "rewards": [s.scores["reward"].as_float() for s in log.samples],
                  "roles": [m.role for m in log.samples[0].messages],
                  "calls": [c.function for m in log.samples[0].messages for c in getattr(m, "tool_calls", 0) or ()]}))
"""


def python_of(name: str) -> Path:
    python = ROOT / ".venv-interop" / name / "bin" / "python"
    if not python.exists():
        pytest.skip(f"there is no .venv-interop/{name}; scripts/test_interop makes it")
    return python


def said(python: Path, program: str, *arguments: object) -> Any:
    done = subprocess.run([python, "-c", program, *map(str, arguments)], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def shown(*arguments: object) -> None:
    done = CliRunner().invoke(view, list(map(str, arguments)))
    assert done.exit_code == 0, done.output


def test_opentelemetrys_own_package_parses_every_trace(tmp_path):
    python = python_of("otel")
    (tmp_path / "e").mkdir()
    (tmp_path / "e" / "config.json").write_text('{"agent": "mod:agent"}')
    write_episodes(tmp_path / "e" / "results.jsonl", [by_an_agent(), by_a_policy()])
    shown(tmp_path / "e", "--otel", tmp_path / "traces.jsonl")
    event = "gen_ai.evaluation.result"
    assert said(python, PARSE, tmp_path / "traces.jsonl") == [
        ["invoke_agent mod:agent", 1, 16, 8, 2_000_000_000, [event, event]],
        ["chat m1", 3, 16, 8, 500_000_000, []],
        ["chat m1", 3, 16, 8, 250_000_000, []],
        ["execute_tool double", 1, 16, 8, 250_000_000, []],
        ["invoke_agent mod:agent", 1, 16, 8, 1_000_000_000, []],
        ["chat mod:agent", 3, 16, 8, 250_000_000, []],
        ["execute_tool dubble", 1, 16, 8, 250_000_000, []],
    ]


@pytest.fixture
def logs(tmp_path: Path) -> Path:
    run("--agent", "oracle", "--limit", "6", "--out", str(tmp_path / "e"), env="EmailSearch-v0")
    shown(tmp_path / "e", "--inspect", tmp_path / "logs")
    return tmp_path / "logs"


def test_inspect_reads_a_log_and_its_numbers_are_ours(logs, tmp_path):
    found = said(python_of("inspect"), READ, logs)
    summary = json.loads((tmp_path / "e" / "summary.json").read_bytes())["metrics"]
    means = {"reward": summary["reward/mean"], "correct": summary["answer/correct"]}
    assert found["scores"] == means
    assert (found["task"], found["status"], found["samples"]) == ("EmailSearch-v0-e", "success", 6)
    assert sum(found["rewards"]) / 6 == pytest.approx(means["reward"]["mean"])
    assert found["summaries"] == [True] * 6
    assert found["roles"][:4] == ["system", "user", "assistant", "tool"]
    assert found["calls"][0] == "search_inbox"
    assert found["calls"][-1] == "return_final_answer"


def test_inspects_commands_dump_and_show_it(logs):
    command = python_of("inspect").parent / "inspect"
    (path,) = logs.iterdir()
    dumped = subprocess.run([command, "log", "dump", path], capture_output=True, text=True)
    assert dumped.returncode == 0, dumped.stderr
    assert len(json.loads(dumped.stdout)["samples"]) == 6
    port = "17575"
    viewer = subprocess.Popen(
        [command, "view", "start", "--log-dir", logs, "--port", port], stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
        env={**os.environ, "NO_PROXY": "127.0.0.1"}, text=True,
    )  # fmt: skip

    def asked(path: str) -> Any:
        with closing(urllib.request.urlopen(f"http://127.0.0.1:{port}/api/{path}")) as answer:
            return json.loads(answer.read())

    def is_up() -> bool:
        try:
            return bool(asked("logs"))
        except OSError:
            return False

    try:
        wait_until(is_up, seconds=120)
        (listed,) = asked("logs")["files"]
        assert listed["name"].endswith(path.name)
    finally:
        viewer.terminate()
        viewer.communicate()

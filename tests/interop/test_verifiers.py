"""verifiers' `vf-eval` plays our taskset; its traces are the evidence."""

import json

import pytest

from tests.interop.interpreters import needs, plays, program, ran, version
from tests.support.model_server import ModelServer, in_order
from tests.support.scripted import scripted

pytestmark = needs("verifiers")
ONE_LINE = "from email_env.adapters.verifiers_taskset import MessageHarness, MessageTaskset, __all__\n"


def evaluated(folder, url, count, *more):
    """Traces of `vf-eval`, by the task's name; the runtime `subprocess` is this machine."""
    (folder / "email_search.py").write_text(ONE_LINE)
    command = [program("verifiers", "vf-eval"), "email_search", "--env.taskset.env-kwargs", '{"split": "test"}']
    command += ["--select.limit", count, "--model", "scripted", "--client.base-url", url]
    ran([*command, "--env.agent.runtime.type", "subprocess", "--no-push", *more], folder)
    (path,) = folder.rglob("traces.jsonl")
    rows = [json.loads(line) for line in path.read_text().splitlines()]
    return {row["traces"][0]["task"]["data"]["name"]: row["traces"][0] for row in rows}


def test_this_version_was_tested():
    assert version("verifiers", "verifiers") == "0.4.0"


@pytest.mark.parametrize("policy", ["oracle", "keyword", "random"])
def test_vf_eval_gets_gymnasiums_rewards_to_the_digit(policy, tmp_path):
    episodes = list(scripted((policy,), limit=20))
    with ModelServer(plays(episodes)) as server:
        traces = evaluated(tmp_path, server.url, 20)
        sent = server.requests[0].body["tools"]
    assert sorted(traces) == sorted(episode.scenario_id for episode in episodes)
    for episode in episodes:
        trace = traces[episode.scenario_id]
        assert trace["rewards"] == {"env_reward": {"score": episode.reward, "weight": 1.0}}
        assert trace["metrics"]["turns"] == len(episode.actions)
        assert trace["errors"] == []
    assert sent[0]["function"]["parameters"]["properties"]["max_results"]["maximum"] == 8, "the schemas are exact"


def test_a_rollout_that_a_limit_of_verifiers_ends_has_no_reward(tmp_path):
    search = {"calls": [("search_inbox", {"keywords": ["budget"]})]}
    with ModelServer(in_order(search)) as server:
        (trace,) = evaluated(tmp_path, server.url, 1, "--env.agent.max-turns", "2").values()
    assert "so it has no reward" in json.dumps(trace["errors"])
    assert trace["stop_condition"] == "max_turns"

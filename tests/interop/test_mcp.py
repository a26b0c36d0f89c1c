"""mcp's own client plays our server: versions 1 and 2, each with each."""

import json
from pathlib import Path

import gymnasium
import pytest

from email_env.adapters.episode import OVER
from judges.common.tool_calls import parse_turn
from tests.interop.interpreters import needs, program, ran, version
from tests.support.scripted import EMAIL_SEARCH, scripted

pytestmark = [needs("mcp1"), needs("mcp2")]
CLIENT = Path(__file__).with_name("mcp_client.py")
WRONG = [
    ["search_inbox", {"query": "x"}],
    ["nope", {}],
    ["search_inbox", {"keywords": ["contract"], "max_results": 99}],
    ["return_final_answer", {"answer": "I don't know", "sources": []}],
]


def played(client, server, episodes, folder):
    """What a client of one version sees of servers of another, one process an episode."""
    path = folder / "episodes.json"
    path.write_text(json.dumps(episodes))
    return json.loads(ran([program(client), CLIENT, path, program(server, "email-env-mcp")], folder))


def test_these_versions_were_tested():
    assert (version("mcp1", "mcp"), version("mcp2", "mcp")) == ("1.30.0", "2.3.0")


@pytest.mark.parametrize("server", ["mcp1", "mcp2"])
def test_the_client_gets_gymnasiums_rewards_to_the_digit(server, tmp_path):
    episodes = list(scripted(limit=4))
    calls = [[[c.name, c.arguments] for action in e.actions for c in parse_turn(action).calls] for e in episodes]
    asked = [{"scenario_id": e.scenario_id, "calls": each} for e, each in zip(episodes, calls, strict=True)]
    found = played(server, server, asked, tmp_path)
    assert [each["result"]["reward"] for each in found] == [episode.reward for episode in episodes]
    assert [each["result"]["ending"] for each in found] == [episode.ending for episode in episodes]


@pytest.mark.parametrize("client", ["mcp1", "mcp2"])
@pytest.mark.parametrize("server", ["mcp1", "mcp2"])
def test_wrong_calls_reach_the_env_and_the_end_is_frozen(client, server, tmp_path):
    env = gymnasium.make(EMAIL_SEARCH, split="test").unwrapped
    scenario_id = env.scenario_ids()[0]
    question, begun = env.reset(options={"scenario_id": scenario_id})
    steps = [env.step(json.dumps({"name": name, "arguments": arguments})) for name, arguments in WRONG]
    late = {"scenario_id": scenario_id, "calls": [*WRONG, WRONG[0]]}
    unfinished = {"scenario_id": scenario_id, "calls": WRONG[:2]}
    ended, open_one = played(client, server, [late, unfinished], tmp_path)
    assert ended["texts"] == [*(step[0] for step in steps), OVER]
    metrics = steps[-1][4]["metrics"]
    assert ended["result"] == {
        "scenario_id": scenario_id, "ending": "terminated", "turns": 4, "reward": sum(step[1] for step in steps),
        "metrics": metrics,
    }  # fmt: skip
    assert metrics["invalid_calls"] == 3
    assert (open_one["result"]["reward"], open_one["result"]["metrics"]) == (None, {})
    assert question in ended["instructions"]
    assert ended["prompt"] == begun["messages"]
    assert ended["resources"] == ["episode://prompt", "episode://result"]
    functions = [tool["function"] for tool in begun["tools"]]
    assert [tool["inputSchema"] for tool in ended["tools"]] == [function["parameters"] for function in functions]
    assert [tool["description"] for tool in ended["tools"]] == [function["description"] for function in functions]

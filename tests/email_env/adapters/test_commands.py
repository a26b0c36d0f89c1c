"""The commands of the adapters, as far as they go without another project's package."""

import importlib.util
import json

import pytest
from click.testing import CliRunner

from email_env.adapters.commands import mcp, serve
from email_env.adapters.episode import OVER, Episode
from tests.support.scripted import EMAIL_SEARCH, scripted


def without(package, monkeypatch):
    found = importlib.util.find_spec
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None if name == package else found(name))


@pytest.mark.parametrize(("command", "package"), [(serve, "openenv"), (mcp, "mcp")])
def test_a_missing_package_is_named_with_the_line_that_installs_it(command, package, monkeypatch):
    without(package, monkeypatch)
    done = CliRunner().invoke(command, [])
    assert (done.exit_code, done.output) == (
        1,
        f"Error: this command needs the package {package}. Install it: pip install {package}\n",
    )


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--env", "FrozenLake-v1"], "FrozenLake-v1 gives no info['messages'] and info['tools'] at reset"),
        (["--env", "Nope-v0"], "Nope-v0 cannot be served"),
        (["--env", "no_such_module:Nope-v0"], "no_such_module:Nope-v0 cannot be served"),
        (["--scenario", "x"], "No scenario 'x' in split 'train'"),
        (["--env-kwargs", '{"splt": "test"}'], "unexpected keyword argument 'splt'"),
        (["--env-kwargs", "[1]"], "must be a mapping, not list"),
    ],
)
def test_what_cannot_be_served_is_said_at_once(arguments, said):
    pytest.importorskip("mcp", reason="the command needs mcp (extra 'eval')")
    done = CliRunner().invoke(mcp, arguments)
    assert done.exit_code == 1
    assert done.output.startswith("Error: ")
    assert said in done.output


def test_arguments_that_are_no_json_are_a_wrong_use():
    done = CliRunner().invoke(mcp, ["--env-kwargs", "{x"])
    assert (done.exit_code, "Invalid value for '--env-kwargs'" in done.output) == (2, True)


def test_an_episode_gives_gymnasiums_rewards_and_is_frozen_at_its_end():
    episode = Episode(EMAIL_SEARCH, {"split": "test"})
    for script in scripted(limit=10):
        episode.begin(scenario_id=script.scenario_id)
        gains = []
        for action in script.actions:
            assert episode.result()["reward"] is None
            assert episode.result()["metrics"] == {}
            episode.say(action)
            gains.append(episode.gain)
        ended = episode.result()
        assert (ended["reward"], ended["ending"], ended["turns"]) == (script.reward, script.ending, len(script.actions))
        assert episode.call("search_inbox", {"keywords": ["budget"]}) == OVER
        assert episode.result() == ended
        assert (sum(gains), episode.gain) == (pytest.approx(script.reward), 0.0)


def test_every_call_of_a_message_is_answered_under_its_id():
    episode = Episode().begin(seed=1)
    calls = [
        {"id": f"c{n}", "type": "function", "function": {"name": "search_inbox", "arguments": json.dumps(arguments)}}
        for n, arguments in enumerate([{"keywords": ["budget"]}, {"query": "x"}])
    ]
    replies = episode.take({"role": "assistant", "content": None, "tool_calls": calls})
    assert [(reply["role"], reply["tool_call_id"]) for reply in replies] == [("tool", "c0"), ("tool", "c1")]
    assert "has no argument 'query'" in replies[1]["content"]
    assert (episode.turns, episode.error) == (1, "bad_args")


def test_a_late_message_with_calls_is_answered_under_their_ids_too():
    episode = Episode().begin(seed=1)
    episode.say("I don't know")
    call = {"id": "c0", "type": "function", "function": {"name": "search_inbox", "arguments": "{}"}}
    replies = episode.take({"role": "assistant", "content": None, "tool_calls": [call]})
    assert [reply["tool_call_id"] for reply in replies if reply["role"] == "tool"] == ["c0"]
    assert episode.turns == 1


def test_tasks_are_scenarios_or_seeds():
    named = list(Episode(EMAIL_SEARCH, {"split": "test"}).tasks(3))
    assert named[0] == ("test-01-001", {"scenario_id": "test-01-001"})
    assert len(named) > 3
    assert list(Episode("examples.guess_number:GuessNumber-v0").tasks(2)) == [("0", {"seed": 0}), ("1", {"seed": 1})]

"""openenv:URL against a server of our own that speaks the wire: tools, rewards, faults, sessions, capacity."""

import json
import threading

import pytest

pytest.importorskip("websockets", reason="OpenEnv's wire needs the package websockets (the extra 'eval')")

from grpo.elsewhere import openenv
from grpo.envs.message_env import MessageEnv, check_env
from grpo.envs.step_cost import Place, StepCost
from grpo.errors import EnvError
from grpo.types import Task
from tests.support.openenv_server import OpenEnvServer
from tests.support.wait import wait_until


def made(server, **kwargs):
    return MessageEnv(f"openenv:{server.url}", kwargs)


def act(guess):
    return json.dumps({"name": "act", "arguments": {"guess": guess}})


def test_a_typed_action_is_one_tool_and_the_seed_reaches_the_server():
    with OpenEnvServer() as server:
        env = made(server, reset={"level": 2})
        begun = env.reset(Task(14))
        assert [message["content"] for message in begun.messages] == [
            "A number is sought.",
            "the digit sum of the seed is 4",
        ]
        (tool,) = begun.tools
        assert (tool["function"]["name"], list(tool["function"]["parameters"]["properties"])) == ("act", ["guess"])
        assert server.resets == [{"seed": 14, "level": 2}]
        wrong = env.step(act(3))
        assert (wrong.text, wrong.reward, wrong.terminated) == ('{"hint": "wrong", "tried": 3}', 0.0, False)
        right = env.step(act(4))
        assert (right.reward, right.terminated) == (1.0, True)
        assert right.metrics == {"turns": 2.0, "calls": 2.0, "faults": 0.0}
        assert env.reset(Task(14)).messages == begun.messages, "the members of a group begin equal"
        env.close()


@pytest.mark.parametrize(
    ("turn", "code", "said"),
    [
        (act("four"), "bad_args", "Error: guess: Input should be a valid integer."),
        ('{"name": "act", "arguments": {}}', "bad_args", "Error: act needs the argument 'guess'."),
        ('{"name": "act", "arguments": {"guess": 1, "so": 2}}', "bad_args", "Error: act has no argument 'so'."),
        ('{"name": "look", "arguments": {}}', "unknown_tool", "Error: there is no tool 'look'; there are: act."),
        ('<tool_call>{"name": </tool_call>', "bad_json", "Error: the tool call is not valid JSON: '{\"name\":'."),
        ("four", "no_tool_call", "Error: prose is no action."),
        ("", "no_tool_call", "Error: the turn is empty."),
    ],
)
def test_a_wrong_turn_is_answered_and_costs_a_little(turn, code, said):
    with OpenEnvServer() as server:
        env = made(server)
        env.reset(Task(4))
        told = env.step(turn)
        assert (told.info["error"], told.text, told.reward, told.terminated) == (code, said, -0.1, False)
        assert told.metrics == {"turns": 1.0, "calls": 0.0, "faults": 1.0}
        assert env.step(act(4)).reward == 1.0, "the episode goes on"
        env.close()


def test_tools_are_listed_and_called_under_their_ids_and_prose_ends_the_episode():
    with OpenEnvServer(tools=True) as server:
        env = made(server)
        assert [tool["function"]["name"] for tool in env.reset(Task(1)).tools] == ["look"]
        calls = [{"id": name, "function": {"name": "look", "arguments": json.dumps({"at": name})}} for name in "ab"]
        seen = env.step(json.dumps({"role": "assistant", "content": "", "tool_calls": calls}))
        assert [(m["tool_call_id"], m["content"]) for m in seen.messages] == [("a", "you see a"), ("b", "you see b")]
        assert seen.reward == 0.5
        ended = env.step("I have seen enough.")
        assert (ended.messages, ended.reward, ended.terminated) == ([], 0.0, True)
        wait_until(lambda: server.open == 0)
        env.close()


def test_an_episode_that_is_cut_frees_its_session():
    with OpenEnvServer() as server:
        env = made(server, max_turns=2)
        env.reset(Task(4))
        assert not env.step(act(1)).truncated
        assert env.step(act(1)).truncated
        wait_until(lambda: server.open == 0)
        env.reset(Task(4))
        assert server.open == 1
        env.close()
        wait_until(lambda: server.open == 0)


def test_a_full_server_is_waited_for_and_not_for_ever(monkeypatch):
    monkeypatch.setattr(openenv, "PAUSE_SECONDS", 0.02)
    with OpenEnvServer(sessions=1) as server:
        first, second = made(server), made(server)
        first.reset(Task(4))
        begun = []
        waiting = threading.Thread(target=lambda: begun.append(second.reset(Task(4))))
        waiting.start()
        waiting.join(0.3)
        assert not begun, "it waits"
        first.step(act(4))
        waiting.join(10)
        assert begun
        assert server.most == 1
        monkeypatch.setattr(openenv, "WAIT_SECONDS", 0.1)
        with pytest.raises(EnvError, match=r"had no session free for 0.1 s \(1 of 1\); play fewer episodes at once"):
            first.reset(Task(4))
        first.close()
        second.close()


def test_envs_that_others_wait_for_are_called_in_a_thread_each():
    cost = StepCost()
    assert cost.place(4) is None
    with OpenEnvServer() as server:
        MessageEnv(f"openenv:{server.url}", {}, cost).close()
    assert cost.place(4) is Place.THREADS


def test_a_server_that_breaks_or_is_none_is_a_harness_fault():
    with OpenEnvServer(breaks=True) as server:
        env = made(server)
        env.reset(Task(4))
        with pytest.raises(EnvError, match="failed at step: EXECUTION_ERROR 'division by zero'"):
            env.step(act(4))
        env.close()
        with pytest.raises(EnvError, match=r"schema gives no JSON .*404.*is it the URL of an OpenEnv server"):
            check_env(f"openenv:{server.url}/deeper", {})
    with pytest.raises(EnvError, match=r"schema gives no JSON .*is it the URL of an OpenEnv server"):
        check_env("openenv:http://127.0.0.1:9", {})

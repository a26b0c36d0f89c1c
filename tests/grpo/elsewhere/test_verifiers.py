"""verifiers:NAME with a harness of our own in a process of its own: it asks our endpoint, which is turned inside out."""

import json

import pytest

pytest.importorskip("uvicorn", reason="the endpoint needs the extra 'eval'")

from grpo.elsewhere import verifiers
from grpo.envs.message_env import MessageEnv
from grpo.errors import EnvError
from grpo.types import Task
from tests import ROOT

HALVE = json.dumps({"name": "half", "arguments": {"n": 8}})


@pytest.fixture(scope="module", autouse=True)
def harness():
    patch = pytest.MonkeyPatch()
    patch.setattr(verifiers, "ROLLOUT", "tests.support.harness:rollout")
    patch.setenv("PYTHONPATH", str(ROOT))
    verifiers._bridge.cache_clear()
    yield
    verifiers._bridge.cache_clear()
    patch.undo()


def made(kind, **kwargs):
    return MessageEnv(f"verifiers:{kind}", kwargs)


@pytest.mark.parametrize("kind", ["right", "streams"])
def test_a_rollout_is_an_episode(kind):
    env = made(kind)
    assert env.scenario_ids() == ["0", "1", "2", "3", "4"]
    begun = env.reset(Task(0, "4"))
    assert [(m["role"], m["content"]) for m in begun.messages] == [("system", "Think."), ("user", "Is 4 even?")]
    assert [tool["function"]["name"] for tool in begun.tools] == ["half"]
    assert env.step(HALVE).messages == [{"role": "tool", "content": "4.0"}]
    call = {"id": "mine", "type": "function", "function": {"name": "half", "arguments": '{"n": 3}'}}
    seen = env.step(json.dumps({"role": "assistant", "content": None, "tool_calls": [call]}))
    assert seen.messages == [{"role": "tool", "tool_call_id": "mine", "content": "1.5"}]
    unknown = env.step('{"name": "double", "arguments": {}}')
    assert (unknown.info["error"], unknown.reward) == ("unknown_tool", -0.1)
    ended = env.step("even")
    assert (ended.reward, ended.terminated, ended.truncated) == (1.0, True, False)
    assert ended.metrics == {"turns": 4.0, "calls": 2.0, "faults": 1.0}
    env.reset(Task(0, "3"))
    assert env.step("even").reward == 0.0
    env.close()


def test_tasks_without_splits_are_divided_by_a_hash_and_drawn_by_the_seed():
    train, test = (made("right", split=split) for split in ("train", "test"))
    assert sorted(train.scenario_ids() + test.scenario_ids()) == ["0", "1", "2", "3", "4"]
    assert train.reset(Task(5)).messages == train.reset(Task(5)).messages
    train.close()


def test_an_episode_that_is_left_or_cut_ends_its_rollout():
    env = made("right", max_turns=2)
    env.reset(Task(0, "2"))
    env.reset(Task(0, "2"))
    assert not env.step(HALVE).truncated
    assert env.step(HALVE).truncated
    env.close()
    cut = made("cut")
    cut.reset(Task(0, "2"))
    ended = cut.step("even")
    assert (ended.terminated, ended.truncated) == (False, True)
    cut.close()


@pytest.mark.parametrize(
    ("kind", "said"),
    [
        ("rewrites", "the harness rewrites its history, or has several agents"),
        ("agents", "the harness rewrites its history, or has several agents"),
        ("tools", "the harness offers other tools than at first: none"),
        ("fails", "LookupError: the taskset is lost"),
        ("asks nothing", "the rollout of task 2 ended before its harness asked a model"),
    ],
)
def test_what_cannot_be_mapped_is_refused_by_name(kind, said):
    env = made(kind)

    def play():
        env.reset(Task(0, "2"))
        env.step(HALVE)

    with pytest.raises(EnvError, match=said):
        play()
    env.close()


def test_an_interpreter_that_is_none_is_named():
    with pytest.raises(EnvError, match="the env's python no/python: there is no program"):
        made("right", python="no/python")

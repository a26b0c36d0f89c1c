"""verifiers:NAME with verifiers itself and its harness `null`: a taskset with a tool server, and an env that is the user.

Its own tasksets need data of a hub, so both are written here, by its API (tests/interop/verifiers_envs).
"""

import os

import pytest

from grpo.envs.message_env import MessageEnv
from grpo.errors import EnvError
from grpo.types import Task
from tests import ROOT
from tests.interop.commands import call, evaluated, trained
from tests.interop.interpreters import needs, program, version

pytestmark = [needs("verifiers"), pytest.mark.timeout(3000)]
KWARGS = f'{{"python": "{program("verifiers")}"}}'


@pytest.fixture(autouse=True, scope="module")
def their_tasksets():
    """They are found as installed ones would be; verifiers starts `uv` for its harness."""
    patch = pytest.MonkeyPatch()
    patch.setenv("PYTHONPATH", f"{ROOT / 'tests' / 'interop' / 'verifiers_envs'}{os.pathsep}{ROOT}")
    patch.setenv("PATH", os.path.dirname(program("verifiers")), prepend=os.pathsep)
    yield
    patch.undo()


def test_a_taskset_with_tools_is_evaluated_and_trained_on(tmp_path):
    assert version("verifiers", "verifiers") == "0.4.0"
    env = ["--env", "verifiers:colours_v1", "--env-kwargs", KWARGS]

    def play(messages, tools):
        assert [tool["function"]["name"] for tool in tools] == ["look_up"]
        assert messages[0] == {"role": "system", "content": "Answer in one word."}
        if messages[-1]["role"] == "tool":
            return {"content": messages[-1]["content"]}
        return {"calls": [("look_up", {"thing": messages[-1]["content"].split()[3].rstrip("?")})]}

    rows = evaluated(tmp_path, play, *env, "--split", "train", "--limit", "2")
    assert [(row["reward"], row["turns"]) for row in rows] == [(1.0, 2)] * 2

    def says(prompt, seed):
        return call("look_up", thing="sky") if "blue" not in prompt else ("blue" if seed % 2 else "red")

    steps = trained(tmp_path, says, *env)
    assert [step["step"] for step in steps] == [1, 2]
    assert all((step["episodes/failed"], step["env/calls"]) == (0.0, 1.0) for step in steps)
    assert all(0.0 <= step["reward/mean"] <= 1.0 for step in steps)


def test_an_env_that_is_the_user_is_evaluated_and_trained_on(tmp_path):
    env = ["--env", "verifiers:guess_v1", "--env-kwargs", KWARGS]

    def play(messages, tools):
        assert not tools
        return {"content": str(sum(message["role"] == "assistant" for message in messages))}

    rows = evaluated(tmp_path, play, *env, "--split", "train", "--limit", "3", "--seed", "1")
    assert all(row["reward"] == float(int(row["scenario_id"]) < 3) for row in rows)
    assert all(row["turns"] == min(int(row["scenario_id"]) + 1, 3) for row in rows)
    steps = trained(tmp_path, lambda _prompt, seed: str(seed % 10), *env)
    assert [step["step"] for step in steps] == [1, 2]
    assert all(step["episodes/failed"] == 0.0 for step in steps)


def test_an_env_of_several_agents_is_refused_by_name():
    env = MessageEnv("verifiers:colours_v1", {"python": program("verifiers"), "config": {"id": "agentic-judge"}})
    with pytest.raises(EnvError, match=r"colours_v1 has the agents .*; an env has one"):
        env.reset(Task(0, "0"))
    env.close()

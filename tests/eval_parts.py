"""Parts for tests of the evaluation: an env of many small tasks, and how to run an evaluation in this process."""

from __future__ import annotations

import json
import shutil
import sys
import time
from pathlib import Path
from typing import Any

import gymnasium
from click.testing import CliRunner, Result
from gymnasium import spaces

from grpo.cli.evaluate import evaluate
from tests.worker_envs import meet

SUMS_ENV = "tests.eval_parts:Sums-v0"
MEETING_SUMS_ENV = "tests.eval_parts:MeetingSums-v0"


class SumsEnv(gymnasium.Env):
    """Scenario ``i`` asks for i + i within three turns; the tool ``double`` says it. Odd ones have no answer.

    It breaks, as an env should not, where told to: ``broken`` names a scenario whose steps raise.
    """

    observation_space = spaces.Text(200)
    action_space = spaces.Text(2000)

    def __init__(self, count: int = 20, delay_seconds: float = 0.0, broken: str = ""):
        self.count = count
        self.delay_seconds = delay_seconds
        self.broken = broken
        self.scripted_policies = {"oracle": SumsOracle, "wrong": SumsWrong, "silly": SumsSilly}

    def scenario_ids(self) -> list[str]:
        return [f"sum/{number}" for number in range(self.count)]

    def answer_key(self) -> dict[str, Any] | None:
        if self.number % 2 == 1:
            return None
        return {"question": f"What is {self.number} + {self.number}?", "references": [str(2 * self.number)]}

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None):
        super().reset(seed=seed)
        self.scenario_id = (options or {})["scenario_id"]
        self.number = int(self.scenario_id.rpartition("/")[2])
        self.turns, self.answer = 0, None
        messages = [
            {"role": "system", "content": "You add."},
            {"role": "user", "content": f"What is {self.number} + {self.number}?"},
        ]
        return messages[1]["content"], {"messages": messages, "tools": TOOLS, "metrics": self._metrics()}

    def step(self, action: str):
        if self.scenario_id == self.broken:
            raise RuntimeError("the abacus is broken")
        time.sleep(self.delay_seconds)
        self.turns += 1
        text, error = self._act(action)
        truncated = self.answer is None and self.turns >= 3
        info = {"messages": [{"role": "tool", "content": text}], "metrics": self._metrics(), "error": error}
        return text, float(self._metrics()["success"]), self.answer is not None, truncated, info

    def _act(self, action: str) -> tuple[str, str]:
        if not action.startswith("{"):
            self.answer = action
            return "Answer received.", ""
        call = json.loads(action)
        if "tool_calls" in call:
            function = call["tool_calls"][0]["function"]
            call = {"name": function["name"], "arguments": json.loads(function["arguments"])}
        arguments = call["arguments"]
        if call["name"] == "return_final_answer":
            self.answer = arguments["answer"]
            return "Answer received.", ""
        if call["name"] != "double" or not isinstance(arguments.get("number"), int):
            return "Error: number must be a whole number.", "bad_args"
        return str(2 * arguments["number"]), ""

    def _metrics(self) -> dict[str, float]:
        unknown = self.number % 2 == 1
        dont_know = self.answer == "I don't know"
        right = dont_know if unknown else self.answer == str(2 * self.number)
        return {
            "success": float(right),
            "answered": float(self.answer is not None),
            "dont_know": float(dont_know),
            "answerable": float(not unknown),
            "turns": float(self.turns),
            "difficulty_easy": float(self.number < 10),
            "difficulty_hard": float(self.number >= 10),
        }


def _tool(name: str, properties: dict[str, Any]) -> dict[str, Any]:
    parameters = {"type": "object", "properties": properties, "required": list(properties)}
    return {
        "type": "function",
        "function": {"name": name, "description": f"The tool {name}.", "parameters": parameters},
    }


TOOLS = [
    _tool("double", {"number": {"type": "integer", "description": "A number."}}),
    _tool(
        "return_final_answer",
        {"answer": {"type": "string"}, "sources": {"type": "array", "items": {"type": "string"}}},
    ),
]


class MeetingSumsEnv(SumsEnv):
    """A step ends when two of these envs, wherever they live, have been in a step at the same time."""

    def __init__(self, folder: str, count: int = 2):
        super().__init__(count)
        self.folder = Path(folder)

    def step(self, action: str):
        meet(self.folder, 2)
        return super().step(action)


class SumsOracle:
    def __init__(self, env: SumsEnv, seed: int):
        self.env = env

    def act(self, observation: str, info: dict[str, Any]) -> str:
        return str(2 * self.env.number) if self.env.number % 2 == 0 else "I don't know"


class SumsWrong(SumsOracle):
    """Right on scenarios that are multiples of four, wrong elsewhere."""

    def act(self, observation: str, info: dict[str, Any]) -> str:
        return str(2 * self.env.number) if self.env.number % 4 == 0 else "17"


class SumsSilly(SumsOracle):
    """Never answers, never calls well."""

    def act(self, observation: str, info: dict[str, Any]) -> str:
        return '{"name": "double", "arguments": {"number": "seven"}}'


if "Sums-v0" not in gymnasium.registry:
    gymnasium.register("Sums-v0", entry_point="tests.eval_parts:SumsEnv")
    gymnasium.register("MeetingSums-v0", entry_point="tests.eval_parts:MeetingSumsEnv")


class EndlessEnv(gymnasium.Env):
    """Never ends. It breaks, as an env should not, in the way that ``how`` names."""

    observation_space = spaces.Text(200)
    action_space = spaces.Text(200)
    resets = 0

    def __init__(self, how: str = ""):
        self.how = how
        self.steps = 0
        self.scripted_policies = {"walker": Walker, "mute": Mute}

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None):
        super().reset(seed=seed)
        EndlessEnv.resets += 1
        text = f"Walk on. {EndlessEnv.resets if self.how == 'begins' else ''}"
        return text, {"messages": [{"role": "user", "content": text}], "tools": [STEP_TOOL], "metrics": {}}

    def step(self, action: str):
        self.steps += 1
        if self.how == "leaves":
            sys.exit("no more road")
        if self.how == "hangs":
            time.sleep(1000)
        if self.how == "interrupts":
            raise KeyboardInterrupt
        return "on", 0.0, False, False, {"messages": [{"role": "tool", "content": "on"}], "metrics": {}}

    def fingerprint(self) -> Any:
        if self.how == "prints":
            raise OSError("no ink")
        return 7 if self.how == "print" else {}

    def close(self):
        if self.how == "close" or (self.how == "close later" and self.steps):
            raise RuntimeError("no such window")


class Walker:
    def __init__(self, env: EndlessEnv, seed: int):
        pass

    def act(self, observation: str, info: dict[str, Any]) -> Any:
        return '{"name": "walk", "arguments": {}}'


class Mute(Walker):
    def act(self, observation: str, info: dict[str, Any]) -> Any:
        return None


STEP_TOOL = _tool("walk", {})
ENDLESS_ENV = "tests.eval_parts:Endless-v0"

if "Endless-v0" not in gymnasium.registry:
    gymnasium.register("Endless-v0", entry_point="tests.eval_parts:EndlessEnv")


def run(*arguments: str, env: str = SUMS_ENV, **env_kwargs: Any) -> Result:
    """``grpo-eval`` in this process."""
    kwargs = ["--env-kwargs", json.dumps(env_kwargs)] if env_kwargs else []
    return CliRunner().invoke(evaluate, ["--env", env, *kwargs, *arguments], catch_exceptions=False)


def play_tiny_policy(folder: Path, run_dir: Path | None = None) -> Path:
    """An evaluation of a random adapter on a tiny model: it never answers, but its tokens are real.

    With ``run_dir`` the adapter is that of the first step of a run, which is made there.
    """
    from tests.fakes import tiny_chat_model_folder, tiny_engine
    from tests.policy_server import TinyPolicyServer

    model = tiny_chat_model_folder(folder / "model")
    tiny_engine(model).save_adapter(folder / "adapter")
    with TinyPolicyServer(model) as server:
        rollout = {"rollout.max_turn_tokens": 8, "rollout.max_tokens": 4000}
        settings = {"model": str(model), "server.urls": [server.url], **rollout}
        recipe = folder / "recipe.toml"
        recipe.write_text("\n".join(f"{name} = {json.dumps(value)}" for name, value in settings.items()))
        agent = ("--agent", f"policy:{run_dir or folder / 'adapter'}", "--recipe", str(recipe))
        if run_dir is not None:
            shutil.copytree(folder / "adapter", run_dir / "checkpoints" / "step-0001")
            (run_dir / "checkpoints" / "step-0001" / "state.json").write_text("{}")
            (run_dir / "config.json").write_text(json.dumps({"env": "FrozenLake-v1", "env_kwargs": {}, **settings}))
        shown = run(
            *agent, "--limit", "2", "--out", str(folder / "evaluation"), env="FrozenLake-v1", max_episode_steps=3
        )
    assert shown.exit_code == 0, shown.output
    return folder / "evaluation"


def rows(folder: Path) -> list[dict[str, Any]]:
    """The results that lie in a folder."""
    return [json.loads(line) for line in (folder / "results.jsonl").read_bytes().splitlines()]

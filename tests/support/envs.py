"""Envs for the tests: small ones that are played to their end, and some that meet, wait, compute, break or never end."""

import json
import os
import subprocess
import sys
import threading
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
from gymnasium import spaces

from tests.support.wait import wait_until

WORD_ENV = "tests.support.envs:WordEnv-v0"
PICTURE_ENV = "tests.support.envs:Pixels-v0"
TALK_ENV = "tests.support.envs:TalkEnv-v0"
LETTER_ENV = "tests.support.envs:LetterEnv-v0"
HARD_ENV = "tests.support.envs:Hard-v0"
SUMS_ENV = "tests.support.envs:Sums-v0"
ENDLESS_ENV = "tests.support.envs:Endless-v0"


def call(action: Any) -> str:
    """A turn that calls for an action of a plain env."""
    return f'<tool_call>{{"name": "act", "arguments": {{"action": {action}}}}}</tool_call>'


def tool(name: str, properties: dict[str, Any], required: list[str] | None = None) -> dict[str, Any]:
    """A function schema; without ``required`` it wants all of its arguments."""
    parameters = {
        "type": "object",
        "properties": properties,
        "required": list(properties) if required is None else required,
    }
    return {
        "type": "function",
        "function": {"name": name, "description": f"The tool {name}.", "parameters": parameters},
    }


class Toll(gymnasium.Env):
    """A road of five tolls. Each step costs 2; the end of the road is a success."""

    observation_space = spaces.Discrete(6)
    action_space = spaces.Discrete(2, start=1)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.place = 0
        return self.place, {}

    def step(self, action):
        self.place += 1
        return self.place, np.float64(-2), np.bool_(self.place == 5), False, {"is_success": self.place == 5}


class WordEnv(gymnasium.Env):
    """Say the secret word within three turns. It speaks the messages contract and imports nothing of ours."""

    observation_space = spaces.Text(200)
    action_space = spaces.Text(200)
    words = ("falcon", "maple", "harbor", "quartz")

    def __init__(self, split: str = "train", bonus: float = 0.0):
        self.split = split
        self.bonus = bonus
        self.scripted_policies = {"oracle": WordOracle}

    def scenario_ids(self) -> list[str]:
        return [f"{self.split}-{word}" for word in self.words]

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None):
        super().reset(seed=seed)
        ids = self.scenario_ids()
        scenario = (options or {}).get("scenario_id") or ids[int(self.np_random.integers(len(ids)))]
        self.word = scenario.split("-", 1)[1]
        self.turns = 0
        text = f"The word begins with {self.word[0]}."
        info = {
            "messages": [{"role": "system", "content": "Guess the word."}, {"role": "user", "content": text}],
            "tools": [],
            "scenario_id": scenario,
            "metrics": self._metrics(0.0),
        }
        return text, info

    def step(self, action: str):
        self.turns += 1
        right = self.word in action
        truncated = not right and self.turns >= 3
        text = "right" if right else "wrong, guess again"
        info = {
            "messages": [{"role": "tool", "content": text}],
            "metrics": self._metrics(float(right)),
            "error": "no_tool_call" if "?" in action else "",
            "stop_reason": "answer" if right else "max_turns" if truncated else "",
        }
        return text, (1.0 + self.bonus if right else 0.0), right, truncated, info

    def _metrics(self, success: float) -> dict[str, float]:
        return {"success": success, "turns": float(self.turns), "difficulty_easy": 1.0}


class WordOracle:
    """Knows the word."""

    knows_answers = True

    def __init__(self, env: WordEnv, seed: int):
        self.env = env

    def act(self, observation: str, info: dict[str, Any]) -> str:
        return f"It is {self.env.word}."


class Pixels(gymnasium.Env):
    """Shows pictures, as many of Gymnasium's envs do."""

    observation_space = spaces.Box(0, 255, (64, 64, 3), np.uint8)
    action_space = spaces.Discrete(2)

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None):
        super().reset(seed=seed)
        return np.zeros((64, 64, 3), np.uint8), {}


class TalkEnv(gymnasium.Env):
    """Three turns with one tool, whatever is said: answers twice in the role ``role`` with ``says``, then ends."""

    observation_space = spaces.Text(200)
    action_space = spaces.Text(200)
    opening = ({"role": "system", "content": "Find mail."}, {"role": "user", "content": "Where is the Atlas review?"})
    tools = (tool("search_inbox", {"keywords": {"type": "array"}}, required=[]),)

    def __init__(self, role: str = "user", says: str = "No."):
        self.role = role
        self.says = says

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None):
        super().reset(seed=seed)
        self.turns = 0
        return "", {"messages": list(self.opening), "tools": list(self.tools), "metrics": {}}

    def step(self, action: str):
        self.turns += 1
        answer = {"role": self.role, "content": f"{self.turns}. {self.says}"}
        return "", 1.0, self.turns == 3, False, {"messages": [answer], "metrics": {}, "error": ""}


class LetterEnv(gymnasium.Env):
    """Two turns, rewarded with the share of characters that follow the scenario's letter: random text spreads.

    A step that finds the file ``hang`` takes it away and does not come back.
    """

    observation_space = spaces.Text(200)
    action_space = spaces.Text(200)

    def __init__(self, split: str = "train", hang: str = ""):
        self.split, self.hang = split, hang
        self.scripted_policies = {"oracle": LetterOracle}

    def scenario_ids(self) -> list[str]:
        return [f"{self.split}-{letter}" for letter in "aeinst"]

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None):
        super().reset(seed=seed)
        scenario = (options or {}).get("scenario_id") or self.scenario_ids()[0]
        self.letter, self.turns = scenario[-1], 0
        messages = [{"role": "user", "content": f"Write after {self.letter}."}]
        return "", {"messages": messages, "tools": [], "scenario_id": scenario, "metrics": {"turns": 0.0}}

    def step(self, action: str):
        if self.hang and os.path.exists(self.hang):
            with suppress(FileNotFoundError):  # another took it
                os.unlink(self.hang)
                time.sleep(1000)
        self.turns += 1
        reward = sum(character > self.letter for character in action) / (1 + len(action))
        info = {"messages": [{"role": "user", "content": "More."}], "metrics": {"turns": float(self.turns)}}
        return "", reward, self.turns == 2, False, info


class LetterOracle:
    """Writes z."""

    def __init__(self, env: LetterEnv, seed: int):
        self.letters = "z" * (1 + seed % 3)

    def act(self, observation: str, info: dict[str, Any]) -> str:
        return self.letters


def meet(folder: str, count: int) -> None:
    """Wait until so many envs, wherever they live, have been in a step at the same time; without a folder do nothing."""
    if folder:
        Path(folder, f"{os.getpid()}-{threading.get_ident()}").touch()
        wait_until(lambda: len(os.listdir(folder)) >= count, seconds=60.0, told=lambda: "nobody came")


class Hard(WordEnv):
    """Does in each step what its arguments say: waits, computes (seconds), meets, or what a word of the action says."""

    def __init__(self, waits: float = 0.0, computes: float = 0.0, tool: Any = None, meets_in: str = "", count: int = 2):
        super().__init__()
        self.waits, self.computes, self.tool, self.meets_in, self.count = waits, computes, tool, meets_in, count

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None):
        text, info = super().reset(seed=seed, options=options)
        return text, info | {"lock": threading.Lock(), "drawn": float(self.np_random.random())}

    def step(self, action: str) -> Any:
        meet(self.meets_in, self.count)
        time.sleep(self.waits)
        began = time.thread_time()
        while time.thread_time() - began < self.computes:
            pass
        if "child" in action:
            subprocess.Popen(["sleep", "1000"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        if "hang" in action:
            time.sleep(1000)
        if "die" in action:
            os._exit(7)
        if "raise" in action:
            raise LookupError("no such page")
        _, *rest = super().step(action)
        return f"{os.getpid()} {threading.get_ident()}", *rest


class SumsEnv(gymnasium.Env):
    """Scenario ``i`` asks for i + i within three turns; the tool ``double`` says it. Odd ones have no answer.

    It breaks, as an env should not, where told to: ``broken`` names a scenario whose steps raise.
    """

    observation_space = spaces.Text(200)
    action_space = spaces.Text(2000)

    def __init__(self, count: int = 20, delay_seconds: float = 0.0, broken: str = "", meets_in: str = ""):
        self.count = count
        self.meets_in = meets_in
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
        meet(self.meets_in, 2)
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


TOOLS = [
    tool("double", {"number": {"type": "integer", "description": "A number."}}),
    tool(
        "return_final_answer",
        {"answer": {"type": "string"}, "sources": {"type": "array", "items": {"type": "string"}}},
    ),
]


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


STEP_TOOL = tool("walk", {})


_CLASSES = {WORD_ENV: WordEnv, PICTURE_ENV: Pixels, TALK_ENV: TalkEnv, LETTER_ENV: LetterEnv, HARD_ENV: Hard}
for _id, _class in (_CLASSES | {SUMS_ENV: SumsEnv, ENDLESS_ENV: EndlessEnv}).items():
    if (_name := _id.rpartition(":")[2]) not in gymnasium.registry:
        gymnasium.register(_name, entry_point=f"tests.support.envs:{_class.__name__}")

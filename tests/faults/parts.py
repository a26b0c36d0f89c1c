"""An env, a reward function and an agent that do as a file says, which `FAULT_FILE` names: ``env hang``, ``agent exit``.

What a fault ends with is done once; ``hang`` lasts as long as the file says so.
"""

import ctypes
import os
import random
import sys
import time
from pathlib import Path

import gymnasium
import httpx

from tests.support.envs import WordEnv

FILE_VARIABLE = "FAULT_FILE"


def perhaps(part: str) -> None:
    """Do what the file says of a part."""
    path = Path(os.environ[FILE_VARIABLE])
    try:
        who, _, what = path.read_text().partition(" ")
    except FileNotFoundError:
        return
    if who != part:
        return
    if what == "hang":
        while path.exists():
            time.sleep(0.2)
        return
    path.unlink(missing_ok=True)
    if what == "raise":
        raise RuntimeError(f"a fault of the {part}")
    if what == "exit":
        sys.exit(3)
    if what == "die":
        os._exit(3)
    ctypes.string_at(0)  # a crash


class Faulty(WordEnv):
    """Guess the word; a reset and a step may go wrong."""

    def reset(self, **arguments):
        perhaps("reset")
        return super().reset(**arguments)

    def step(self, action):
        perhaps("env")
        return super().step(action)


def reward(group):
    """Random, so that something is learned."""
    perhaps("reward")
    return [random.random() for _ in group.episodes]


def agent(task, tools, model):
    """Asks the model once; a fault may come before."""
    perhaps("agent")
    request = {"model": model.name, "messages": [{"role": "user", "content": task.question}], "max_tokens": 12}
    url, key = f"{model.base_url}/chat/completions", {"Authorization": f"Bearer {model.api_key}"}
    answer = httpx.post(url, json=request, headers=key, timeout=600, trust_env=False).raise_for_status().json()
    return answer["choices"][0]["message"]["content"]


gymnasium.register("Faulty-v0", entry_point="tests.faults.parts:Faulty")

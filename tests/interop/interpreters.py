"""Interpreters that have other projects' packages, and a model server that says what scripted policies said."""

import functools
import importlib.metadata
import json
import os
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from judges.common.tool_calls import parse_turn
from tests import ROOT
from tests.support.scripted import Scripted

ENVIRONMENTS = Path(os.environ.get("INTEROP", ROOT / ".venv-interop"))


def needs(name: str) -> pytest.MarkDecorator:
    """Skips where there is no environment of this name."""
    reason = f"no environment at {ENVIRONMENTS / name}; scripts/test_interop {name} makes one"
    return pytest.mark.skipif(not (ENVIRONMENTS / name / "bin" / "python").exists(), reason=reason)


def program(name: str, command: str = "python") -> str:
    """A command of an environment."""
    return str(ENVIRONMENTS / name / "bin" / command)


@functools.cache
def version(name: str, package: str) -> str:
    """Which version of a package an environment has."""
    (found,) = importlib.metadata.distributions(
        name=package, path=[str(next((ENVIRONMENTS / name / "lib").glob("python*/site-packages")))]
    )
    return found.version


def ran(command: Sequence[Any], folder: Path, **variables: str) -> str:
    """What a command prints; modules in the folder can be imported."""
    found = os.environ | {"PYTHONPATH": str(folder), "PYTHONUNBUFFERED": "1", **variables}
    found["PATH"] = f"{Path(str(command[0])).parent}{os.pathsep}{found['PATH']}"
    done = subprocess.run([*map(str, command)], cwd=folder, env=found, capture_output=True, text=True, timeout=1000)
    assert done.returncode == 0, f"{done.stdout[-4000:]}\n{done.stderr[-6000:]}"
    return done.stdout


def plays(episodes: Sequence[Scripted]):
    """A model that says each episode's actions, told by the question; for `tests.support.model_server.ModelServer`."""
    by_question = {episode.question: episode.actions for episode in episodes}
    assert len(by_question) == len(episodes), "a question tells an episode"

    def play(messages: list[dict[str, Any]], tools: list[dict[str, Any]]) -> dict[str, Any]:
        said = json.dumps([_text(message) for message in messages if message["role"] == "user"], ensure_ascii=False)
        (actions,) = [actions for question, actions in by_question.items() if json.dumps(question)[1:-1] in said]
        turns = sum(message["role"] == "assistant" for message in messages)
        if turns >= len(actions):
            return {"content": "That is all."}
        turn = parse_turn(actions[turns])
        return {"calls": [(call.name, call.arguments) for call in turn.calls]} if turn.calls else {"content": turn.text}

    return play


def _text(message: dict[str, Any]) -> str:
    content = message.get("content") or ""
    return content if isinstance(content, str) else "".join(part.get("text", "") for part in content)

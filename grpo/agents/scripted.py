"""Agents without a model: the policies an env brings along, and answers that were made elsewhere."""

from collections.abc import Collection
from pathlib import Path
from typing import Any

from grpo.envs.message_env import MessageEnv, Observation
from grpo.episodes.play import Play, Turn
from grpo.episodes.player import Agent
from grpo.errors import EvaluationError
from grpo.types import Answer
from judges.common.files import json_object


class ScriptedAgent(Agent):
    """A policy of the env's ``scripted_policies``, for example ``oracle`` or ``random``.

    It is made from the env and may look into it. So it acts where the env is called, which is no worker process.
    """

    needs_env = True

    def __init__(self, name: str):
        self.name = name

    async def run(self, play: Play) -> None:
        """Act until the episode ends."""
        policy = await play.seat.run(self._policy, play)

        async def speak(observation: Observation) -> Turn:
            return await play.seat.run(self._turn, policy, observation)

        await play.converse(speak)

    def _policy(self, play: Play) -> Any:
        env = play.seat.env
        assert isinstance(env, MessageEnv), "needs_env"
        return env.scripted_policy(self.name, play.episode.seed)

    def _turn(self, policy: Any, observation: Observation) -> Turn:
        action = policy.act(observation.text, observation.info)
        if not isinstance(action, str):
            raise TypeError(f"the policy {self.name!r} gives the action {action!r:.100}; an action is a text")
        return Turn(action)


class FileAgent(Agent):
    """Answers from a JSONL file: ``{"scenario_id": ..., "answer": ..., "sources": [...], "sample": 0}``.

    Without ``sample`` a line answers every sample; a scenario without a line gets no answer.
    """

    def __init__(self, path: Path, scenarios: Collection[str]):
        """Read the file, to answer ``scenarios``.

        Raises:
            EvaluationError: It cannot be read, a line lacks ``scenario_id`` or ``answer`` or answers what another has
                answered, or no line is of any of the scenarios.
        """
        try:
            lines = path.read_bytes().split(b"\n")
        except OSError as error:
            raise EvaluationError(f"there is no file of answers {str(path)!r} that can be read: {error}") from error
        self._answers: dict[tuple[str, int | None], Answer | None] = {}
        for number, line in enumerate(lines, start=1):
            if line.strip():
                key, answer = _read(line, f"{path} line {number}")
                if key in self._answers:
                    raise EvaluationError(f"{path} line {number} answers again what has an answer: {_shown(line)}")
                self._answers[key] = answer
        if not any(name in scenarios for name, _ in self._answers):
            first = f"; its first is {next(iter(self._answers))[0]!r}" if self._answers else ""
            asked = f"{len(scenarios)} scenarios that are asked, for example {next(iter(scenarios))!r}"
            raise EvaluationError(f"{path} has no line of any of the {asked}{first}")

    async def run(self, play: Play) -> None:
        """Give the answer, if there is one."""
        name, sample = play.episode.key
        answer = self._answers.get((name, sample if (name, sample) in self._answers else None))
        await play.seat.run(play.finish, answer, implicit=False)


def _read(line: bytes, where: str) -> tuple[tuple[str, int | None], Answer | None]:
    """What a line answers, and its answer."""
    try:
        value = json_object(line)
    except ValueError as error:
        raise EvaluationError(f"{where} {error}: {_shown(line)}") from error
    name, sample = value.get("scenario_id", value.get("id")), value.get("sample")
    if name is None or not (sample is None or isinstance(sample, int)):
        raise EvaluationError(f"{where} needs scenario_id (and a whole sample, if any): {_shown(line)}")
    text, sources = value.get("answer"), value.get("sources") or []
    if text is None:
        return (str(name), sample), None
    if not isinstance(text, str) or not isinstance(sources, list):
        raise EvaluationError(f"{where} needs answer as text and sources as a list: {_shown(line)}")
    return (str(name), sample), Answer(text, tuple(map(str, sources)))


def _shown(line: bytes) -> str:
    return line.decode(errors="replace").strip()[:120]

"""Agents without a model: the policies an env brings along, and answers that were made elsewhere."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Collection
from pathlib import Path
from typing import Any, Self

from grpo.envs.message_env import MessageEnv, Observation
from grpo.episodes.answer import Answer
from grpo.episodes.episode import Episode
from grpo.episodes.player import YIELD_SECONDS
from grpo.errors import EvaluationError


class _ModelFreeAgent:
    """Plays on the event loop, and waits for nothing but its env."""

    env_thread, needs_env = None, False

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        """Nothing to end."""


class ScriptedAgent(_ModelFreeAgent):
    """A policy of the env's ``scripted_policies``, for example ``oracle`` or ``random``.

    It is made from the env and may look into it. So it acts where the env is called, which is no worker process.
    """

    needs_env = True

    def __init__(self, name: str):
        self.name = name

    async def run(self, episode: Episode) -> None:
        """Act until the episode ends, with pauses in which its time limit or Ctrl-C can end it."""
        policy = await episode.seat.run(self._policy, episode)
        observation = episode.opening
        pause_at = time.perf_counter() + YIELD_SECONDS
        while not episode.is_over:
            observation = await episode.seat.run(self._turn, policy, episode, observation)
            if time.perf_counter() >= pause_at:
                await asyncio.sleep(0)
                pause_at = time.perf_counter() + YIELD_SECONDS

    def _policy(self, episode: Episode) -> Any:
        env = episode.seat.env
        assert isinstance(env, MessageEnv), "needs_env"
        return env.scripted_policy(self.name, episode.seed)

    def _turn(self, policy: Any, episode: Episode, observation: Observation) -> Observation:
        action = policy.act(observation.text, observation.info)
        if not isinstance(action, str):
            raise TypeError(f"the policy {self.name!r} gives the action {action!r:.100}; an action is a text")
        return episode.step(action)


class FileAgent(_ModelFreeAgent):
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

    async def run(self, episode: Episode) -> None:
        """Give the answer, if there is one."""
        name, sample = episode.key
        answer = self._answers.get((name, sample if (name, sample) in self._answers else None))
        await episode.seat.run(episode.finish, answer, implicit=False)


def _read(line: bytes, where: str) -> tuple[tuple[str, int | None], Answer | None]:
    """What a line answers, and its answer."""
    try:
        value = json.loads(line)
    except ValueError as error:
        raise EvaluationError(f"{where} is not JSON ({error}): {_shown(line)}") from error
    if not isinstance(value, dict):
        raise EvaluationError(f"{where} is not a JSON object: {_shown(line)}")
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

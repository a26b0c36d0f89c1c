"""What `email-env-server` serves: an env of OpenEnv whose action is an assistant's turn. Written for openenv 0.10.

OpenEnv knows one end, `done`; whether the env has cut the episode is `truncated` of the observation.
"""

import json
from functools import partial
from typing import Any

from fastapi import FastAPI  # pyright: ignore[reportMissingImports]
from openenv.core import env_server as openenv  # pyright: ignore[reportMissingImports]
from pydantic import Field, model_validator

from email_env.adapters.episode import Episode


class Turn(openenv.Action):
    """An assistant's turn: prose, a call, or an OpenAI message as JSON. An object without `message` is such JSON."""

    message: str

    @model_validator(mode="before")
    @classmethod
    def _whole(cls, given: Any) -> Any:
        return {"message": json.dumps(given)} if isinstance(given, dict) and "message" not in given else given


class Said(openenv.Observation):
    """What the env says; `tools` and `scenario_id` come with the first observation."""

    messages: list[dict[str, Any]]
    tools: list[dict[str, Any]] = Field(default_factory=list)
    scenario_id: str = ""
    truncated: bool = False
    error: str = ""
    metrics: dict[str, float] = Field(default_factory=dict)


class MessageEnvironment(openenv.Environment):
    """An env that speaks in messages; each session has its own."""

    SUPPORTS_CONCURRENT_SESSIONS = True

    def __init__(self, env_id: str, env_kwargs: dict[str, Any]) -> None:
        super().__init__()
        self._episode, self._episode_id = Episode(env_id, env_kwargs), ""

    def reset(self, seed: int | None = None, episode_id: str | None = None, **options: Any) -> Said:
        """Begin an episode; an option that the env does not know it refuses by name."""
        now = self._episode.begin(seed, **options)
        self._episode_id = episode_id or now.scenario_id
        return Said(messages=now.messages, tools=now.tools, scenario_id=now.scenario_id, metrics=now.metrics)

    def step(self, action: Turn, timeout_s: float | None = None, **_: Any) -> Said:
        """Take a turn; the reward is of this turn alone."""
        messages, now = self._episode.say(action.message), self._episode
        end = {"done": bool(now.ending), "truncated": now.ending == "truncated"}
        return Said(messages=messages, reward=now.gain, error=now.error, metrics=now.metrics, **end)

    @property
    def state(self) -> openenv.State:
        """Where the episode stands."""
        return openenv.State(episode_id=self._episode_id, step_count=self._episode.turns, **self._episode.result())

    def close(self) -> None:
        """Close the env."""
        self._episode.env.close()


def app(env_id: str, env_kwargs: dict[str, Any], sessions: int) -> FastAPI:
    """The server; `ENABLE_WEB_INTERFACE=true` adds OpenEnv's page at `/web`."""
    make = partial(MessageEnvironment, env_id, env_kwargs)
    return openenv.create_app(make, Turn, Said, env_name="email_env", max_concurrent_envs=sessions)

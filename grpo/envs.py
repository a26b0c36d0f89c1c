"""Episodes of any registered Gymnasium env that speaks in messages (see "Env contract" in the README).

The trainer holds envs through this file alone: how an id is resolved, how an episode is started so that the members of
a group begin equal, what a step returns. It never sees the env's class.
"""

from __future__ import annotations

import importlib
import importlib.metadata
import inspect
from dataclasses import dataclass
from typing import Any

from grpo.errors import EnvError
from grpo.types import Message, Task

ENTRY_POINT_GROUP = "gymnasium.envs"


@dataclass(frozen=True, slots=True)
class Observation:
    """What the env said: messages to append, tools (first observation only), and how the episode stands."""

    messages: list[Message]
    tools: list[dict[str, Any]]
    reward: float
    terminated: bool
    truncated: bool
    metrics: dict[str, float]
    text: str
    info: dict[str, Any]


def make_env(env_id: str, **kwargs: Any) -> Any:
    """``gymnasium.make`` that also finds bare ids of installed packages through the entry-point group.

    Raises:
        EnvError: The id is unknown, or the env refused its arguments.
    """
    import gymnasium

    if ":" not in env_id and env_id not in gymnasium.registry:
        for entry in importlib.metadata.entry_points(group=ENTRY_POINT_GROUP):
            if entry.name == env_id:
                importlib.import_module(entry.value.partition(":")[0])
    try:
        return gymnasium.make(env_id, disable_env_checker=True, **kwargs)
    except (gymnasium.error.Error, ModuleNotFoundError) as error:
        raise EnvError(
            f"no env with the id {env_id!r} could be made: {error}. "
            "Give a registered id, or module:id so that the module is imported first"
        ) from error
    except (TypeError, ValueError) as error:
        raise EnvError(f"{env_id} refused the arguments {kwargs}: {error}") from error


def takes_split(env_id: str) -> bool:
    """Whether the env's constructor has a ``split`` argument, so that held-out scenarios can be asked for by name."""
    env = make_env(env_id)
    try:
        return "split" in inspect.signature(type(env.unwrapped).__init__).parameters
    finally:
        env.close()


class Episode:
    """One env, used for one episode after another."""

    def __init__(self, env_id: str, env_kwargs: dict[str, Any]):
        self.env_id = env_id
        self.env = make_env(env_id, **env_kwargs)

    def start(self, task: Task) -> Observation:
        """Reset to the task's scenario and seed; the same task always gives the same first observation."""
        options = {"scenario_id": task.scenario_id} if task.scenario_id is not None else None
        text, info = self.env.reset(seed=task.seed, options=options)
        if "messages" not in info:
            raise EnvError(
                f"{self.env_id} gives no info['messages'] at reset (it gives {sorted(info) or 'nothing'}); "
                "the trainer needs an env that speaks in messages"
            )
        return Observation(
            list(info["messages"]), list(info.get("tools", ())), 0.0, False, False, _metrics(info), str(text), info
        )

    def step(self, action: str) -> Observation:
        """Hand the env one assistant turn as text."""
        text, reward, terminated, truncated, info = self.env.step(action)
        return Observation(
            list(info.get("messages", ())),
            [],
            float(reward),
            bool(terminated),
            bool(truncated),
            _metrics(info),
            str(text),
            info,
        )

    def scenario_ids(self) -> list[str] | None:
        """Names of the env's scenarios, or None where it has none to name."""
        try:
            method = self.env.get_wrapper_attr("scenario_ids")
        except AttributeError:
            return None
        return list(method())

    def scripted_policy(self, name: str, seed: int) -> Any:
        """A policy the env brings along (for example ``oracle``): an object with ``act(observation, info) -> str``."""
        try:
            known = dict(self.env.get_wrapper_attr("scripted_policies"))
        except AttributeError:
            known = {}
        if name not in known:
            offered = ", ".join(sorted(known)) or "none"
            raise EnvError(f"{self.env_id} has no scripted policy {name!r}; it offers: {offered}")
        return known[name](self.env.unwrapped, seed=seed)

    def close(self) -> None:
        """Close the env."""
        self.env.close()


def _metrics(info: dict[str, Any]) -> dict[str, float]:
    return {str(name): float(value) for name, value in info.get("metrics", {}).items()}

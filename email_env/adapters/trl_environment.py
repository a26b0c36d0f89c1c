"""`environment_factory` of TRL's `GRPOTrainer`, for any env that speaks in messages. Written for TRL 1.16.

TRL generates until a turn has no call. It cannot be told that the env has ended the episode: later calls are not run.
It hands calls over one by one, so each is a turn of the env. A call that its parser does not read is prose to it.
"""

from collections.abc import Sequence
from typing import Any

from email_env.adapters.episode import EMAIL_SEARCH, Episode
from email_env.errors import ConfigurationError
from judges.common.typed_functions import typed_function


def rows(env_id: str = EMAIL_SEARCH, count: int = 100, **env_kwargs: Any) -> list[dict[str, Any]]:
    """Rows of a `train_dataset`: the env's first prompt, and the task for `reset`; `count` is of a nameless env."""
    episode = Episode(env_id, env_kwargs)
    return [{"prompt": episode.begin(**task).messages, **task} for _, task in episode.tasks(count)]


def environment(env_id: str = EMAIL_SEARCH, **env_kwargs: Any) -> type:
    """A class whose methods are the env's tools, for `environment_factory`.

    Raises:
        ConfigurationError: A tool has a name that TRL does not take for one.
    """

    class MessageEnvironment:
        def __init__(self) -> None:
            self.episode = Episode(env_id, env_kwargs)

        def reset(self, seed: int | None = None, scenario_id: str | None = None, **_: Any) -> None:
            self.episode.begin(seed, scenario_id=scenario_id)

        def get_reward(self) -> float | None:
            return self.episode.result()["reward"]

    def call(env: MessageEnvironment, name: str, arguments: dict[str, Any]) -> str:
        return env.episode.call(name, arguments)

    for tool in Episode(env_id, env_kwargs).begin().tools:
        name: str = tool["function"]["name"]
        if name.startswith("_") or name in ("reset", "get_reward", "episode"):
            raise ConfigurationError(f"{env_id} has a tool {name!r}, and TRL takes a method of this name for no tool.")
        setattr(MessageEnvironment, name, typed_function(tool["function"], call, is_method=True))
    return MessageEnvironment


def hand_over_prose(completions: Sequence[Any], environments: Sequence[Any], **_: Any) -> list[None]:
    """A reward function that hands a last turn without calls to the env: an answer in prose, or what was cut off.

    It gives no reward of its own: TRL asks `get_reward` after it.
    """
    for completion, env in zip(completions, environments, strict=True):
        last = completion[-1] if completion else {}
        if last.get("role") == "assistant" and not last.get("tool_calls"):
            env.episode.say(last.get("content") or "")
    return [None] * len(completions)

"""One episode of a Gymnasium env that speaks in messages, as the loop of another project plays it.

Some loops go on when the env has ended an episode. So it is frozen at its end: what is said later changes nothing, and
is answered with `OVER`. Rewards are Gymnasium's, added up.
"""

from collections.abc import Iterator
from typing import Any, Self

import gymnasium

from email_env.errors import ConfigurationError
from judges.common.tool_calls import answer_every_call, call_action, message_action

EMAIL_SEARCH = "email_env:EmailSearch-v0"
OVER = "The episode has ended; this was not run."

Messages = list[dict[str, Any]]  # OpenAI's


class Episode:
    """An env, as `gymnasium.make` makes it (`module:id` is imported first), one episode after another.

    Attributes:
        messages: The first prompt; `tools` are OpenAI function schemas.
        reward: The sum so far; `gain` is the last turn's.
        error: What was wrong with the last turn, "" where nothing was.
        ending: "terminated" or "truncated", "" while it goes on.
    """

    def __init__(self, env_id: str = EMAIL_SEARCH, env_kwargs: dict[str, Any] | None = None) -> None:
        self.env_id = env_id
        self.env: gymnasium.Env[Any, Any] = gymnasium.make(env_id, disable_env_checker=True, **(env_kwargs or {}))
        self._start({"messages": (), "tools": ()})

    def _start(self, info: dict[str, Any]) -> None:
        self.messages, self.tools = Messages(info["messages"]), Messages(info["tools"])
        self.scenario_id, self.metrics = str(info.get("scenario_id", "")), dict[str, float](info.get("metrics", {}))
        self.reward, self.gain, self.error, self.ending, self.turns = 0.0, 0.0, "", "", 0

    def tasks(self, count: int = 100) -> Iterator[tuple[str, dict[str, Any]]]:
        """A name and arguments of `begin` for each scenario, or for so many seeds where the env names none."""
        named = getattr(self.env.unwrapped, "scenario_ids", None)
        key, values = ("scenario_id", named()) if named else ("seed", range(count))
        return ((str(value), {key: value}) for value in values)

    def begin(self, seed: int | None = None, **options: Any) -> Self:
        """Reset the env, with its own options, such as `scenario_id`; None is left out.

        Raises:
            ConfigurationError: The env does not speak in messages.
        """
        given = {name: value for name, value in options.items() if value is not None} or None
        _, info = self.env.reset(seed=seed, options=given)
        if "messages" not in info or "tools" not in info:
            wanted = "only envs that speak in messages can be played here (docs/your-env.md, Env contract)"
            raise ConfigurationError(f"{self.env_id} gives no info['messages'] and info['tools'] at reset; {wanted}.")
        self._start(info)
        return self

    def say(self, action: str) -> Messages:
        """Hand the env an assistant turn; gives the messages that answer it."""
        self.gain = 0.0
        if self.ending:
            return [{"role": "user", "content": OVER}]
        _, reward, terminated, truncated, info = self.env.step(action)
        self.gain, self.error, self.metrics = float(reward), info.get("error", ""), info.get("metrics", {})
        self.reward, self.turns = self.reward + self.gain, self.turns + 1
        self.ending = "terminated" if terminated else "truncated" if truncated else ""
        return info["messages"]

    def call(self, name: str, arguments: Any) -> str:
        """Hand the env one call as a turn; gives what the tool says."""
        return "\n\n".join(message["content"] for message in self.say(call_action(name, arguments)))

    def take(self, message: dict[str, Any]) -> Messages:
        """Hand the env an OpenAI assistant message as a turn; gives what answers it, each call under its id."""
        replies = [dict(reply) for reply in self.say(message_action(message))]
        answer_every_call(message.get("tool_calls") or [], replies, 0)
        return replies

    def result(self) -> dict[str, Any]:
        """How the episode stands. There is no reward, and no metric tells of it, until it has ended."""
        told = {"reward": self.reward, "metrics": self.metrics} if self.ending else {"reward": None, "metrics": {}}
        return {"scenario_id": self.scenario_id, "ending": self.ending, "turns": self.turns, **told}

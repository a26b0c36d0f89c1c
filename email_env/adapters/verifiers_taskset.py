"""A taskset of verifiers, and the harness that plays it, for any env that speaks in messages. For verifiers 0.4.

verifiers wants a module without dots in its name, so a file of yours has one line:

    from email_env.adapters.verifiers_taskset import MessageHarness, MessageTaskset, __all__

The harness plays in verifiers' own process. A rollout that the env has not ended has no reward: scoring is an error.
"""

from collections.abc import Iterator
from typing import Any

import httpx
import verifiers.v1 as vf  # pyright: ignore[reportMissingImports]
from pydantic import Field
from verifiers.v1.runtimes import ProgramResult  # pyright: ignore[reportMissingImports]

from email_env.adapters.episode import EMAIL_SEARCH, Episode

__all__ = ["MessageHarness", "MessageTaskset"]


class _Config(vf.TasksetConfig):
    env: str = EMAIL_SEARCH
    env_kwargs: dict[str, Any] = Field(default_factory=dict)
    count: int = 100


class _Data(vf.TaskData):
    config: _Config
    begin: dict[str, Any]


class _Task(vf.Task[_Data, vf.State, vf.TaskConfig]):
    @vf.reward
    async def env_reward(self, trace: vf.Trace) -> float:
        if (result := trace.info.get("episode")) is None:
            raise ValueError("the env has not ended the episode, so it has no reward")
        trace.record_metrics(result["metrics"])
        return result["reward"]


class MessageTaskset(vf.Taskset[_Task, _Config]):
    """The env's scenarios, or `count` seeds where it names none."""

    def load(self) -> Iterator[_Task]:
        """The tasks."""
        episode = Episode(self.config.env, self.config.env_kwargs)
        for name, begin in episode.tasks(self.config.count):
            prompt = episode.begin(**begin).messages[-1]["content"]
            yield _Task(_Data(name=name, prompt=prompt, config=self.config, begin=begin), self.config.task)


class MessageHarness(vf.Harness[vf.HarnessConfig]):
    """A plain tool loop in which the env answers."""

    EXECUTES_CODE = NEEDS_CONTAINER = False

    async def launch(
        self, ctx: Any, trace: Any, runtime: Any, endpoint: str, secret: str, mcp_urls: Any, data: _Data
    ) -> ProgramResult:
        """Play to the end."""
        episode = Episode(data.config.env, data.config.env_kwargs).begin(**data.begin)
        body: dict[str, Any] = {"model": ctx.model, "messages": list(episode.messages), "tools": episode.tools}
        async with httpx.AsyncClient(timeout=None, headers={"Authorization": f"Bearer {secret}"}) as client:
            while not episode.ending:
                reply = await client.post(f"{endpoint}/chat/completions", json=body)
                if reply.is_error:  # a limit of the run's, or the model; verifiers knows which
                    return ProgramResult(1, "", reply.text)
                message = reply.json()["choices"][0]["message"]
                body["messages"] += [message, *episode.take(message)]
        trace.info["episode"] = episode.result()
        episode.env.close()
        return ProgramResult(0, "", "")

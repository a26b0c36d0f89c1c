"""Episodes for the tests: made by hand, played by a scripted policy, and read as flat lists of ids."""

import asyncio
import json
from pathlib import Path
from typing import Any

from grpo.agents.policy import PolicyAgent
from grpo.envs.pool import EnvPool
from grpo.episodes.player import Player, planned_episodes
from grpo.serving.policy import Policy, SamplingParams
from grpo.types import Episode, ModelCall, Task, TokenRow
from tests.support.envs import TALK_ENV
from tests.support.policies import ScriptedPolicy


def say(
    episode: Episode, prompt: list[int], ids: list[int], logprobs: list[float] | None = None, error: str = ""
) -> ModelCall:
    """Add a turn that was sampled after ``prompt``, which goes on where the call before ended."""
    last = len(episode.calls) - 1
    call = ModelCall(
        version=0,
        turn=episode.num_turns,
        follows=None if last < 0 else last,
        prompt_ids=prompt,
        sampled_ids=ids,
        logprobs=[-0.5] * len(ids) if logprobs is None else logprobs,
        completion_tokens=len(ids),
        prompt_tokens=len(prompt),
        status=200,
    )
    episode.calls.append(call)
    episode.turn_errors.append(error)
    return call


def row_of(episode: Episode) -> TokenRow:
    """The one row of its ids."""
    (row,) = episode.rows()
    return row


def ids_of(episode: Episode) -> list[int]:
    """Every id of its rows, in order."""
    return [i for row in episode.rows() for i in row.ids]


def mask_of(episode: Episode) -> list[bool]:
    """Which of `ids_of` were sampled."""
    return [turn is not None for row in episode.rows() for turn in row.calls]


def logprobs_of(episode: Episode) -> list[float]:
    """The sampler's log-probabilities of `ids_of`, 0.0 where nothing was sampled."""
    return [value for row in episode.rows() for value in row.logprobs]


def player(
    pool: EnvPool,
    chat: Any,
    policy: Policy,
    sampling: SamplingParams,
    max_tokens: int,
    concurrency: int = 64,
    **options: Any,
) -> Player:
    """What plays a policy."""
    agent = PolicyAgent(policy, chat, sampling, max_tokens)
    return Player(agent, pool, gate=asyncio.Semaphore(concurrency), **options)


def planned(task: Task, samples: int = 1) -> Any:
    """Episodes of one task."""
    return planned_episodes([task], samples, "t")


def talked(chat: Any, turns: list[str], max_tokens: int = 4096, **env_kwargs: Any) -> tuple[Episode, ScriptedPolicy]:
    """An episode of `TalkEnv` in which these turns are sampled, and the policy that saw its prompts."""
    policy = ScriptedPolicy(chat, turns)
    playing = player(EnvPool(TALK_ENV, env_kwargs), chat, policy, SamplingParams(1.0, 64), max_tokens)
    (episode,) = asyncio.run(playing.all(planned(Task(0))))
    return episode, policy


def lines_of(path: Path) -> list[dict[str, Any]]:
    """The JSON objects of a file, one a line."""
    return [json.loads(line) for line in path.read_bytes().splitlines()]


def untimed(record: dict[str, Any]) -> dict[str, Any]:
    """The record of an episode without the times that were measured."""
    calls = [{k: v for k, v in call.items() if k not in ("began", "seconds")} for call in record["calls"]]
    return {k: v for k, v in record.items() if k not in ("began", "seconds")} | {"calls": calls}

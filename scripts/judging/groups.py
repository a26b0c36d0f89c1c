"""Groups of real episodes of EmailSearch-v0: scripted policies that search, fail, read and answer on one question."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import cycle, islice
from typing import Any

import gymnasium

import email_env  # noqa: F401  (registers the env)

Messages = list[dict[str, Any]]
POLICIES = ("tutor", "keyword", "tutor", "oracle", "random", "tutor")
"""Who plays the members of a group, in turn: mostly the tutor, whose hasty searches fail in two episodes of three."""
MAX_TRIES = 400


@dataclass(frozen=True, slots=True)
class MailGroup:
    """Different episodes on one question, and the tools they had."""

    message_lists: list[Messages]
    tools: list[dict[str, Any]]

    def with_duplicates(self) -> list[Messages]:
        """As many, but each of the first half twice, as a policy that has settled gives them."""
        half = self.message_lists[: len(self.message_lists) // 2]
        return [messages for messages in half for _ in range(2)]


def mail_groups(count: int, size: int, seed: int = 0) -> list[MailGroup]:
    """``count`` groups of ``size`` different episodes of several turns, on the hard questions' split."""
    env = gymnasium.make("EmailSearch-v0", split="test", order="relevance", fallback_any=True)
    ids = env.unwrapped.scenario_ids()  # pyright: ignore[reportAttributeAccessIssue]
    groups: list[MailGroup] = []
    for number, scenario_id in enumerate(ids[seed:]):
        episodes = _different(env, scenario_id, seed + number)
        members = list(islice(episodes, size))
        if len(members) == size:
            groups.append(MailGroup(members, env.reset(options={"scenario_id": scenario_id})[1]["tools"]))
        if len(groups) == count:
            break
    env.close()
    return groups


def _different(env: Any, scenario_id: str, seed: int) -> Iterator[Messages]:
    seen: list[Messages] = []
    for attempt, name in enumerate(islice(cycle(POLICIES), MAX_TRIES)):
        messages = _play(env, scenario_id, name, seed * MAX_TRIES + attempt)
        if messages not in seen:
            seen.append(messages)
            yield messages


def _play(env: Any, scenario_id: str, name: str, seed: int) -> Messages:
    observation, info = env.reset(seed=seed, options={"scenario_id": scenario_id})
    policy = env.unwrapped.scripted_policies[name](env.unwrapped, seed=seed)
    messages: Messages = list(info["messages"])
    over = False
    while not over:
        action = policy.act(observation, info)
        observation, _, terminated, truncated, info = env.step(action)
        messages += [{"role": "assistant", "content": action}, *info["messages"]]
        over = terminated or truncated
    return messages

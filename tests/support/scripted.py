"""What the env's scripted policies say in Gymnasium's own loop, and what they get for it: others' loops must agree."""

import json
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import gymnasium

POLICIES = ("oracle", "tutor", "keyword", "bm25", "random")
EMAIL_SEARCH = "email_env:EmailSearch-v0"


@dataclass(frozen=True)
class Scripted:
    """One episode."""

    policy: str
    scenario_id: str
    question: str
    actions: list[str]
    reward: float
    ending: str


def scripted(policies: Sequence[str] = POLICIES, limit: int | None = None, **env_kwargs: Any) -> Iterator[Scripted]:
    """Each policy's episodes of the test questions."""
    env = gymnasium.make(EMAIL_SEARCH, split="test", **env_kwargs).unwrapped
    for name in policies:
        for place, scenario_id in enumerate(env.scenario_ids()[:limit]):
            policy = env.scripted_policies[name](env, seed=place)
            observation, info = env.reset(options={"scenario_id": scenario_id})
            question, actions, reward, ending = observation, [], 0.0, ""
            while not ending:
                actions.append(policy.act(observation, info))
                observation, gain, terminated, truncated, info = env.step(actions[-1])
                reward += gain
                ending = "terminated" if terminated else "truncated" if truncated else ""
            yield Scripted(name, scenario_id, question, actions, reward, ending)
    env.close()


def written(episodes: Sequence[Scripted], path: Path) -> Path:
    """The episodes as a file, for the interpreters of others."""
    path.write_text(json.dumps([asdict(episode) for episode in episodes]))
    return path

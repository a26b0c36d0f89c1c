"""Answers with labels for the rule, and the bundled questions."""

import json
from dataclasses import dataclass
from functools import cache
from typing import Any

from tests import ROOT


@dataclass(frozen=True)
class Labelled:
    question: str
    references: list[str]
    answer: str
    label: str


@cache
def labelled() -> list[Labelled]:
    lines = (ROOT / "tests" / "answers_labelled.jsonl").read_text(encoding="utf-8").splitlines()
    return [Labelled(**json.loads(line)) for line in lines]


@cache
def bundled_scenarios(split: str) -> list[Any]:
    import gymnasium

    import email_env

    env = gymnasium.make(email_env.ENV_ID, split=split)
    found: list[Any] = []
    for scenario_id in env.unwrapped.scenario_ids():
        env.reset(options={"scenario_id": scenario_id})
        found.append(env.unwrapped.scenario)
    env.close()
    return found

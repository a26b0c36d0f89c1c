"""A small office's mail and questions, for the tests of the environment, its tools and its policies."""

import json
from pathlib import Path
from typing import Any

from email_env.scenarios.scenario import Scenario
from email_env.tools.actions import parse_action
from email_env.tools.schemas import ToolOptions
from email_env.tools.toolbox import Toolbox, ToolResult
from judges.common.tool_calls import format_call
from tests.email_env.mails import ANNA, BEN, build, mail, question

BUDGET = question(
    "budget",
    question="What is the approved budget for Falcon?",
    answer="$48,250",
    accepted=("48250",),
    message_ids=("m1",),
    difficulty="easy",
    plan=(("search", ("falcon", "budget")), ("read", ("m1",))),
)
MOVED = question(
    "moved",
    question="On which day is the Falcon review?",
    answer="Thursday",
    message_ids=("m2", "m3"),
    difficulty="hard",
    plan=(("search", ("falcon", "review")), ("read", ("m2",)), ("search", ("moved",)), ("read", ("m3",))),
)
NOWHERE = question(
    "nowhere",
    question="Who pays for the Falcon party?",
    answer="I don't know",
    message_ids=(),
    difficulty="medium",
    plan=(("search", ("falcon", "party")),),
)
CITY = question("city", question="In which city is the fair?", answer="Zürich", message_ids=("m4",), split="test")
SCENARIOS = (BUDGET, MOVED, NOWHERE, CITY)
OPTIONS = ToolOptions(
    max_results=3, snippet_words=6, max_body_chars=100, order="newest", fallback_any=False, terse=False
)
MAILS = (
    mail("m1", "Falcon budget", "Finance approved $48,250 for Falcon."),
    mail("m2", "Falcon review", "The Falcon review is on Tuesday.", sent_at="2001-05-15T08:30:00Z"),
    mail("m3", "Re: plans", "The review moved to Thursday, sorry.", sent_at="2001-05-16T08:00:00Z"),
    mail("m4", "Messe", "Die Messe: see you at the fair in Zürich.\n" + "x" * 300, sent_at="2001-05-17T08:00:00Z"),
    mail("m5", "Falcon party", "Later than the question.", sent_at="2001-07-01T08:00:00Z"),
    mail("m6", "Falcon secret", "Not in Ben's inbox.", to=("caro@x.com",)),
    mail("m7", "To all", "Many get this.", cc=tuple(f"p{n}@x.com" for n in range(25)), from_addr=BEN, to=(ANNA,)),
)


def build_office(folder: Path) -> Path:
    """The database of all this."""
    path = folder / "office.db"
    report = build(path, *MAILS, scenarios=SCENARIOS)
    assert report.scenarios == len(SCENARIOS), report.scenario_misfits
    return path


def search(*keywords: str, **arguments: Any) -> str:
    return format_call("search_inbox", {"keywords": list(keywords), **arguments})


def read(message_id: str) -> str:
    return format_call("read_email", {"message_id": message_id})


def answer(text: str, *sources: str) -> str:
    return format_call("return_final_answer", {"answer": text, "sources": list(sources)})


def as_json(name: str, **arguments: Any) -> str:
    return json.dumps({"name": name, "arguments": arguments})


def run(toolbox: Toolbox, action: str, scenario: Scenario = BUDGET) -> ToolResult:
    """What comes of the one call of an action."""
    (call,) = parse_action(action).calls
    return toolbox.run(call, scenario)


def play(env: Any, scenario: Scenario, *actions: str) -> tuple[list[float], dict[str, Any]]:
    """Rewards of each step, and the last info, of an episode of these actions."""
    env.reset(options={"scenario_id": scenario.scenario_id, "split": scenario.split})
    rewards, info = [], {}
    for action in actions:
        _, reward, _, _, info = env.step(action)
        rewards.append(reward)
    return rewards, info


def episode(env: Any, policy: str, scenario_id: str | None = None, seed: int = 0) -> tuple[list[str], dict[str, float]]:
    """Actions and last metrics of an episode that a scripted policy plays."""
    player = env.scripted_policies[policy](env, seed=seed)
    observation, info = env.reset(seed=seed, options={"scenario_id": scenario_id} if scenario_id else None)
    actions, done = [], False
    while not done:
        actions.append(player.act(observation, info))
        observation, _, terminated, truncated, info = env.step(actions[-1])
        done = terminated or truncated
    return actions, info["metrics"]

"""From the text of ``--agent`` to an agent. A wrong one is explained before anything is played."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from difflib import get_close_matches
from pathlib import Path
from typing import Any

from grpo.errors import EvaluationError
from grpo.eval.runner import Agent
from grpo.eval.scripted import FileAgent, ScriptedAgent

FORMS = """\
  NAME                   a policy the env brings along (EmailSearch-v0: bm25, keyword, oracle, random, tutor)
  policy:RUN[@STEP]      a run's newest or given checkpoint, an adapter's folder, or 'base' (needs the extra gpu or cpu)
  file:ANSWERS.jsonl     answers made elsewhere, one {"scenario_id": ..., "answer": ..., "sources": [...]} a line"""


@dataclass(frozen=True, slots=True)
class AgentOptions:
    """What agents may need besides their name.

    Attributes:
        env: The env's id.
        env_kwargs: Its arguments.
        scripted: Names of the env's own policies.
        recipe: Of the model and its limits, for policies that bring none.
        temperature: Of sampling; None leaves it to the model.
        say: Called with a line for people.
    """

    env: str
    env_kwargs: dict[str, Any]
    scripted: tuple[str, ...] = ()
    recipe: str | None = None
    temperature: float | None = None
    say: Callable[[str], None] = lambda line: None


def make_agent(spec: str, options: AgentOptions) -> Agent:
    """The agent that ``spec`` names.

    Raises:
        EvaluationError: It names none; the nearest is named.
    """
    if spec in options.scripted:
        return ScriptedAgent(spec)
    kind, found, rest = spec.partition(":")
    if found and kind == "file":
        return FileAgent(Path(rest))
    if found and kind == "policy":
        from grpo.eval.trained import PolicyAgent, policy_config

        config, _ = policy_config(rest, options.recipe, options.env, options.env_kwargs)
        temperature = 1.0 if options.temperature is None else options.temperature
        return PolicyAgent(rest, config, temperature, options.say)
    near = get_close_matches(spec, options.scripted, n=1)
    hint = f" Did you mean {near[0]!r}?" if near else ""
    offered = ", ".join(options.scripted) or "none"
    raise EvaluationError(
        f"no agent {spec!r}.{hint} {options.env} brings along: {offered}. An agent is one of:\n{FORMS}"
    )

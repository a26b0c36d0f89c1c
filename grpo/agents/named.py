"""From the text of ``--agent`` to an agent. A wrong one is explained before anything is played."""

from collections.abc import Callable, Collection
from difflib import get_close_matches
from pathlib import Path
from typing import Any

from grpo.agents.own import is_module, own_agent
from grpo.agents.scripted import FileAgent, ScriptedAgent
from grpo.agents.upstream import make_upstream
from grpo.config import EvalConfig
from grpo.episodes.player import Agent
from grpo.errors import EvaluationError
from judges.common.secrets import without_users

FORMS = """\
  PKG.MOD:FUNCTION       fn(task, tools, model) -> str | Answer | None, plain or async
  cmd:PROGRAM ARGUMENTS  a program; {question} and {task_file} are replaced, see grpo/agents/program.py
  openai:MODEL@URL       a model behind an OpenAI-compatible URL, in a plain tool loop; litellm:NAME the same by litellm
  NAME                   a policy the env brings along (EmailSearch-v0: bm25, keyword, oracle, random, tutor, verbatim)
  policy:RUN[@WHICH]     a run's newest checkpoint (or @STEP, @best), an adapter's folder, or 'base' (extra gpu or cpu)
  file:ANSWERS.jsonl     answers made elsewhere, one {"scenario_id": ..., "answer": ..., "sources": [...]} a line"""


def make_agent(
    config: EvalConfig,
    env_kwargs: dict[str, Any],
    scripted: tuple[str, ...],
    scenarios: Collection[str],
    say: Callable[[str], None],
) -> Agent:
    """The agent that an evaluation names.

    Args:
        config: Of the evaluation.
        env_kwargs: Arguments of its env.
        scripted: Names of the env's own policies.
        scenarios: Ids of what will be asked.
        say: Called with a line for people.

    Raises:
        EvaluationError: It names none; the nearest is named. Or an option is given that it would not use.
    """
    spec = config.agent
    _check_use(config, scripted)
    if spec in scripted:
        return ScriptedAgent(spec)
    kind, found, rest = spec.partition(":")
    if found and kind == "file":
        return FileAgent(Path(rest).expanduser(), scenarios)
    if found and kind == "policy":
        return _served(rest, config, env_kwargs, say)
    if found and kind in ("openai", "litellm"):
        from grpo.agents.tool_loop import ToolLoopAgent

        return ToolLoopAgent(make_upstream(spec), config.temperature)
    if found and (kind == "cmd" or is_module(kind)):
        model, is_policy, target = (config.model or "").partition(":")
        if is_policy and model == "policy":
            return _served(target, config, env_kwargs, say, spec)
        upstream = None if config.model is None else make_upstream(config.model)
        return own_agent(spec, upstream, config.agent_python)
    near = get_close_matches(spec, scripted, n=1)
    hint = f" Did you mean {near[0]!r}?" if near else ""
    offered = ", ".join(scripted) or "none"
    raise EvaluationError(
        f"no agent {without_users(spec)!r}.{hint} {config.env} brings along: {offered}. An agent is one of:\n{FORMS}"
    )


def _check_use(config: EvalConfig, scripted: tuple[str, ...]) -> None:
    """Refuse an option that the agent would not use: it would stand in the results as if it had."""
    kind = "" if config.agent in scripted else config.agent.partition(":")[0]
    is_policy = "policy" in (kind, (config.model or "").partition(":")[0])
    by_name = kind in ("openai", "litellm")
    has_own_calls = not by_name and kind not in ("", "file", "policy")
    for option, value, fits, whose in (
        ("--dtype", config.dtype, is_policy, "policy: agents, which are served here,"),
        ("--temperature", config.temperature, is_policy or by_name, "policy:, openai: and litellm: agents"),
        ("--model", config.model, has_own_calls, "agents that are functions or programs"),
        ("--agent-python", config.agent_python, has_own_calls, "agents that are functions"),
    ):
        if value is not None and not fits:
            raise EvaluationError(f"{option} is for {whose} and not for {without_users(config.agent)!r}; leave it out")


def _served(
    target: str, config: EvalConfig, env_kwargs: dict[str, Any], say: Callable[[str], None], spec: str | None = None
) -> Agent:
    from grpo.agents.served import ServedPolicy, policy_config

    trained = policy_config(target, config.recipe, config.env, env_kwargs, config.dtype)
    temperature = 1.0 if config.temperature is None else config.temperature
    return ServedPolicy(target, trained, temperature, say, spec, config.agent_python)

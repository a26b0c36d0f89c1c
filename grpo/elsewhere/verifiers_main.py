"""In the interpreter that has verifiers: an agent's function that plays one rollout, or counts the tasks."""

# pyright: reportMissingImports=false
import asyncio
import itertools
import json
from typing import Any

from grpo.types import AgentTask, Answer, Model

MOST_TASKS = 10_000
GENERIC = "bash"
"""The harness of a taskset that names none; it runs commands on this machine, so ``null`` takes its place."""
_OPEN: dict[str, "asyncio.Future[tuple[Any, list[Any]]]"] = {}


async def rollout(task: AgentTask, _tools: list[Any], model: Model | None) -> Answer:
    """Play the task of a number against ``model``; without one, say how many tasks there are."""
    if task.instructions not in _OPEN:
        _OPEN[task.instructions] = asyncio.ensure_future(_opened(json.loads(task.instructions)))
    env, tasks = await _OPEN[task.instructions]
    if model is None:
        return Answer(str(len(tasks)))
    from verifiers.v1.clients import EvalClientConfig, ModelContext

    client = EvalClientConfig(base_url=model.base_url, api_key_var="NO_SUCH_KEY")
    episode = await env.run_episode(tasks[int(task.question)], ModelContext(model.name, client))
    if not episode.ok:
        errors = [*episode.errors, *(error for trace in episode.traces for error in trace.errors)]
        raise RuntimeError("; ".join(f"{error.type}: {error.message}" for error in errors))
    (trace,) = episode.traces
    return Answer(json.dumps({"reward": trace.reward, "cut": trace.is_truncated}))


async def _opened(config: dict[str, Any]) -> tuple[Any, list[Any]]:
    from verifiers.v1.configs.agent import agent_config_fields
    from verifiers.v1.utils.loaders import default_harness_id, load_environment, resolve_env_config

    name = config["taskset"]["id"]
    role, *others = agent_config_fields(resolve_env_config(config))
    if others:
        raise NotImplementedError(f"{name} has the agents {', '.join([role, *others])}; an env has one")
    own: dict[str, Any] = {"runtime": {"type": "subprocess"}}
    own |= {"harness": {"id": "null"}} if default_harness_id(name) == GENERIC else {}
    env = load_environment(resolve_env_config({**config, role: {**own, **config.get(role, {})}}))
    await env.serving().__aenter__()  # as long as this process lives
    return env, list(itertools.islice(env.taskset, MOST_TASKS))

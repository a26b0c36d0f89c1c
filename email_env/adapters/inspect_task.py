"""Tasks of Inspect over any env that speaks in messages. Written for inspect-ai 0.3.285.

    inspect eval email_env/message_env --model openai/gpt-5 -T split=test

`play_agent` is for an agent of yours that asks a client of OpenAI or Anthropic for the model "inspect". A sample that
something else than the env ended, such as a limit, is left without a score.
"""

import json
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from typing import Any

from inspect_ai import Task, agent, dataset, model, scorer, solver, task, tool  # pyright: ignore[reportMissingImports]
from pydantic import TypeAdapter

from email_env.adapters.episode import EMAIL_SEARCH, Episode, Messages
from judges.common.typed_functions import typed_function

_inspected = TypeAdapter(model.ChatMessage).validate_python


@task
def message_env(env: str = EMAIL_SEARCH, count: int = 100, **env_kwargs: Any) -> Task:
    """The env's scenarios, or so many seeds; `env_kwargs` are for its constructor."""
    first, samples = Episode(env, env_kwargs), list[Any]()
    for name, begin in first.tasks(count):
        prompt = [_inspected(message) for message in first.begin(**begin).messages]
        how = {"env": env, "env_kwargs": env_kwargs, "begin": begin}
        samples.append(dataset.Sample(id=name, input=prompt, metadata=how))
    return Task(samples, solver=play_turns(), scorer=env_reward())


@solver.solver
def play_turns() -> solver.Solver:
    """The model itself in a plain tool loop."""

    async def solve(state: solver.TaskState, generate: Any) -> solver.TaskState:
        with _playing(state) as episode:
            tools = [tool.ToolInfo.model_validate(each["function"]) for each in episode.tools]
            while not episode.ending:
                state.output = await model.get_model().generate(state.messages, tools)
                said = state.output.message
                state.messages += [said, *map(_inspected, episode.take(_openai(said)))]
        return state

    return solve


@solver.solver
def play_agent(play: Callable[[Messages, list[Callable[..., str]]], Awaitable[str | None]]) -> solver.Solver:
    """An agent takes the first prompt and the tools, and gives its answer unless it gave one by a tool."""

    async def solve(state: solver.TaskState, generate: Any) -> solver.TaskState:
        async with agent.agent_bridge(agent.AgentState(messages=state.messages)) as bridge:
            with _playing(state) as episode:
                tools = [typed_function(each["function"], episode.call) for each in episode.tools]
                if answer := await play(episode.messages, tools):
                    episode.say(answer)
        state.messages, state.output = bridge.state.messages, bridge.state.output
        return state

    return solve


@scorer.scorer(metrics=[scorer.mean(), scorer.stderr()])
def env_reward() -> scorer.Scorer:
    """The sum of Gymnasium's rewards; the env's metrics go along."""

    async def score(state: solver.TaskState, target: scorer.Target) -> scorer.Score:
        result = state.store.get("episode", {"reward": None})
        if result["reward"] is None:
            return scorer.Score.unscored(explanation="the env has not ended the episode")
        return scorer.Score(value=result["reward"], answer=result["ending"], metadata=result["metrics"])

    return score


@contextmanager
def _playing(state: solver.TaskState) -> Iterator[Episode]:
    how = state.metadata
    episode = Episode(how["env"], how["env_kwargs"]).begin(**how["begin"])
    yield episode
    state.store.set("episode", episode.result())
    episode.env.close()


def _openai(said: model.ChatMessageAssistant) -> dict[str, Any]:
    calls = [
        {"id": c.id, "type": "function", "function": {"name": c.function, "arguments": json.dumps(c.arguments)}}
        for c in said.tool_calls or ()
    ]
    return {"role": "assistant", "content": said.text, "tool_calls": calls}

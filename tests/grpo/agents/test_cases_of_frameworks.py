"""Awkward turns before unmodified agents of frameworks: with native calls an episode is one row, and every row is what was said.

The agents and what is said to them (24 scripts: odd blanks, thoughts, calls that are no JSON, tools that there are not) are
cases from outside the repository, and the frameworks have an environment of their own (`tests/test_agent_frameworks.py`).
"""

import importlib.util
import itertools
import os
from contextlib import nullcontext
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import pytest

from grpo.agents.captured import CapturedAgent, CapturedUpstream, Voice, said_of
from grpo.agents.own import own_agent
from grpo.chat import Chat
from grpo.doctor.rollouts import Rollout, check_row
from grpo.ending import Ending
from grpo.envs.pool import EnvPool
from grpo.envs.registry import TASKS_ENV
from grpo.episodes.player import Player, planned_episodes
from grpo.types import SampledTurn, Task
from tests import ROOT
from tests.grpo.chat.templates import FAMILIES
from tests.test_agent_frameworks import PYTHON, needs_frameworks

CASES = Path(os.environ.get("AGENT_CASES", ROOT.parent / "shared" / "cases" / "agents"))
SCRIPTS = 24

pytestmark = [
    needs_frameworks,
    pytest.mark.skipif(not (CASES / "scripts_of.py").exists(), reason=f"no cases at {CASES} (AGENT_CASES names them)"),
]

AGENT = """
import inspect, os, sys
sys.path.insert(0, {cases!r})
os.environ |= {{"OPENAI_API_KEY": "x", "OPENAI_AGENTS_DISABLE_TRACING": "1", "LANGCHAIN_TRACING_V2": "false", "OTEL_SDK_DISABLED": "true"}}
import agents_a

async def agent(task, tools, model):
    import asyncio
    base, case = model.base_url.removesuffix("/v1"), agents_a.{name}
    if inspect.iscoroutinefunction(case):
        return str(await case(base, {mode!r}))
    return str(await asyncio.to_thread(case, base, {mode!r}))
"""


@cache
def script(number: int):
    """The turns of a case, as its own server says them."""
    spec = importlib.util.spec_from_file_location("scripts_of", CASES / "scripts_of.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.script(number)


@dataclass
class ScriptVoice(Voice):
    """Says the turns of a script in order, its last one again and again, as text of a policy."""

    chat: Chat
    version: int | None = 1
    died: None = None

    async def turn(self, prompt, asked, play, call):
        number, turns = play.episode.number_of(call), script(int(play.episode.task.scenario_id))
        text = written(turns[min(number, len(turns) - 1)])
        if number >= len(turns) - 1 and "final_answer" in asked.tool_names:
            text = written({"calls": [("final_answer", '{"answer": "PO-5746"}')]})
        ids = [*self.chat.encode(text), self.chat.stop_token_ids[0]]
        return SampledTurn(ids, [-0.5] * len(ids), "stop"), said_of(text, asked.tool_names, f"{number:x}")


def written(turn) -> str:
    thought = f"<think>\n{turn['reasoning']}\n</think>\n\n" if turn.get("reasoning") else ""
    calls = [f'<tool_call>\n{{"name": "{name}", "arguments": {raw}}}\n</tool_call>' for name, raw in turn["calls"]]
    return thought + (turn.get("content") or "") + "\n".join(calls)


async def captured(name: str, mode: str, chat: Chat, folder: Path):
    """Every script, played by an agent of the cases."""
    (folder / "case.py").write_text(AGENT.format(cases=str(CASES), name=name, mode=mode))
    (folder / "tasks.jsonl").write_text(
        "".join(f'{{"id": "{n}", "prompt": "?", "split": "train"}}\n' for n in range(SCRIPTS))
    )
    upstream, episodes = CapturedUpstream(), []
    async with own_agent("case:agent", upstream, str(PYTHON)) as inner:
        pool = EnvPool(TASKS_ENV, {"file": str(folder / "tasks.jsonl")}, home=inner.env_thread)
        playing = Player(
            CapturedAgent(inner, upstream, lambda _: nullcontext(ScriptVoice(chat))), pool, timeout_seconds=60
        )
        await playing.all(
            planned_episodes([Task(0, str(n)) for n in range(SCRIPTS)], 1, "cases"), on_done=episodes.append
        )
    return episodes


def rollouts_of(episode):
    """The rows of an agent's episode, with its own requests as their transcripts."""
    asked = list(itertools.accumulate((call for call in episode.calls), lambda before, call: [*before[: call.shared], *call.messages], initial=[]))[1:]  # fmt: skip
    for row in episode.rows():
        (last,) = [n for n, call in enumerate(episode.calls) if call.sampled_ids and episode.ids_through(n) == row.ids]
        messages = [*asked[last], episode.calls[last].reply]
        messages = [{"reasoning_content": "", **m} if m["role"] == "assistant" else m for m in messages]
        spoken = [at for at, message in enumerate(messages) if message["role"] == "assistant"]
        mask = [turn is not None for turn in row.calls]
        turns = sum(1 for before, now in itertools.pairwise([False, *mask]) if now and not before)
        yield Rollout(
            ids=row.ids, mask=mask, messages=messages, tools=episode.calls[last].tools, prompt_messages=spoken[-turns]
        )


@pytest.mark.parametrize(
    ("name", "mode"),
    [
        ("plain", "std"), ("plain", "stream"), ("langgraph", "std"), ("langgraph", "stream"), ("langgraph", "resp"),
        ("oaiagents", "chat"), ("oaiagents", "resp"), ("pydanticai", "std"), ("pydanticai", "resp"), ("smol", "std"),
    ],
)  # fmt: skip
async def test_an_episode_of_native_calls_is_one_row_and_one_of_smolagents_has_a_root_a_call(
    name, mode, model_dir, tmp_path, monkeypatch
):
    monkeypatch.chdir(tmp_path)
    chat = FAMILIES[1].chat(model_dir)
    episodes = await captured(name, mode, chat, tmp_path)
    assert sorted(int(episode.task.scenario_id) for episode in episodes) == list(range(SCRIPTS))
    assert {episode.ending for episode in episodes} == {Ending.ANSWERED}, [episode.error for episode in episodes]
    assert sum(len(episode.calls) for episode in episodes) > 2 * SCRIPTS
    for episode in episodes:
        assert {(call.left_out, call.error) for call in episode.calls} == {("", "")}
        rows = list(rollouts_of(episode))
        roots = [number for number, call in enumerate(episode.calls) if call.follows is None]
        changed = [number for number, call in enumerate(episode.calls, start=1) if call.reply.get("tool_calls")]
        expected = [0, *changed[:-1]] if name == "smol" else [0]  # smolagents tells calls again in words of its own
        assert roots == expected, [call.differs for call in episode.calls]
        assert len(rows) == len(roots)
        assert [str(found) for row in rows for found in check_row(row, chat)] == []

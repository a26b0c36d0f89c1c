"""Agents of others whose model is the policy in training: each form they ask in, token for token; how they are ended."""

import asyncio
import json
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext

import pytest

from grpo.agents.captured import CapturedAgent, CapturedUpstream, PolicyVoice, said_of
from grpo.agents.function import FunctionAgent
from grpo.display.capture import captured as shown_of
from grpo.ending import Ending
from grpo.envs.pool import EnvPool
from grpo.episodes.player import Player, planned_episodes
from grpo.errors import ServerDiedError
from grpo.learner.segments import TurnWeights, segments_of
from grpo.serving.policy import SamplingParams
from grpo.types import Episode, Task
from grpo.watch import Watchdog
from judges.common.tool_calls import format_call
from tests.support import agents
from tests.support.envs import SUMS_ENV
from tests.support.policies import ByteChat, ScriptedPolicy

pytest.importorskip("openai", reason="the stock client is part of the test (extra 'dev')")

DOUBLE = "I double it. " + '<tool_call>\n{"name":  "double", "arguments": {"number": 4}}</tool_call>'


async def captured(agent, turns, **options):
    """Episodes of an agent whose model says ``turns``."""
    policy, episodes = ScriptedPolicy(ByteChat(), turns), list[Episode]()
    await played(agent, policy, on_done=episodes.append, **options)
    return episodes, policy


async def played(agent, policy, *, count=1, max_tokens=4000, max_turns=1000, on_done=None, learn_auxiliary=False):
    """The player of episodes of an agent whose model is a policy."""
    chat, sampling = policy.chat, SamplingParams(1.0, 200)
    upstream = CapturedUpstream()
    async with FunctionAgent(agent, upstream) as inner:
        pool = EnvPool(SUMS_ENV, {}, home=inner.env_thread)
        voice = PolicyVoice(policy, sampling, max_tokens, chat)
        agent = CapturedAgent(inner, upstream, lambda _: nullcontext(voice), learn_auxiliary)
        player = Player(agent, pool, max_turns=max_turns)
        tasks = [Task(0, str(4 + number)) for number in range(count)]
        await player.all(planned_episodes(tasks, 1, "test"), on_done=on_done)
    return player


def by_responses_loop(task, tools, model):
    """The stock client with the Responses API, whole, its history as items."""
    from openai import OpenAI

    functions = {tool.__name__: tool for tool in tools}
    offered = [{"type": "function", "name": name, "parameters": {}} for name in functions]
    items = [{"role": "user", "content": str(task)}]
    with OpenAI(base_url=model.base_url, api_key=model.api_key) as client:
        while True:
            reply = client.responses.create(model="gpt-4o", input=items, tools=offered)
            items += [item.model_dump(exclude_none=True) for item in reply.output]
            calls = [item for item in reply.output if item.type == "function_call"]
            if not calls:
                return reply.output_text
            for call in calls:
                result = functions[call.name](**json.loads(call.arguments))
                items.append({"type": "function_call_output", "call_id": call.call_id, "output": result})


def by_anthropic_whole(task, tools, model):
    return agents.by_anthropic(task, tools, model, streamed=False)


@pytest.mark.parametrize(
    "agent",
    [agents.by_chat, by_responses_loop, agents.by_anthropic, by_anthropic_whole],
    ids=lambda agent: agent.__name__,
)
async def test_every_form_is_kept_token_for_token_and_no_turn_is_encoded_again(agent):
    (episode,), policy = await captured(agent, [DOUBLE, "8"])
    assert (episode.ending, episode.answer.text, episode.reward) == (Ending.ANSWERED, "8", 1.0), episode.error
    first, second = policy.prompts
    said = [*DOUBLE.encode(), 256]
    assert second[: len(first) + len(said)] == first + said, "odd blanks and all"
    assert b"8" in bytes(i for i in second[len(first) + len(said) :] if i < 256)
    assert [(call.follows, call.version, call.status) for call in episode.calls] == [(None, 3, 200), (0, 3, 200)]
    (row,) = episode.rows()
    assert row.ids == [*second, *b"8", 256]
    assert [i for i, turn in zip(row.ids, row.calls, strict=True) if turn is not None] == [*said, *b"8", 256]
    assert episode.calls[0].reply["tool_calls"][0]["function"]["name"] == "double"
    assert episode.calls[0].reply["content"] == "I double it."


def going_on_by_chat(task, tools, model):
    """Answers by the tool, and asks on."""
    from openai import OpenAI

    tools[1](answer=tools[0](4), sources=[])
    with OpenAI(base_url=model.base_url, api_key=model.api_key) as client:
        asked = {"model": "m", "messages": [{"role": "user", "content": "?"}]}
        said = client.chat.completions.create(**asked).choices[0].message
        assert (said.content, said.tool_calls) == ("The episode is over.", None)
        end = {"name": "final_answer", "parameters": {"type": "object", "required": ["answer"]}}
        told = client.chat.completions.create(**asked, tools=[{"type": "function", "function": end}])
        (call,) = told.choices[0].message.tool_calls
        assert json.loads(call.function.arguments) == {"answer": "The episode is over."}


async def test_an_agent_that_asks_on_after_the_end_is_ended_and_nothing_of_it_is_learned():
    (episode,), policy = await captured(going_on_by_chat, ["never said"])
    assert (episode.ending, episode.error, episode.late_calls) == (Ending.ANSWERED, "", 2)
    assert (episode.calls, policy.prompts) == ([], [])


async def test_a_prompt_without_room_ends_the_agent_and_the_episode():
    (episode,), policy = await captured(agents.by_chat, [DOUBLE, "8"], max_tokens=200)
    assert episode.ending is Ending.CONTEXT_FULL, episode.error
    assert len(policy.prompts) == 1
    assert "rollout.max_tokens" in episode.error


async def test_an_agent_that_only_asks_is_cut_after_as_many_calls_as_an_episode_may_have_turns():
    (episode,), policy = await captured(agents.only_asking, ["Hm."], max_turns=5)
    assert (episode.ending, len(policy.prompts), episode.late_calls) == (Ending.MAX_TURNS, 5, 1)
    assert episode.error == "cut after 5 calls of its model, which the env had not ended (--max-turns)"


def _asks(model, *said, tools=(), **more):
    from openai import OpenAI

    schemas = [{"type": "function", "function": {"name": tool.__name__, "parameters": {}}} for tool in tools]
    with OpenAI(base_url=model.base_url, api_key=model.api_key) as client:
        asked = {"model": "m", "messages": [*said], **({"tools": schemas} if tools else {}), **more}
        return client.chat.completions.create(**asked).choices[0].message


def with_a_guard(task, tools, model):
    _asks(model, {"role": "user", "content": "Is it allowed?"}, temperature=0.2)
    return _asks(model, {"role": "user", "content": "What is 4 + 4?"}, tools=tools).content


def with_a_plan(task, tools, model):
    plan = _asks(model, {"role": "user", "content": "Make a plan."}).content
    return _asks(
        model, {"role": "system", "content": f"Plan: {plan}"}, {"role": "user", "content": "?"}, tools=tools
    ).content


def trying_again(task, tools, model):
    question = {"role": "user", "content": "?"}
    for _ in range(2):
        said = _asks(model, question, tools=tools).model_dump(exclude_none=True)
    return _asks(model, question, said, {"role": "user", "content": "Sure?"}, tools=tools).content


@pytest.mark.parametrize(
    ("agent", "left_out", "rows"),
    [(with_a_guard, ["auxiliary", ""], 1), (with_a_plan, ["", ""], 2), (trying_again, ["", "retried", ""], 1)],
)
async def test_a_call_beside_the_work_is_not_learned_from(agent, left_out, rows):
    """Of two equal calls that said the same, the newest is carried on."""
    (episode,), _ = await captured(agent, ["8"])
    assert sorted(call.left_out for call in episode.calls) == sorted(left_out), episode.error
    assert len(list(episode.rows())) == rows
    assert [tool["function"]["name"] for tool in episode.calls[-1].tools] == ["double", "return_final_answer"]
    if agent is with_a_guard:
        assert episode.calls[0].asked == {"temperature": 0.2}


def _turn(model, history, tools):
    history.append(_asks(model, *history, tools=tools).model_dump(exclude_none=True))
    history.append({"role": "user", "content": "Go on."})


def by_two_at_once(task, tools, model):
    """Two helpers, each with a history of its own and asked at the same time, and one who asks for both."""
    helpers = [[{"role": "system", "content": f"You are helper {name}."}] for name in "ab"]
    with ThreadPoolExecutor(2) as pool:
        for _ in range(3):
            list(pool.map(lambda history: _turn(model, history, tools), helpers))
    return _asks(model, {"role": "user", "content": f"They said {helpers}."}, tools=tools).content


def summing_up(task, tools, model):
    history = [{"role": "user", "content": "?"}]
    _turn(model, history, tools)
    _turn(model, history, tools)
    history[1:] = [{"role": "user", "content": "Summary: 8, 8."}]
    _turn(model, history, tools)
    return _asks(model, *history, tools=tools).content


def editing_its_instructions(task, tools, model):
    history = [{"role": "system", "content": "Turn 1."}, {"role": "user", "content": "?"}]
    _turn(model, history, tools)
    history[0] = {"role": "system", "content": "Turn 2."}
    return _asks(model, *history, tools=tools).content


@pytest.mark.parametrize(
    ("agent", "sizes", "differs"),
    [
        (by_two_at_once, [3, 3, 1], {""}),
        (summing_up, [2, 2], {""}),
        (
            editing_its_instructions,
            [1, 1],
            {"", """message 1: '["system", "Turn 2.", []]' instead of '["system", "Turn 1.", []]'"""},
        ),
    ],
)
async def test_a_history_of_its_own_is_a_row_of_its_own(agent, sizes, differs):
    """All that was said is learned from, once; a root says by which message its history differs from the nearest."""
    (episode,), policy = await captured(agent, ["8"])
    rows = list(episode.rows())
    turn = len(policy.chat.turn_ids("8"))
    assert sorted(sum(t is not None for t in row.calls) // turn for row in rows) == sorted(sizes), episode.error
    assert {call.differs for call in episode.calls} == differs
    assert not any(call.left_out for call in episode.calls)


def forgetful(task, tools, model):
    """Asks, calls a tool, and does not say what came of it."""
    for _ in range(2):
        _asks(model, {"role": "user", "content": "?"}, tools=tools)
        tools[0](number=21)
    return "8"


async def test_a_result_that_never_came_to_the_model_is_counted():
    (episode,), _ = await captured(forgetful, ["8"])
    assert "2 results of tools never came to the model as the env gave them" in shown_of([episode])
    (episode,), _ = await captured(agents.by_chat, [DOUBLE, "8"])
    assert not any("never came" in line for line in shown_of([episode]))


WRONG = format_call("double", {"nmber": 4})


async def test_a_call_has_credit_for_the_turn_that_its_reply_became():
    (episode,), _ = await captured(agents.by_chat, [WRONG, DOUBLE, "8"])
    assert [(call.turn, episode.turn_errors[call.turn]) for call in episode.calls] == [
        (0, "bad_args"),
        (1, ""),
        (2, ""),
    ]
    rows = segments_of(episode, 1.0, TurnWeights(invalid_calls=0.5), {1: -3.0, 2: 2.0})
    assert sorted(row.advantage for row in rows) == [-3.0, 0.0, 2.0], "nothing of a wrong call is learned"


async def test_who_wants_to_learn_from_calls_beside_the_work_can():
    (episode,), _ = await captured(with_a_guard, ["8"], learn_auxiliary=True)
    assert [call.left_out for call in episode.calls] == ["", ""]
    assert len(list(episode.rows())) == 2


def showing_a_picture(task, tools, model):
    import httpx

    picture = {"type": "image_url", "image_url": {"url": "data:image/png;base64,"}}
    asked = {"messages": [{"role": "user", "content": [{"type": "text", "text": "?"}, picture]}]}
    with httpx.Client(base_url=model.base_url, trust_env=False) as client:
        refused = client.post("chat/completions", json=asked)
        assert (refused.status_code, "the model reads text alone" in refused.text) == (400, True)
        asked["messages"][0]["content"].pop()
        return client.post("chat/completions", json=asked).json()["choices"][0]["message"]["content"]


async def test_a_picture_is_refused_and_parts_of_text_are_joined():
    (episode,), _ = await captured(showing_a_picture, ["8"])
    assert (episode.answer.text, episode.calls[0].messages) == ("8", [{"role": "user", "content": "?"}]), episode.error


class Gone(ScriptedPolicy):
    async def sample(self, *args, **kwargs):
        raise ServerDiedError("the server is gone")


async def test_a_server_that_died_is_told_to_the_player_whatever_the_agent_makes_of_it():
    player = await played(agents.by_chat, Gone(ByteChat(), []))
    assert isinstance(player.lost, ServerDiedError)


class Stopped(ScriptedPolicy):
    async def sample(self, *args, **kwargs):
        raise asyncio.CancelledError


async def test_an_agent_whose_run_is_stopped_is_refused_in_words_and_no_traceback_is_shown(capfd, caplog):
    episodes = list[Episode]()
    await played(agents.by_chat, Stopped(ByteChat(), []), on_done=episodes.append)
    assert {call.error for call in episodes[0].calls} == {"the run is stopped"}
    assert "Traceback" not in "".join(capfd.readouterr()) + caplog.text


def losing_patience(task, tools, model):
    """Hangs up while the model speaks, and asks the same again, as clients do; then asks something else."""
    import httpx

    with httpx.Client(base_url=model.base_url, trust_env=False) as client:
        asked = {"messages": [{"role": "user", "content": "?"}]}
        with pytest.raises(httpx.ReadTimeout):
            client.post("chat/completions", json=asked, timeout=0.2)
        again = client.post("chat/completions", json=asked, timeout=30, headers={"x-stainless-retry-count": "1"})
        time.sleep(0.5)
        said = again.json()["choices"][0]["message"]
        more = [*asked["messages"], said, {"role": "user", "content": "Sure?"}]
        return client.post("chat/completions", json={"messages": more}, timeout=30).json()["choices"][0]["message"][
            "content"
        ]


def thinking_long(task, tools, model):
    time.sleep(1.5)
    return agents.by_chat(task, tools, model)


async def test_an_agent_that_neither_asks_nor_acts_is_named_and_one_whose_model_is_slow_is_not(monkeypatch, tmp_path):
    sample = ScriptedPolicy.sample

    async def slow(self, *args, **kwargs):
        await asyncio.sleep(1.5)
        return await sample(self, *args, **kwargs)

    monkeypatch.setattr("grpo.watch.PATIENCE_SECONDS", 0.8)
    said: list[str] = []
    with Watchdog(said.append, tmp_path):
        await captured(thinking_long, [DOUBLE, "8"])
        assert said[0].startswith("agent: its episode of 4 has not moved for ")
        assert said[0].endswith("; it is left after 600 s in all")
        said.clear()
        monkeypatch.setattr(ScriptedPolicy, "sample", slow)
        await captured(agents.by_chat, [DOUBLE, "8"])
    assert not [line for line in said if line.startswith("agent: ") and "has not moved" in line]


async def test_what_was_not_delivered_is_said_once_and_sampled_once(monkeypatch):
    sample = ScriptedPolicy.sample

    async def slow(self, *args, **kwargs):
        await asyncio.sleep(0.6)
        return await sample(self, *args, **kwargs)

    monkeypatch.setattr(ScriptedPolicy, "sample", slow)
    (episode,), policy = await captured(losing_patience, ["8"])
    assert (episode.ending, episode.error, len(policy.prompts)) == (Ending.ANSWERED, "", 2)
    assert [call.follows for call in episode.calls] == [None, 0]


@pytest.mark.parametrize(
    ("text", "said", "calls"),
    [
        ("6", "6", []),
        (format_call("double", {"number": 1}), "", [("double", '{"number": 1}')]),
        ('{"name": "double", "arguments": {"number": 1}}', "", [("double", '{"number": 1}')]),
        (format_call("triple", {"number": 1}), format_call("triple", {"number": 1}), []),
        ('<tool_call>{"name": "double", "argum', '<tool_call>{"name": "double", "argum', []),
        ("<think>two?</think>\n\n6", "6", []),
    ],
)
def test_a_call_is_sent_only_where_a_client_can_run_it(text, said, calls):
    found = said_of(text, ["double"], "x")
    assert (found.text, [(call.name, call.arguments) for call in found.calls]) == (said, calls)
    assert found.thought == ("two?" if "think" in text else "")

"""What a warm start imitates: token for token what a rollout has, without duplicates, held out by task."""

import asyncio
import json
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest

from grpo.config import load_config
from grpo.display.terminal import Display
from grpo.ending import Ending
from grpo.envs.message_env import MessageEnv
from grpo.envs.pool import EnvPool
from grpo.episodes.record import line_of, write_episodes
from grpo.errors import DataError
from grpo.learner.segments import segments_of
from grpo.serving.policy import SamplingParams
from grpo.training.demonstrations import Choice, Demonstrations, from_episodes, from_log
from grpo.training.rewards import FunctionReward
from grpo.training.sft import SupervisedFineTuning, form_of
from grpo.types import Episode, Task
from judges.common.tool_calls import format_call
from tests.support.envs import WORD_ENV
from tests.support.episodes import planned, player, say
from tests.support.evaluations import asked
from tests.support.machine import traced_peak
from tests.support.model_server import sums
from tests.support.policies import ByteChat, ScriptedPolicy

CHAT = ByteChat()
END, START = ByteChat.END, ByteChat.START


def rollout(turns: list[str], scenario: str = "train-maple") -> Episode:
    policy = ScriptedPolicy(CHAT, turns)
    playing = player(EnvPool(WORD_ENV, {}), CHAT, policy, SamplingParams(1.0, 100), 1000, 4)
    return asyncio.run(playing.all(planned(Task(0, scenario))))[0]


def said(demonstrations: Demonstrations) -> list[bytes]:
    rows = [row for d in demonstrations.kept for row in d.rows]
    return [bytes(i for i, acts in zip(r.ids, r.action_mask, strict=True) if acts and i < 256) for r in rows]


def taken(folder: Path, *, max_tokens: int = 1000, same_model: bool = True, **limits: float) -> Demonstrations:
    """The demonstrations of the episodes that lie in a folder."""
    found = Demonstrations(max_tokens)
    from_episodes(found, sorted(folder.glob("*.jsonl")), CHAT, same_model=same_model, choice=Choice(**limits))
    return found


@pytest.mark.parametrize("same_model", [True, False], ids=["its ids", "its words in another model's own format"])
def test_a_saved_episode_comes_back_token_for_token(tmp_path, same_model):
    episode = rollout(["oak", "ash?", "maple"])
    write_episodes(tmp_path / "step.jsonl", [episode])
    found = taken(tmp_path, same_model=same_model)
    (sampled,) = segments_of(episode, 1.0)
    (row,) = found.kept[0].rows
    assert row.ids == sampled.ids
    assert said(found) == [b"oakmaple"]  # "ash?" got an error from the env: it is context
    assert b'"logprobs"' not in (tmp_path / "step.jsonl").read_bytes()


@pytest.mark.parametrize("agent", ["by_chat", ""], ids=["an agent of the user's", "our tool loop"])
def test_what_an_agent_asked_its_model_is_imitated_in_its_own_prompts(tmp_path, agent):
    pytest.importorskip("openai", reason="the stock client is part of the test (extra 'dev')")
    ((row,), *_) = asked(tmp_path / "evaluation", sums, agent, count=1)
    found = Demonstrations(2000)
    from_episodes(found, [tmp_path / "evaluation" / "results.jsonl"], CHAT, same_model=False)
    ((segment,),) = [demonstration.rows for demonstration in found.kept]
    opening = row["calls"][0]["messages"]
    assert len(opening) == (1 if agent else 2), "the agent asks all in one message"
    prompt = CHAT.prompt_ids(opening, row["calls"][0]["tools"] or row["tools"])
    assert segment.ids[: len(prompt)] == prompt
    assert said(found) == [format_call("double", {"number": 0}).encode() + b"0"]


def test_only_the_best_episodes_of_a_run_are_imitated(tmp_path):
    episodes = []
    for scenario, rewards in (("a", [0.2, 0.9, 0.5]), ("b", [0.1, 0.4])):
        for number, reward in enumerate(rewards):
            episode = rollout([f"maple {scenario}{number}"])
            episode.task, episode.reward = Task(0, scenario), reward
            episodes.append(episode)
    episodes[-1].ending = Ending.INFRASTRUCTURE
    write_episodes(tmp_path / "step-0001.jsonl", episodes[:2])
    write_episodes(tmp_path / "step-0002.jsonl", episodes[2:])
    best = taken(tmp_path, best_per_scenario=1)
    assert said(best) == [b"maple a1", b"maple b0"]
    assert best.left_out == {"not among the best 1 of the scenario": 2, "ended: infrastructure": 1}
    good = taken(tmp_path, min_reward=0.5)
    assert said(good) == [b"maple a1", b"maple a2"]
    assert good.left_out == {"reward below 0.5": 2, "ended: infrastructure": 1}


def test_the_best_is_the_best_that_can_be_imitated(tmp_path):
    long, invalid, short = rollout(["maple " + "x" * 80]), rollout(["maple?"]), rollout(["maple"])
    long.reward, invalid.reward, short.reward = 3.0, 2.0, 1.0
    write_episodes(tmp_path / "step.jsonl", (short, invalid, long))
    found = taken(tmp_path, max_tokens=60, best_per_scenario=1)
    assert said(found) == [b"maple"]
    assert found.left_out == {"over 60 tokens": 1, "nothing to imitate": 1}


def test_the_best_of_a_long_run_are_found_in_little_memory(tmp_path):
    episode = rollout(["maple"])
    tokens = [n % 200 for n in range(20_000)]
    for step in range(20):
        episodes = [replace(episode, task=Task(0, f"s{n}"), reward=step * (-1) ** n, calls=[]) for n in range(5)]
        for n, made in enumerate(episodes):
            say(made, [1], [*tokens, step, n])
            made.turn_errors = [""]
        write_episodes(tmp_path / f"step-{step:04d}.jsonl", episodes)
    found = Demonstrations(30_000)
    files = sorted(tmp_path.glob("*.jsonl"))
    peak = traced_peak(lambda: from_episodes(found, files, CHAT, same_model=True, choice=Choice(best_per_scenario=1)))
    assert [d.rows[0].ids[-2:] for d in found.kept] == [[19, 0], [0, 1], [19, 2], [0, 3], [19, 4]]
    assert found.left_out == {"not among the best 1 of the scenario": 95}
    assert peak < 20 * 1_000_000, "a hundred episodes have 48 MB in lists alone"


def test_a_line_that_is_no_episode_is_named(tmp_path):
    record = json.loads(line_of(rollout(["maple"])))
    del record["calls"]
    (tmp_path / "old.jsonl").write_text(json.dumps(record) + "\n")
    with pytest.raises(DataError, match=r"old\.jsonl line 1: this is no saved episode \(KeyError: 'calls'\)"):
        taken(tmp_path)


def test_an_envs_own_policy_gives_its_successes():
    config = load_config(None, {"env": WORD_ENV})
    tuning = SimpleNamespace(config=config, display=Display(quiet=True), chat=CHAT, found=Demonstrations(1000))
    with closing(MessageEnv(WORD_ENV, {})) as env:
        words = [name.rpartition("-")[2] for name in env.scenario_ids()]
    SupervisedFineTuning.play_policy(tuning, "oracle", len(words) + 1)
    assert sorted(said(tuning.found)) == [f"It is {word}.".encode() for word in sorted(words)]
    assert tuning.found.left_out == {"duplicate": 1}


def test_a_task_is_trained_on_or_held_out_and_never_both():
    found = Demonstrations(1000)
    for scenario in range(10):
        for number in range(3):
            found.add(f"s{scenario}", rollout([f"maple {scenario} {number}"]))
    train, held_out = found.split(0.2, seed=0)
    assert (len(train), len(held_out)) == (24, 6)
    words = [{bytes(i for i in row.ids[-12:] if i < 256).split()[-2] for row in rows} for rows in (train, held_out)]
    assert not words[0] & words[1]
    assert found.split(0.2, seed=0) == (train, held_out)
    assert found.split(0.0, seed=0)[1] == []


def test_nothing_to_train_on_says_what_was_left_out():
    found = Demonstrations(max_tokens=10)
    found.add("k", rollout(["maple"]))
    with pytest.raises(DataError, match=r"no demonstration to train on \(0 kept; left out: 1 over 10 tokens\)"):
        found.split(0.1, 0)


def chats(path: Path, *records: object) -> Path:
    path.write_text("".join((r if isinstance(r, str) else json.dumps(r)) + "\n" for r in records))
    return path


def turn(role: str, content: object = "x", **more: object) -> dict:
    return {"role": role, "content": content, **more}


def test_a_chat_is_encoded_as_a_rollout_would_be(tmp_path):
    """By hand: prompt, turn, end, what follows, turn, end; only turns are imitated, and those of weight 0 are not."""
    chat = {"messages": [turn("user", "a"), turn("assistant", "bc"), turn("tool", "d"), turn("assistant", "e")]}
    quiet = {
        "messages": [turn("user", "a"), turn("assistant", "bc", weight=0), turn("tool", "d"), turn("assistant", "e")]
    }
    found = Demonstrations(1000)
    from_log(found, chats(tmp_path / "c.jsonl", chat, "", quiet), CHAT)
    ids = [START, *b"a", END, START, *b"bc", END, START, *b"d", END, START, *b"e", END]
    assert [d.rows[0].ids for d in found.kept] == [ids]
    assert found.kept[0].rows[0].action_mask == [False] * 4 + [True] * 3 + [False] * 4 + [True] * 2
    assert found.left_out == {"duplicate": 1}
    alone = Demonstrations(1000)
    from_log(alone, chats(tmp_path / "q.jsonl", quiet), CHAT)
    assert said(alone) == [b"e"]


def test_tool_calls_are_written_as_a_policy_writes_them(tmp_path):
    call = {"id": "1", "type": "function", "function": {"name": "read_email", "arguments": '{"message_id": "<ü>"}'}}
    chat = {"messages": [turn("user"), turn("assistant", None, tool_calls=[call])], "tools": []}
    found = Demonstrations(1000)
    from_log(found, chats(tmp_path / "c.jsonl", chat), CHAT)
    assert said(found)[0].decode() == (
        '<tool_call>\n{"name": "read_email", "arguments": {"message_id": "<ü>"}}\n</tool_call>'
    )


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("{broken", "line 2: Expecting property name"),
        ([1, 2], 'line 2: expected an object with a list "messages"'),
        ({"messages": "hi"}, 'line 2: expected an object with a list "messages"'),
        ({"messages": [turn("robot")]}, "line 2: message 1 has the role 'robot'; it must be one of system, user"),
        ({"messages": ["hi"]}, "line 2: message 1 has the role 'hi'"),
        ({"messages": [turn("user"), turn("assistant", None)]}, r"line 2: message 2 \(assistant\) has no text"),
        ({"messages": [turn("user")]}, "line 2: the messages must begin with a system or user message and hold an"),
        ({"messages": [turn("assistant"), turn("user")]}, "line 2: the messages must begin with"),
        (
            {"messages": [turn("user"), turn("assistant"), turn("assistant")]},
            "line 2: messages 2 and 3 are both of the",
        ),
        ({"messages": [turn("user"), turn("assistant")], "tools": {"a": 1}}, 'line 2: "tools" must be a list'),
        ({"messages": [turn("user"), turn("assistant", "", tool_calls=[{"function": {}}])]}, "line 2: 'name'"),
    ],
)
def test_a_bad_line_is_named_with_its_number_and_what_is_wrong(line, message, tmp_path):
    good = {"messages": [turn("user"), turn("assistant")]}
    with pytest.raises(DataError, match=rf"c\.jsonl {message}"):
        from_log(Demonstrations(1000), chats(tmp_path / "c.jsonl", good, line), CHAT)


def test_the_ids_of_a_run_are_kept_where_model_and_form_of_the_chat_are_its_own(tmp_path):
    run = load_config(None, {"env": WORD_ENV, "model": str(tmp_path)})
    spelled = run.model_copy(update={"model": f"{tmp_path}/../{tmp_path.name}"})
    assert form_of(run) == form_of(spelled)
    for changed in (
        {"model": "other/model"},
        {"rollout.history": "append"},
        {"rollout.chat_template_kwargs": {"a": 1}},
    ):
        assert form_of(load_config(None, {"env": WORD_ENV, "model": str(tmp_path), **changed})) != form_of(run)


def asks(messages: list[dict], reply: dict, **more: object) -> dict:
    """A line of a proxy's log."""
    body = {"model": "m1", "messages": messages, "tools": more.pop("tools", [])}
    choice = {"index": 0, "message": reply, "finish_reason": more.pop("finish_reason", "stop")}
    return {"request": body, "response": {"object": "chat.completion", "choices": [choice]}, **more}


def found_in(path: Path, *records: object, **limits: object) -> Demonstrations:
    found = Demonstrations(1000)
    from_log(found, chats(path / "log.jsonl", *records), CHAT, Choice(**limits))
    return found


TURN = [turn("user", "a"), turn("assistant", "bc"), turn("user", "d"), turn("assistant", "e")]


def test_requests_that_carry_each_other_on_are_one_conversation(tmp_path):
    """The second was sent with what a framework changes on the way, and the third with a turn that is in no reply."""
    changed = [turn("user", [{"type": "text", "text": "a"}]), turn("assistant", "bc ", name="x"), TURN[2]]
    edited = [TURN[0], turn("assistant", "other"), turn("user", "f")]
    found = found_in(tmp_path, asks(TURN[:1], TURN[1]), asks(changed, TURN[3]), asks(edited, turn("assistant", "g")))
    assert said(found) == [b"bc e", b"g"]
    assert found.left_out == {"carried on by another request": 1}


@pytest.mark.parametrize(
    "line",
    [
        {"messages": TURN[:1], "response": {"choices": [{"message": TURN[1], "finish_reason": "stop"}]}},
        {"object": "chat.completion", "messages": TURN[:1], "choices": [{"message": TURN[1]}], "metadata": {"a": "b"}},
        {"custom_id": "1", "body": {"messages": TURN[:1]}, "response": {"body": {"choices": [{"message": TURN[1]}]}}},
        {"request": {"input": "a"}, "response": {"object": "response", "output": [
            {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "bc"}]}]}},
    ],
    ids=["a gateway's", "a stored completion with its messages", "a batch's", "of the Responses API"],
)  # fmt: skip
def test_a_request_is_read_wherever_a_log_has_it(tmp_path, line):
    found = found_in(tmp_path, line)
    assert [d.rows[0].ids for d in found.kept] == [[START, *b"a", END, START, *b"bc", END]]


def test_what_cannot_be_imitated_of_a_log_is_counted_by_its_reason(tmp_path):
    broken = {"tool_calls": [{"id": "1", "function": {"name": "f", "arguments": "{a"}}]}
    found = found_in(
        tmp_path,
        asks(TURN[:1], TURN[1], finish_reason="length"),
        {"request": {"messages": TURN[:1]}, "response": {"error": {"message": "overloaded"}}},
        asks(TURN[:1], turn("assistant", None, **broken)),
        asks([turn("user", [{"type": "image_url", "image_url": {}}])], TURN[1]),
        asks([turn("developer", "s"), *TURN[:1]], TURN[1]),
    )
    assert found.left_out == {
        "request without a whole reply": 2, "cannot be read: Expecting property name enclosed in double quotes": 1,
        "cannot be read: a message has parts of the kinds image_url; the model reads text alone": 1,
    }  # fmt: skip
    assert found.kept[0].rows[0].ids[:3] == [START, *b"s", END]


def test_a_log_is_chosen_from_by_its_rewards(tmp_path):
    texts = [(b"a", {"reward": 0.9}), (b"b", {"metadata": {"score": "0.5"}}), (b"c", {"score": True}), (b"d", {})]
    log = [
        {"messages": [turn("user", text.decode()), turn("assistant", text.decode())], **given} for text, given in texts
    ]
    assert said(found_in(tmp_path, *log)) == [b"a", b"b", b"c", b"d"]
    good = found_in(tmp_path, *log, min_reward=0.6)
    assert (said(good), good.left_out) == ([b"a", b"c"], {"reward below 0.6": 1, "without a reward": 1})
    best = found_in(tmp_path, *log, best_share=0.3)
    assert (said(best), best.left_out) == ([b"c"], {"not among the best 30%": 2, "without a reward": 1})
    with pytest.raises(DataError, match=r"log\.jsonl line 1: could not convert string to float: 'good'"):
        found_in(tmp_path, {**log[0], "reward": "good"})


def test_a_log_is_chosen_from_by_a_rule_of_the_users_and_of_one_prompt_the_best(tmp_path):
    log = [
        {"messages": [turn("user", "q"), turn("assistant", text)], "reward": 9} for text in ("long one", "no", "yes")
    ]
    rule = FunctionReward(
        lambda group: [-len(episode.messages[-1]["content"]) for episode in group.episodes], "shortest"
    )
    found = found_in(tmp_path, *log, reward=rule, best_per_scenario=1)
    assert (said(found), found.left_out) == ([b"no"], {"not among the best 1 of the scenario": 2})


def test_episodes_of_ours_stand_in_a_log_too(tmp_path):
    played, failed = rollout(["oak", "maple"]), rollout(["maple!"])
    failed.ending = Ending.INFRASTRUCTURE
    lines = [json.loads(line_of(episode)) for episode in (played, failed)]
    found = found_in(tmp_path, *lines, {"messages": TURN})
    assert (said(found), found.left_out) == ([b"oakmaple", b"bce"], {"ended: infrastructure": 1})

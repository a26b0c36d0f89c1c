"""Calls in a model's own form: XML of Qwen3.5, Python of LFM2, JSON of Granite 4. What is sampled is read, and never encoded again."""

import random

import pytest

from email_env.tools.actions import parse_action
from grpo.chat.served import served_chat
from grpo.envs.message_env import MessageEnv
from grpo.training.imitation import demonstrate
from grpo.types import Task
from judges.common.tool_calls import Call, Fault, in_json, parse_turn
from tests.grpo.chat.templates import OWN_FORMS, Family

own_forms = pytest.mark.parametrize("family", OWN_FORMS, ids=lambda family: family.name)

TOOLS = [
    {
        "type": "function",
        "function": {
            "name": "look_up",
            "description": "Looks something up.",
            "parameters": {
                "type": "object",
                "properties": {
                    "text": {"type": "string"},
                    "number": {"type": "integer"},
                    "share": {"type": "number"},
                    "exact": {"type": "boolean"},
                    "words": {"type": "array", "items": {"type": "string"}},
                    "where": {"type": "object"},
                    "until": {"anyOf": [{"type": "string"}, {"type": "null"}]},
                },
            },
        },
    }
]
OPENING = [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "Where is it?"}]
PIECES = [
    "Atlas",
    "2001",
    "true",
    "None",
    "ü🙂",
    "it's",
    'a "b"',
    "back\\slash",
    "<b>",
    "x=1, y",
    "[1]",
    "{}",
    "\n",
    " ",
]


def some_text(chance: random.Random) -> str:
    return "".join(chance.choices(PIECES, k=chance.randint(1, 4))).strip() or "?"


def some_call(chance: random.Random) -> Call:
    values = {
        "text": lambda: some_text(chance),
        "number": lambda: chance.randint(-5, 3000),
        "share": lambda: chance.choice([0.5, -1.25, 3.0]),
        "exact": lambda: chance.random() < 0.5,
        "words": lambda: [some_text(chance) for _ in range(chance.randint(0, 3))],
        "where": lambda: {"a": some_text(chance), "b": [1, None]},
        "until": lambda: some_text(chance),
    }
    names = chance.sample(sorted(values), chance.randint(0, len(values)))
    return Call("look_up", {name: values[name]() for name in names})


@own_forms
def test_a_thousand_turns_go_out_and_come_back_token_for_token(family: Family, model_dir):
    chat = family.chat(model_dir)
    chance = random.Random(family.name)
    for _ in range(250):
        messages, ids = [*OPENING], chat.prompt_ids(OPENING, TOOLS)
        for number in range(4):
            call = some_call(chance)
            function = {"name": call.name, "arguments": call.arguments}
            turn = chat.turn_text({"role": "assistant", "tool_calls": [{"function": function}]}, TOOLS)
            sampled = chat.turn_ids(turn)
            assert chat.decode(sampled) == turn
            assert parse_turn(in_json(turn, TOOLS)).calls == (call,)
            seen = [*ids, *sampled]
            messages.append({"role": "assistant", "content": turn})
            new = [{"role": "tool", "content": f"result {number}"}]
            ids, rewritten = chat.next_prompt(seen, messages, new, TOOLS)
            messages += new
            assert not rewritten
            assert ids[: len(seen)] == seen
        assert chat.tokenizer.decode(ids) == chat.render(messages, TOOLS), "what the template writes at once"


@own_forms
def test_thoughts_stay_between_calls_and_go_when_a_user_speaks_as_the_template_does(family: Family, model_dir):
    chat = family.chat(model_dir)
    if "<think>" not in family.words:
        pytest.skip("it has no thoughts")
    head = chat.render(OPENING, TOOLS)
    call = chat.turn_text(
        {"role": "assistant", "tool_calls": [{"function": {"name": "look_up", "arguments": {}}}]}, TOOLS
    )
    thought = (
        "I have to look.\n</think>\n\n" if head.endswith("<think>\n") else "<think>\nI have to look.\n</think>\n\n"
    )
    turn = thought + call.removeprefix("\n</think>\n\n")
    messages = [*OPENING, {"role": "assistant", "content": turn}]
    seen = [*chat.encode(head), *chat.turn_ids(turn)]
    ids, rewritten = chat.next_prompt(seen, messages, [{"role": "tool", "content": "here"}], TOOLS)
    assert parse_turn(turn).calls == (Call("look_up", {}),)
    if not rewritten:
        assert ids[: len(seen)] == seen
    assert ("I have to look." in chat.tokenizer.decode(ids)) is not rewritten
    messages += [{"role": "tool", "content": "here"}, {"role": "assistant", "content": "Here."}]
    asked = [{"role": "user", "content": "And now?"}]
    ids, rewritten = chat.next_prompt([*ids, *chat.turn_ids("Here.")], messages, asked, TOOLS)
    shown = chat.tokenizer.decode(ids)
    assert shown == chat.render([*messages, *asked], TOOLS) or not rewritten
    assert shown.count("And now?") == 1


@own_forms
def test_an_episode_of_the_email_env_is_played_in_the_form(family: Family, model_dir):
    chat = family.chat(model_dir)
    env = MessageEnv("EmailSearch-v0", {"split": "train"})
    try:
        episode = demonstrate(env, Task(0, env.first_task().scenario_id), chat, "oracle", seed=1)
    finally:
        env.close()
    said = [message["content"] for message in episode.messages if message["role"] == "assistant"]
    mark = {"qwen3 2507": '{"name"', "granite 4": '{"name"', "lfm2": "<|tool_call_start|>["}.get(
        family.name, "<function="
    )
    assert all(mark in turn for turn in said)
    assert episode.turn_errors == [""] * len(said)
    assert episode.metrics["success"] == 1.0
    (row,) = episode.rows()
    whole = chat.tokenizer.decode(row.ids)
    assert [whole.count(turn) >= 1 for turn in said] == [True] * len(said)


@pytest.mark.parametrize(
    ("text", "arguments"),
    [
        ("<tool_call>\n<function=f>\n<parameter=a>\n1\n</parameter>\n</function>\n</tool_call>", {"a": 1}),
        ("<tool_call><function=f><parameter=a>01</parameter></function></tool_call>", {"a": "01"}),
        ("Look:\n<tool_call>\n<function=f>\n<parameter=a>\nx\n</function>\ny\n</parameter>\n</function>", {"a": "x\n</function>\ny"}),
        ("<think>f?</think><tool_call>\n<function=f>\n</function>\n</tool_call>", {}),
        ("<|tool_call_start|>[f(a='it\\'s', b=[1, null], c=True)]<|tool_call_end|>", {"a": "it's", "b": [1, None], "c": True}),
        ("Yes. <|tool_call_start|>[f()]<|tool_call_end|>", {}),
    ],
)  # fmt: skip
def test_forms_are_read(text, arguments):
    assert parse_turn(text).items == (Call("f", arguments),)
    assert parse_action(text).items == (Call("f", arguments),)


@pytest.mark.parametrize(
    "text",
    [
        "<tool_call>\n<function=f>\n<parameter=a>\n1",
        "<tool_call>\n<function=f>\n<parameter=a>\n1\n</parameter>",
        "<|tool_call_start|>[f(1)]<|tool_call_end|>",
        "<|tool_call_start|>[f(a=b)]",
        "<|tool_call_start|>[f(a={1})]",
        "<|tool_call_start|>[f(a=" + "(" * 300,
        "<|tool_call_start|>import os<|tool_call_end|>",
    ],
)
def test_what_is_no_call_is_a_fault(text):
    assert isinstance(parse_turn(text).fault, Fault)
    assert in_json(text, TOOLS) == text


def test_the_schema_tells_text_from_numbers():
    text = "<tool_call>\n<function=look_up>\n" + "".join(
        f"<parameter={name}>\n{value}\n</parameter>\n"
        for name, value in (("text", "2001"), ("number", "2001"), ("exact", "True"), ("until", "12"), ("new", "7"))
    )
    (call,) = parse_turn(in_json(f"{text}</function>\n</tool_call>", TOOLS)).calls
    assert call.arguments == {"text": "2001", "number": 2001, "exact": True, "until": "12", "new": 7}


@own_forms
def test_vllm_is_told_its_parser_of_the_form(family: Family, model_dir):
    parser = served_chat(family.chat(model_dir)).tool_parser
    assert parser == {"qwen3 2507": "hermes", "granite 4": "hermes", "lfm2": "lfm2"}.get(family.name, "qwen3_xml")

"""Calls that were not sampled, in every family's own form: the ids of a demonstration are those of the rollout."""

import json

import pytest

from email_env.tools.actions import parse_action
from grpo.episodes.record import write_episodes
from grpo.errors import DataError
from grpo.learner.segments import segments_of
from grpo.training.demonstrations import Demonstrations, from_episodes, from_log
from judges.common.tool_calls import Call
from tests.grpo.chat.templates import FAMILIES, Family, every_family
from tests.support.envs import TalkEnv
from tests.support.episodes import talked

TOOLS = list(TalkEnv.tools)
LLAMA = FAMILIES[4]


def call(name="search_inbox", **arguments):
    return {"id": "c1", "type": "function", "function": {"name": name, "arguments": json.dumps(arguments)}}


ATLAS = call(keywords=["Atlas"])


def played(chat, turns):
    """An episode of three turns, as a rollout samples it; a tool answers."""
    episode, _ = talked(chat, turns, role="tool", says="m1 | Atlas")
    assert episode.num_turns == 3
    return episode


def read(chat, tmp_path, *records):
    path = tmp_path / "chats.jsonl"
    path.write_text("".join(json.dumps(record) + "\n" for record in records))
    found = Demonstrations(4096)
    from_log(found, path, chat)
    return found


@every_family
def test_a_chat_with_tool_calls_has_the_ids_of_the_rollout(family: Family, chats, tmp_path):
    chat = chats(family)
    sampled = played(chat, [family.call, family.call, "In May."])
    said = iter([{"content": None, "tool_calls": [ATLAS]}] * 2 + [{"content": "In May."}])
    messages = [
        {"role": "assistant", **next(said)} if m["role"] == "assistant" else {**m, "tool_call_id": "c1"}
        for m in sampled.messages[:-1]
    ]
    (demonstration,) = read(chat, tmp_path, {"messages": messages, "tools": TOOLS}).kept
    assert [row.ids for row in demonstration.rows] == [row.ids for row in segments_of(sampled, 1.0)]
    assert [row.action_mask for row in demonstration.rows] == [row.action_mask for row in segments_of(sampled, 1.0)]


@every_family
def test_what_is_written_is_read_back_and_is_what_the_template_writes(family: Family, chats):
    chat = chats(family)
    arguments = {"keywords": ["Zoë </tool_call>", 'a "b"'], "max_results": 3}
    message = {"role": "assistant", "content": "", "tool_calls": [call(**arguments)]}
    text = chat.turn_text(message, TOOLS)
    assert text.startswith("{" if family.control else "<tool_call>\n")
    assert "Zoë" in text
    said = chat.decode([*chat.encode(text), chat.stop_token_ids[0]])
    assert said == text
    assert parse_action(said).items == (Call("search_inbox", arguments),)
    if family.name.startswith(("qwen", "llama")):
        function = {"name": "search_inbox", "arguments": arguments}
        shown = chat.tokenizer.apply_chat_template(
            [TalkEnv.opening[1], {**message, "tool_calls": [{"type": "function", "function": function}]}],
            tools=TOOLS,
            tokenize=False,
            **chat.template_kwargs,
        )
        assert shown.endswith(f"{text}{family.end}{family.after}")


@every_family
def test_text_beside_a_call_stays_where_the_template_has_a_place_for_it(family: Family, chats, tmp_path):
    chat = chats(family)
    message = {"role": "assistant", "content": "I will look.", "tool_calls": [ATLAS]}
    found = read(chat, tmp_path, {"messages": [TalkEnv.opening[1], message], "tools": TOOLS})
    (row,) = found.kept[0].rows
    text = chat.decode([i for i, acts in zip(row.ids, row.action_mask, strict=True) if acts])
    if family.control:
        assert text == family.call
        assert found.left_out == {"text beside a tool call, where the model's template has none": 1}
    else:
        assert text == f"I will look.\n{family.call}"
        assert found.left_out == {}


def test_several_calls_in_a_turn_are_tagged_one_by_one_and_left_out_where_the_template_takes_one(chats, tmp_path):
    message = {"role": "assistant", "tool_calls": [ATLAS, call(keywords=["Boreas"])]}
    chat = {"messages": [TalkEnv.opening[1], message], "tools": TOOLS}
    second = FAMILIES[1].call.replace("Atlas", "Boreas")
    for family in FAMILIES[:4]:
        assert chats(family).turn_text(message, TOOLS) == f"{family.call}\n{second}"
    found = read(
        chats(LLAMA), tmp_path, chat, {"messages": [*chat["messages"][:1], {**message, "tool_calls": [ATLAS]}]}
    )
    assert len(found.kept) == 1
    (reason,) = found.left_out
    assert reason == "refused by the model's chat template: This model only supports single tool-calls at once!"


def test_arguments_that_are_no_json_are_named_with_their_line(chats, tmp_path):
    broken = {"function": {"name": "search_inbox", "arguments": "{keywords"}}
    chat = {"messages": [TalkEnv.opening[1], {"role": "assistant", "tool_calls": [broken]}]}
    for family in (FAMILIES[0], LLAMA):
        with pytest.raises(DataError, match="line 1: Expecting property name"):
            read(chats(family), tmp_path, chat)


@pytest.mark.parametrize("family", [FAMILIES[0], FAMILIES[1], LLAMA], ids=lambda family: family.name)
def test_a_scripted_turn_is_rewritten_only_where_the_model_writes_calls_otherwise(family: Family, chats):
    chat = chats(family)
    tagged = '<tool_call>\n{"name": "search_inbox",  "arguments": {"keywords": ["Atlas"]}}\n</tool_call>'
    assert chat.own_form(tagged, TOOLS) == (family.call if family.control else tagged)
    for text in ("In May.", f"I will look.\n{tagged}", "<tool_call>\n{broken\n</tool_call>"):
        assert chat.own_form(text, TOOLS) == text


def test_episodes_of_another_model_are_imitated_in_the_form_of_ones_own(chats, tmp_path):
    qwen, llama = chats(FAMILIES[1]), chats(LLAMA)
    write_episodes(tmp_path / "step-0001.jsonl", [played(qwen, [FAMILIES[1].call] * 3)])
    found = Demonstrations(4096)
    from_episodes(found, [tmp_path / "step-0001.jsonl"], llama, same_model=False)
    sampled = played(llama, [LLAMA.call] * 3)
    assert [row.ids for row in found.kept[0].rows] == [row.ids for row in segments_of(sampled, 1.0)]

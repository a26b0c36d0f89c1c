"""An episode's calls as a tree: what a history carries on, whatever form a framework gave it, and that ids are never made twice."""

import json

import pytest

from grpo.chat.tree import CallTree, canonical
from grpo.types import Episode, ModelCall, Task
from tests.grpo.chat.templates import every_family
from tests.support.policies import ByteChat

TOOLS = [
    {
        "type": "function",
        "function": {
            "name": "search_inbox",
            "description": "Search.",
            "parameters": {"type": "object", "properties": {"keywords": {"type": "array"}}},
        },
    }
]
ASKED = [{"role": "system", "content": "You search mail."}, {"role": "user", "content": "When is the demo?"}]
RESULT = {"role": "tool", "tool_call_id": "c1", "content": "3 hits"}


def assistant(content=None, arguments='{"keywords": ["Atlas"]}', **keys):
    called = {"id": "c1", "type": "function", "function": {"name": "search_inbox", "arguments": arguments}}
    return {"role": "assistant", "content": content, "tool_calls": [called], **keys}


def calls_of(*requests, said, chat=None, sent=None):
    """A tree after one turn that was ``said``, asked for each of the requests; gives the prompts."""
    chat = chat or ByteChat()
    tree = CallTree(chat, Episode("E", Task(0)))
    first = tree.following(ASKED, TOOLS)
    ids = [*chat.encode(said), chat.stop_token_ids[0]]
    tree.said(first, ids, [-0.5] * len(ids), 7, call=_call(tree), sent=sent or assistant())
    return tree, first, ids, [tree.following(messages, TOOLS) for messages in requests]


def _call(tree):
    call = ModelCall()
    tree.episode.calls.append(call)
    return call


@pytest.mark.parametrize(
    "again",
    [
        assistant(),
        assistant(""),
        assistant(arguments='{"keywords":["Atlas"]}', refusal=None, audio=None),
        assistant(arguments={"keywords": ["Atlas"]}),
        assistant(reasoning_content=""),
    ],
)
def test_a_turn_that_comes_back_in_another_form_is_carried_on(again):
    asked = [
        {**ASKED[0], "role": "developer"},
        {**ASKED[1], "name": "me"},
    ]
    tree, first, ids, (second,) = calls_of([*asked, again, RESULT], said='  {"keywords":  odd blanks}')
    assert (second.follows, second.kept) == (0, len(first.ids) + len(ids))
    assert second.ids[: second.kept] == first.ids + ids, "as they were sampled, odd blanks and all"
    call = tree.said(second, [65, 256], [-0.1, -0.2], 7, call=_call(tree))
    assert (call.follows, call.prompt_ids) == (0, second.ids[second.kept :])
    (row,) = tree.episode.rows()
    assert row.ids == [*second.ids, 65, 256]
    assert [place for place, turn in enumerate(row.calls) if turn is not None] == [
        *range(len(first.ids), len(first.ids) + len(ids)), len(second.ids), len(second.ids) + 1,
    ]  # fmt: skip


@pytest.mark.parametrize(
    "history",
    [
        [{"role": "system", "content": "Another."}, ASKED[1], assistant(), RESULT],
        [*ASKED, assistant(arguments='{"keywords": ["Borealis"]}'), RESULT],
        [*ASKED, assistant("Let me see."), RESULT],
        [ASKED[0], {"role": "user", "content": "Summary: 3 hits."}],
        [*ASKED, assistant(), RESULT, assistant(), RESULT],
    ],
)
def test_a_history_that_was_edited_begins_a_root_as_it_was_sent(history):
    tree, first, _, (second,) = calls_of(history, said="{}")
    assert (second.follows, second.kept) == (None, 0)
    tree.said(second, [65, 256], [-0.1, -0.2], 7, call=_call(tree))
    assert [len(row.ids) for row in tree.episode.rows()] == [len(first.ids) + 3, len(second.ids) + 2]
    assert tree.episode.num_forks == 1


def test_other_tools_begin_a_root_and_their_order_does_not():
    more = [*TOOLS, {"type": "function", "function": {"name": "other", "parameters": {}}}]
    tree = CallTree(ByteChat(), Episode("E", Task(0)))
    tree.said(tree.following(ASKED, more), [65, 256], [-0.5, -0.5], sent=assistant())
    assert tree.following([*ASKED, assistant(), RESULT], more[::-1]).follows == 0
    assert tree.following([*ASKED, assistant(), RESULT], TOOLS).follows is None


def test_siblings_that_said_the_same_are_told_apart_by_the_ids_of_their_calls():
    tree = CallTree(ByteChat(), Episode("E", Task(0)))
    for name, text in (("c1", b"A"), ("c2", b"B")):
        sent = assistant()
        sent["tool_calls"][0]["id"] = name
        tree.said(tree.following(ASKED, TOOLS), [*text, 256], [-0.5, -0.5], sent=sent)
    again = assistant()
    assert tree.following([*ASKED, again, RESULT], TOOLS).follows == 0
    again["tool_calls"][0]["id"] = "c2"
    assert tree.following([*ASKED, again, RESULT], TOOLS).follows == 1


@pytest.mark.parametrize(
    ("one", "other", "equal"),
    [
        ('{"a": 1, "b": 2}', '{"b":2,"a":1}', True),
        ('{"a": "\\u00fc"}', '{"a": "ü"}', True),
        ('{"a": 1}', '{"a": 1.0}', False),
        ('{"a": 1}', '{"a": true}', False),
        ("{broken", "INVALID", True),  # what is no JSON is told by the id of its call
        ("[1]", "[2]", True),
    ],
)
def test_arguments_are_compared_as_json_text(one, other, equal):
    assert (canonical(assistant(arguments=one)) == canonical(assistant(arguments=other))) is equal


def test_thoughts_and_blanks_at_the_ends_do_not_count():
    forms = ["<think>\nhm\n</think>\n\nNow search.", "Now search.", "\n Now search. \n"]
    assert len({canonical({"role": "assistant", "content": text, "reasoning_content": "hm"}) for text in forms}) == 1
    assert canonical({"role": "user", "content": "a"}) != canonical({"role": "tool", "content": "a"})


@every_family
def test_every_family_goes_on_behind_the_sampled_ids(family, model_dir):
    chat = family.chat(model_dir)
    again = assistant(arguments=json.dumps({"keywords": ["Atlas"]}, separators=(",", ":")))
    _, first, ids, (second,) = calls_of([*ASKED, again, RESULT], said=family.call, chat=chat)
    assert second.follows == 0
    assert second.ids[: second.kept] == first.ids + ids
    assert "3 hits" in chat.decode(second.ids[second.kept :])

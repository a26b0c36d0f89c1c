"""Assistant turns in every form, read as calls."""

import json

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from grpo.chat.tool_calls import Call, Turn, parse_turn

ACT = Turn((Call("act", {"action": 1}),))
CALL = '{"name": "act", "arguments": {"action": 1}}'


@pytest.mark.parametrize(
    "text",
    [
        CALL,
        f"<tool_call>\n{CALL}\n</tool_call>",
        f"<tool_call>{CALL}",
        f"I go down.\n<tool_call>\n{CALL}\n</tool_call><|im_end|>",
        f"<think>left? {{no}} down</think>\n{CALL}",
        f"left or down?</think>{CALL}",
        f"<think>I will use <tool_call> for it.</think> <tool_call>{CALL}</tool_call>",
        f'<think>Not <tool_call>{{"name": "go"}}</tool_call>.\n</think>\n\n{CALL}',
        f"```json\n{CALL}\n```",
        f"The state {{x}} says: {CALL} done",
        '{"name": "act", "parameters": {"action": 1}}',
        '{"name": "act", "arguments": "{\\"action\\": 1}"}',
        '{"function": {"name": "act", "arguments": "{\\"action\\": 1}"}}',
        '{"role": "assistant", "content": null, "tool_calls": [{"type": "function", "function": '
        '{"name": "act", "arguments": "{\\"action\\": 1}"}}]}',
        json.dumps({"role": "assistant", "content": f"<tool_call>{CALL}</tool_call>"}),
    ],
)
def test_a_call_is_read_in_any_form(text):
    assert parse_turn(text) == ACT


def test_calls_keep_their_order_and_their_openai_id():
    turn = parse_turn('[{"id": "c1", "function": {"name": "a", "arguments": "{}"}}, {"name": "b"}]')
    assert turn == Turn((Call("a", {}, "c1"), Call("b", None)))
    tagged = '<tool_call>{"name": "a"}</tool_call><tool_call>{"name": "b"}</tool_call>'
    assert [call.name for call in parse_turn(tagged).calls] == ["a", "b"]


@pytest.mark.parametrize("text", ["2", "move left", "[0.5, 1]", "", '{"action": 1}', '"left"'])
def test_a_turn_that_calls_nothing_is_its_text(text):
    assert parse_turn(text) == Turn(text=text)


@pytest.mark.parametrize("thought", ["<think>", f"<think>\nI will say <tool_call>{CALL}</tool_call>, or {CALL}"])
def test_a_thought_that_does_not_end_says_nothing(thought):
    assert parse_turn(thought) == Turn()


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ('<tool_call>{"name": "act", "arguments": {', "the tool call is not valid JSON"),
        ("<tool_call>act(1)</tool_call>", "the tool call is not valid JSON"),
        ('{"name": 3}', 'needs "name" and "arguments"'),
        ('{"tool_calls": [7]}', 'needs "name" and "arguments"'),
    ],
)
def test_a_call_that_cannot_be_read_is_a_fault(text, fault):
    turn = parse_turn(text)
    assert fault in turn.fault
    assert turn.calls == ()


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)


@given(st.text(min_size=1), st.dictionaries(st.text(), JSON, max_size=3), st.booleans())
@example("search", {"keywords": ["<tool_call>", "</tool_call>"]}, True)
@example("search", {"<tool_call>": "<tool_call>{}"}, True)
@example("search", {"keywords": ["</think>", "<|im_end|>"]}, False)
def test_what_was_written_is_read_back(name, arguments, tagged):
    call = json.dumps({"name": name, "arguments": arguments})
    assert parse_turn(f"<tool_call>\n{call}\n</tool_call>" if tagged else call) == Turn((Call(name, arguments),))


PIECES = ["<tool_call>", "</tool_call>", "<think>", "</think>", "{", "}", "[", "]", '"name"', ":", "act", ",", '"', " "]


@given(st.lists(st.sampled_from(PIECES) | st.text(max_size=3), max_size=40).map("".join))
def test_nothing_raises(text):
    turn = parse_turn(text)
    assert sum(map(bool, (turn.calls, turn.text, turn.fault))) <= 1

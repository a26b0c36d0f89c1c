"""Assistant turns in every form, read as calls."""

import json

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from judges.common.tool_calls import Call, ErrorCode, Fault, ParsedTurn, format_call, parse_turn

ACT = Call("act", {"action": 1})
CALL = '{"name": "act", "arguments": {"action": 1}}'


@pytest.mark.parametrize(
    "text",
    [
        CALL,
        f"<tool_call>\n{CALL}\n</tool_call>",
        f"<tool_call>{CALL}",
        f"I go down.\n<tool_call>\n{CALL}\n</tool_call><|im_end|>\n",
        f"{CALL}</s><|eom_id|> <|eot_id|>",
        f"<think>left? {{no}} down</think>\n{CALL}",
        f'<think>Shall I write {{"name": 3}}?</think>{CALL}',
        f"left or {{down}}?</think>{CALL}",
        f"<think>I will use <tool_call> for it.</think> <tool_call>{CALL}</tool_call>",
        f'<think>Not <tool_call>{{"name": "go"}}</tool_call>.\n</think>\n\n{CALL}',
        f"```json\n{CALL}\n```\nThat is it.",
        f"The state {{x}} says: {CALL} done",
        '{"name": "act", "parameters": {"action": 1}}',
        '{"name": "act", "arguments": "{\\"action\\": 1}"}',
        '{"function": {"name": "act", "arguments": "{\\"action\\": 1}"}}',
        '{"role": "assistant", "content": null, "tool_calls": [{"type": "function", "function": '
        '{"name": "act", "arguments": "{\\"action\\": 1}"}}]}',
        json.dumps({"role": "assistant", "content": f"<think>so</think><tool_call>{CALL}</tool_call><|im_end|>"}),
        json.dumps({"role": "assistant", "content": CALL, "tool_calls": []}),
        json.dumps({"role": "assistant", "name": "helper", "tool_calls": [json.loads(CALL)]}),
    ],
)
def test_a_call_is_read_in_any_form(text):
    assert parse_turn(text) == ParsedTurn((ACT,))


@pytest.mark.parametrize("arguments", ["", ', "arguments": null', ', "arguments": ""', ', "arguments": "null"'])
def test_a_call_may_come_without_arguments(arguments):
    assert parse_turn(f'{{"name": "b"{arguments}}}') == ParsedTurn((Call("b", {}),))


def test_a_call_is_written_in_one_canonical_form():
    text = format_call("search_inbox", {"keywords": ["Zürich"]})
    assert text == '<tool_call>\n{"name": "search_inbox", "arguments": {"keywords": ["Zürich"]}}\n</tool_call>'


def test_calls_keep_their_order_and_their_openai_id():
    turn = parse_turn('[{"id": "c1", "function": {"name": "a", "arguments": "{}"}}, {"name": "b"}]')
    assert turn == ParsedTurn((Call("a", {}, "c1"), Call("b", {})))
    tagged = '<tool_call>{"name": "a"}</tool_call><tool_call>{"name": "b"}\n{"name": "c"}</tool_call>{"name": "d"}'
    assert [call.name for call in parse_turn(tagged).calls] == ["a", "b", "c"]
    quoted = format_call("a", {"text": "a </tool_call><tool_call> b"}) + f"<tool_call>{CALL}"
    assert parse_turn(quoted) == ParsedTurn((Call("a", {"text": "a </tool_call><tool_call> b"}), ACT))


@pytest.mark.parametrize(
    "text", ["2", "move left", "[0.5, 1]", "", '{"action": 1}', '"left"', "[]", '{"a": "<tool_call>"}', "a < b"]
)
def test_a_turn_that_calls_nothing_is_its_text(text):
    assert parse_turn(text) == ParsedTurn(text=text)


def test_a_message_without_calls_is_its_content():
    assert parse_turn('{"role": "assistant", "content": "In May.", "tool_calls": []}') == ParsedTurn(text="In May.")
    assert parse_turn('{"role": "assistant", "content": null}') == ParsedTurn()


@pytest.mark.parametrize("thought", ["<think>", f"<think>\nI will say <tool_call>{CALL}</tool_call>, or {CALL}"])
def test_a_thought_that_does_not_end_says_nothing(thought):
    assert parse_turn(thought) == ParsedTurn()


@pytest.mark.parametrize(
    ("text", "code", "fault"),
    [
        ('<tool_call>{"name": "act", "arguments": {</tool_call>', "bad_json", "the tool call is not valid JSON: '{"),
        ("<tool_call>act(1)</tool_call>", "bad_json", "the tool call is not valid JSON: 'act(1)'"),
        ('{"name": 3}', "bad_json", 'a tool call needs "name" and "arguments", got {\'name\': 3}'),
        ('{"tool_calls": [7]}', "bad_json", 'a tool call needs "name" and "arguments", got 7'),
        ('{"name": "a", "arguments": "x"}', "bad_json", "the arguments of a are not valid JSON: 'x'"),
        ('{"name": "a", "arguments": [1]}', "bad_args", "the arguments of a must be an object, got [1]"),
    ],
)
def test_a_call_that_cannot_be_read_is_a_fault(text, code, fault):
    turn = parse_turn(text)
    assert turn.fault is not None
    assert turn.fault.message.startswith(fault)
    assert (turn.items, turn.fault.code, turn.calls) == ((turn.fault,), ErrorCode(code), ())


def test_a_faulty_call_beside_a_good_one_leaves_the_good_one():
    turn = parse_turn(f"<tool_call>{{oops}}</tool_call><tool_call>{CALL}</tool_call>")
    fault, call = turn.items
    assert isinstance(fault, Fault)
    assert (call, turn.fault, turn.calls) == (ACT, fault, ())


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)


@given(st.text(min_size=1), st.dictionaries(st.text(), JSON, max_size=3))
@example("search", {"keywords": ["<tool_call>", "</tool_call>"]})
@example("search", {"<tool_call>": "<tool_call>{}"})
@example("search", {"keywords": ["</think>", "<|im_end|>"]})
@example("</think>", {})
def test_what_was_written_is_read_back(name, arguments):
    read = ParsedTurn((Call(name, arguments),))
    assert parse_turn(format_call(name, arguments)) == read
    for given_arguments in (arguments, json.dumps(arguments)):
        assert parse_turn(json.dumps({"name": name, "arguments": given_arguments})) == read


PIECES = ["<tool_call>", "</tool_call>", "<think>", "</think>", "{", "}", "[", "]", '"name"', ":", "act", ",", '"', " "]


@given(st.lists(st.sampled_from(PIECES) | st.text(max_size=3), max_size=40).map("".join) | JSON.map(json.dumps))
@example('{"a":' * 5000)
@example("[" * 900 + "]" * 900)
@example("<tool_call>" + "[" * 900 + "]" * 900)
@example(" " * 30_000 + "x")
@example("x" + " " * 30_000 + "</s>" * 1000 + "x")
def test_nothing_raises(text):
    turn = parse_turn(text)
    assert not (turn.items and turn.text)

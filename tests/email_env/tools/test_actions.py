"""An assistant turn, read: every form of a call, prose, and what fails to be a call."""

import json

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from email_env.spaces import format_call
from email_env.tools.actions import CallFault, ErrorCode, ToolCall, parse_action
from tests.email_env.office import answer, read, search

CALL = ToolCall("read_email", {"message_id": "m1"})
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=8,
)


@pytest.mark.parametrize(
    "text",
    [
        read("m1"),
        '<tool_call>{"name": "read_email", "arguments": {"message_id": "m1"}}',
        'I read it. <tool_call>\n{"name": "read_email", "arguments": {"message_id": "m1"}}\n</tool_call><|im_end|>\n',
        '{"name": "read_email", "arguments": {"message_id": "m1"}}',
        '{"name": "read_email", "arguments": "{\\"message_id\\": \\"m1\\"}"}',
        '{"name": "read_email", "parameters": {"message_id": "m1"}}',
        '{"function": {"name": "read_email", "arguments": {"message_id": "m1"}}}',
        'So:\n```json\n{"name": "read_email", "arguments": {"message_id": "m1"}}\n```\nThat is it.',
        '<think>Shall I write {"name": 3}?</think>{"name": "read_email", "arguments": {"message_id": "m1"}}',
        'Hm, {x}.</think>\n{"name": "read_email", "arguments": {"message_id": "m1"}}',
        json.dumps({"role": "assistant", "content": read("m1")}),
    ],
)
def test_a_call_is_read_from_every_accepted_form(text):
    assert parse_action(text).calls == (CALL,)


def test_an_openai_assistant_message_gives_its_calls_in_order_with_their_ids():
    function = {"name": "read_email", "arguments": '{"message_id": "m1"}'}
    message = {
        "role": "assistant",
        "content": None,
        "tool_calls": [{"id": f"call_{n}", "type": "function", "function": function} for n in (1, 2)],
    }
    calls = parse_action(json.dumps(message)).calls
    assert calls == tuple(ToolCall("read_email", {"message_id": "m1"}, f"call_{n}") for n in (1, 2))


def test_several_tagged_calls_are_read_in_order_and_a_tag_inside_a_string_is_no_tag():
    text = answer("a </tool_call><tool_call> b") + "\n" + read("m1") + search("x")
    calls = parse_action(text).calls
    assert [call.name for call in calls] == ["return_final_answer", "read_email", "search_inbox"]
    assert calls[0].arguments["answer"] == "a </tool_call><tool_call> b"
    two = '<tool_call>{"name": "a"}\n{"name": "b"}</tool_call>'
    assert [call.name for call in parse_action(two).calls] == ["a", "b"]
    assert [call.name for call in parse_action('[{"name": "a"}, {"name": "b"}]').calls] == ["a", "b"]


@pytest.mark.parametrize(
    "text", ["The meeting is on Thursday.", "42", '"Friday"', "I don't know", "[1] Lisbon", "a < b"]
)
def test_plain_prose_is_an_answer(text):
    action = parse_action(text)
    assert (action.calls, action.prose) == ((), text)


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("", ErrorCode.NO_TOOL_CALL),
        (" \n<|im_end|>", ErrorCode.NO_TOOL_CALL),
        ("<think>I wonder what", ErrorCode.NO_TOOL_CALL),
        ('{"role": "assistant", "content": null}', ErrorCode.NO_TOOL_CALL),
        ("search_inbox(keywords=['falcon'])", ErrorCode.NO_TOOL_CALL),
        ("</tool_call>", ErrorCode.NO_TOOL_CALL),
        ('<tool_call>{"name": "search_inbox", "arguments": {"keywords": ["a"</tool_call>', ErrorCode.BAD_JSON),
        ("<tool_call>\nsearch_inbox\n</tool_call>", ErrorCode.BAD_JSON),
        ("The answer is {Thursday}", ErrorCode.BAD_JSON),
        ('{"keywords": ["falcon"]}', ErrorCode.BAD_JSON),
        ('["falcon"]', ErrorCode.BAD_JSON),
        ("[]", ErrorCode.BAD_JSON),
        ('{"name": 5, "arguments": {}}', ErrorCode.BAD_JSON),
        ('{"name": "read_email", "arguments": "m1"}', ErrorCode.BAD_JSON),
        ('{"name": "read_email", "arguments": ["m1"]}', ErrorCode.BAD_ARGS),
        ('{"a":' * 5000, ErrorCode.BAD_JSON),
        ("[" * 5000, ErrorCode.NO_TOOL_CALL),
    ],
)
def test_what_fails_to_be_a_call_is_a_fault_with_a_code(text, code):
    action = parse_action("search_inbox " + text if text.startswith("[[") else text)
    (fault,) = action.calls
    assert isinstance(fault, CallFault)
    assert fault.code is code
    assert len(fault.message) < 300


def test_a_faulty_call_beside_a_good_one_leaves_the_good_one():
    fault, call = parse_action("<tool_call>{oops}</tool_call>" + read("m1")).calls
    assert isinstance(fault, CallFault)
    assert call == CALL


@given(st.text() | st.text(alphabet='<>/{}[]":,tool_call name'))
def test_parsing_takes_any_text(text):
    action = parse_action(text)
    assert bool(action.calls) != bool(action.prose)


@given(JSON)
def test_parsing_takes_any_json(value):
    action = parse_action(json.dumps(value))
    assert bool(action.calls) != bool(action.prose)


@example("</think>", {})
@given(st.text(min_size=1), st.dictionaries(st.text(), st.text() | st.integers() | st.lists(st.text())))
@example("</think>", {})
def test_a_written_call_is_read_back_as_it_was(name, arguments):
    text = format_call(name, arguments)
    assert parse_action(text).calls == (ToolCall(name, arguments),)
    assert parse_action(json.dumps({"name": name, "arguments": json.dumps(arguments)})).calls == (
        ToolCall(name, arguments),
    )

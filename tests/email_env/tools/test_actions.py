"""What an assistant turn means to the env: calls, an answer in prose, or what fails to be a call."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from email_env.tools.actions import parse_action
from judges.common.tool_calls import ErrorCode, Fault

FORM = '. Write <tool_call>{"name": ..., "arguments": {...}}</tool_call>.'
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=8,
)


@pytest.mark.parametrize(
    "text", ["The meeting is on Thursday.", "42", '"Friday"', "I don't know", "[1] Lisbon", "a < b"]
)
def test_plain_prose_is_an_answer(text):
    action = parse_action(text)
    assert (action.items, action.text) == ((), text)


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
        ('{"name": "read_email", "arguments": ["m1"]}', ErrorCode.BAD_ARGS),
        ('{"a":' * 5000, ErrorCode.BAD_JSON),
        ("search_inbox " + "[" * 5000, ErrorCode.NO_TOOL_CALL),
        (7, ErrorCode.NO_TOOL_CALL),
    ],
)
def test_what_fails_to_be_a_call_is_a_fault_with_a_code(text, code):
    (fault,) = parse_action(text).items
    assert isinstance(fault, Fault)
    assert fault.code is code
    assert len(fault.message) < 300
    assert fault.message.endswith(".")
    assert fault.message.endswith(FORM) or code is not ErrorCode.BAD_JSON


@given(st.text() | st.text(alphabet='<>/{}[]":,tool_call name') | JSON.map(json.dumps))
def test_any_text_is_calls_or_an_answer(text):
    action = parse_action(text)
    assert bool(action.items) != bool(action.text)

"""Chat formats against the real tokenizer of the embedded model, and sampled tokens as text."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from grpo.chat import chat_for, load_tokenizer
from grpo.chat.template import HERMES
from grpo.errors import ModelError
from tests.grpo.chat.templates import FAMILIES, TOOL_TEMPLATE
from tests.support.envs import TalkEnv, tool
from tests.support.policies import ByteChat

TOOLS = [tool("search_inbox", {"keywords": {"type": "array"}, "from_addr": {"type": "string"}}, ["keywords"])]
MESSAGES = list(TalkEnv.opening)
CALL = FAMILIES[0].call


@pytest.fixture(scope="module")
def tokenizer(model_dir):
    return load_tokenizer(model_dir)


def test_hermes_writes_chatml_with_one_signature_a_tool_and_goes_on_in_pieces(tokenizer):
    chat = chat_for(tokenizer)
    assert chat.template == HERMES
    sampled = [*chat.encode(CALL), chat.stop_token_ids[0]]
    answer = chat.delta_ids([], [{"role": "tool", "content": "m1 | Atlas"}], [])
    assert tokenizer.decode([*chat.prompt_ids(MESSAGES, TOOLS), *sampled, *answer]) == (
        "<|im_start|>system\nFind mail.\nTools:\nsearch_inbox(keywords, from_addr?)\nCall one tool per turn:\n"
        '<tool_call>\n{"name": NAME, "arguments": {...}}\n</tool_call><|im_end|>\n'
        "<|im_start|>user\nWhere is the Atlas review?<|im_end|>\n"
        f"<|im_start|>assistant\n{CALL}<|im_end|>\n<|im_start|>tool\nm1 | Atlas<|im_end|>\n<|im_start|>assistant\n"
    )


def test_a_template_with_tools_is_used_and_its_delta_is_what_it_adds(model_dir):
    tokenizer = load_tokenizer(model_dir)
    tokenizer.chat_template = TOOL_TEMPLATE
    chat = chat_for(tokenizer)
    assert chat.template == TOOL_TEMPLATE
    assert tokenizer.decode(chat.prompt_ids(MESSAGES, TOOLS)).startswith(
        "<|im_start|>system\ntools: search_inbox<|im_end|>\n"
    )
    history = [*MESSAGES, {"role": "assistant", "content": CALL}]
    delta = tokenizer.decode(chat.delta_ids(history, [{"role": "tool", "content": "m1"}], TOOLS))
    assert delta == "\n<|im_start|>tool\nm1<|im_end|>\n<|im_start|>assistant\n"


def test_a_template_that_refuses_a_role_is_a_clear_error(model_dir):
    tokenizer = load_tokenizer(model_dir)
    tokenizer.chat_template = TOOL_TEMPLATE.replace(
        "{{ m.content }}", "{{ raise_exception('no critics here') if m.role == 'critic' else m.content }}"
    )
    chat = chat_for(tokenizer)
    history = [*MESSAGES, {"role": "assistant", "content": CALL}]
    with pytest.raises(ModelError, match="refuses the roles system, user, assistant, critic: no critics here"):
        chat.delta_ids(history, [{"role": "critic", "content": "m1"}], TOOLS)


def test_variables_for_a_template_that_is_not_used_are_refused(tokenizer):
    with pytest.raises(ModelError, match="would have no effect"):
        chat_for(tokenizer, template_kwargs={"enable_thinking": False})


def test_a_folder_without_a_tokenizer_is_a_clear_error(tmp_path):
    with pytest.raises(ModelError, match="no tokenizer could be loaded"):
        load_tokenizer(tmp_path)


E = "é".encode()


@pytest.mark.parametrize(
    ("sampled", "logprobs", "turn"),
    [
        pytest.param(b"", [], [], id="nothing"),
        pytest.param(b"ab", [-0.12345, -2.0], ["a", -0.123, "b", -2.0], id="tokens"),
        pytest.param(E + b"!", [-1.0, -0.5, -0.25], ["é", -1.5, "!", -0.25], id="a character of two tokens"),
        pytest.param(b"a" + E[:1], [-1.0, -2.0], ["a", -1.0, "\ufffd", -2.0], id="half a character at the end"),
    ],
)
def test_a_turn_has_its_characters_with_their_joint_logprobs(sampled, logprobs, turn) -> None:
    assert ByteChat().sampled_text(sampled, logprobs) == turn


@given(st.text(min_size=1))
def test_nothing_that_was_sampled_is_lost(text: str) -> None:
    sampled = text.encode("utf-8", "replace")
    turn = ByteChat().sampled_text(sampled, [-0.5] * len(sampled))
    assert "".join(map(str, turn[::2])) == sampled.decode()
    assert sum(map(float, turn[1::2])) == -0.5 * len(sampled)

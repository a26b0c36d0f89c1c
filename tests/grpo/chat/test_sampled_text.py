"""Sampled tokens as text: characters of several tokens, logprobs."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.policies import ByteChat

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

"""Sampled tokens as text: characters of several tokens, logprobs."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from grpo.chat.sampled_tokens import SampledTokens
from tests.support.policies import ByteChat


def of(text: bytes, logprobs: list[float]) -> list[str | float]:
    return SampledTokens(ByteChat()).turn(list(zip(text, logprobs, strict=True)))


def test_a_turn_has_its_tokens_and_their_logprobs() -> None:
    assert of(b"ab", [-0.12345, -2.0]) == ["a", -0.123, "b", -2.0]
    assert of(b"", []) == []


def test_the_tokens_of_one_character_are_shown_as_one_with_their_joint_probability() -> None:
    assert of("é!".encode(), [-1.0, -0.5, -0.25]) == ["é", -1.5, "!", -0.25]


def test_half_a_character_at_the_end_of_a_turn_is_kept() -> None:
    assert of(bytes([*b"a", "é".encode()[0]]), [-1.0, -2.0]) == ["a", -1.0, "\ufffd", -2.0]


@given(st.text(min_size=1))
def test_nothing_that_was_sampled_is_lost(text: str) -> None:
    sampled = text.encode("utf-8", "replace")
    turn = of(sampled, [-0.5] * len(sampled))
    assert "".join(map(str, turn[::2])) == sampled.decode()
    assert sum(map(float, turn[1::2])) == -0.5 * len(sampled)

"""Sampled tokens as text: the turns of a trajectory, characters of several tokens, logprobs."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from grpo.chat.sampled_tokens import SampledTokens
from grpo.types import Task, Trajectory
from tests.support.policies import ByteChat


def trajectory(*turns: tuple[str, list[float]]) -> Trajectory:
    one = Trajectory("E-v0", Task(0), 0, 0)
    for text, logprobs in turns:
        one.append(list(b"prompt"))
        one.append(list(text.encode()), logprobs)
    one.append(list(b"ended"))
    return one


def test_each_turn_has_its_tokens_and_their_logprobs() -> None:
    turns = SampledTokens(ByteChat()).of(trajectory(("ab", [-0.12345, -2.0]), ("c", [0.0])))
    assert turns == [["a", -0.123, "b", -2.0], ["c", 0.0]]


def test_the_tokens_of_one_character_are_shown_as_one_with_their_joint_probability() -> None:
    turns = SampledTokens(ByteChat()).of(trajectory(("é!", [-1.0, -0.5, -0.25])))
    assert turns == [["é", -1.5, "!", -0.25]]


def test_half_a_character_at_the_end_of_a_turn_is_kept() -> None:
    one = Trajectory("E-v0", Task(0), 0, 0)
    one.append([*b"a", "é".encode()[0]], [-1.0, -2.0])
    assert SampledTokens(ByteChat()).of(one) == [["a", -1.0, "\ufffd", -2.0]]


def test_an_episode_that_ended_before_its_first_turn_has_none() -> None:
    assert SampledTokens(ByteChat()).of(Trajectory("E-v0", Task(0), 0, 0)) == []


@given(st.lists(st.text(min_size=1), min_size=1, max_size=4))
def test_nothing_that_was_sampled_is_lost(texts: list[str]) -> None:
    texts = [text.encode("utf-8", "replace").decode() for text in texts]
    turns = [(text, [-0.5] * len(text.encode())) for text in texts]
    shown = SampledTokens(ByteChat()).of(trajectory(*turns))
    assert ["".join(map(str, turn[::2])) for turn in shown] == texts
    assert [sum(map(float, turn[1::2])) for turn in shown] == [-0.5 * len(text.encode()) for text in texts]

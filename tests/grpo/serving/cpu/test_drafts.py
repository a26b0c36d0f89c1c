"""Guesses for speculative decoding: what is remembered, what is guessed, and what vLLM is told of it."""

from types import SimpleNamespace

import numpy as np
import pytest

from grpo.devices.memory import MOST_DRAFT_LOGITS
from grpo.serving.cpu import drafts as drafts_module
from grpo.serving.cpu.drafts import CONTEXT, Drafts, Proposer

CALL = [101, 102, 103, 104, 105, 106, 107, 108, 109, 110, 111, 112]


def ids(values: list[int]) -> np.ndarray:
    return np.array(values, dtype=np.int32)


def learned(*texts: list[int], start: int = 0) -> Drafts:
    drafts = Drafts()
    for text in texts:
        drafts.learn(ids(text), start)
    return drafts


def test_what_was_seen_twice_is_guessed_on_as_far_as_it_goes_and_as_far_as_is_asked():
    drafts = learned(CALL, CALL)
    beginning = ids(CALL[:CONTEXT])
    # 0.5, then 0.65 after a second time: below 0.7
    assert drafts.guess(beginning, 15) == []
    drafts.learn(ids(CALL), 0)  # 0.755: two in a row are as likely as 0.57, three are not
    assert drafts.guess(beginning, 15) == CALL[CONTEXT : CONTEXT + 2]
    for _ in range(10):
        drafts.learn(ids(CALL), 0)
    assert drafts.guess(beginning, 15) == CALL[CONTEXT:]
    assert drafts.guess(beginning, 3) == CALL[CONTEXT : CONTEXT + 3]
    assert drafts.guess(ids([7, *CALL[: CONTEXT - 1]]), 15) == []
    assert drafts.guess(ids(CALL[:3]), 15) == []


def test_only_what_was_sampled_is_remembered():
    drafts = learned(*[CALL] * 12, start=8)
    assert drafts.guess(ids(CALL[: CONTEXT + 1]), 15) == []
    assert drafts.guess(ids(CALL[: CONTEXT + 2]), 15) == CALL[CONTEXT + 2 :]


def test_another_token_takes_the_place_of_one_that_no_longer_follows():
    old, new = CALL[: CONTEXT + 1], [*CALL[:CONTEXT], 7]
    drafts = learned(*[old] * 12)
    beginning = ids(CALL[:CONTEXT])
    assert drafts.guess(beginning, 15) == [old[-1]]
    drafts.learn(ids(new), 0)
    assert drafts.guess(beginning, 15) == []  # 0.99 of before has become 0.69
    for _ in range(2):
        drafts.learn(ids(new), 0)
    assert drafts.guess(beginning, 15) == []  # 0.48 made room; the new one came twice, 0.65
    drafts.learn(ids(new), 0)
    assert drafts.guess(beginning, 15) == [7]


def test_a_token_that_follows_every_other_time_is_not_guessed():
    one, other = CALL[: CONTEXT + 1], [*CALL[:CONTEXT], 7]
    assert learned(*[one, other] * 20).guess(ids(CALL[:CONTEXT]), 15) == []


def test_the_oldest_half_is_forgotten_before_it_grows_too_large(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(drafts_module, "_MOST_CONTEXTS", 100)
    drafts = learned(*[CALL] * 5)
    assert drafts.guess(ids(CALL[:CONTEXT]), 1)
    drafts.learn(ids(list(range(1000, 1000 + CONTEXT + 100))), 0)
    assert drafts.guess(ids(CALL[:CONTEXT]), 1) == []
    assert len(drafts._following) == 56  # 106 less 50


def batch(*texts: list[int]) -> tuple[np.ndarray, np.ndarray]:
    """vLLM's arrays: the lengths, and the tokens of each request before ones that are of others."""
    table = np.full((8, 40), 9, dtype=np.int32)
    for row, text in enumerate(texts):
        table[row, : len(text)] = text
    return np.array([len(text) for text in texts] + [0] * (8 - len(texts)), dtype=np.int32), table


def proposer(most: int, longest: int = 40, vocabulary: int = 50_000) -> Proposer:
    return Proposer(
        SimpleNamespace(
            speculative_config=SimpleNamespace(num_speculative_tokens=most),
            model_config=SimpleNamespace(max_model_len=longest, get_vocab_size=lambda: vocabulary),
        )
    )


def test_each_request_of_a_batch_gets_its_guesses():
    vllm_asks = proposer(4)
    text = [1, 2, *CALL]
    for _ in range(12):
        assert vllm_asks.propose([text[8:]], *batch(text)) == [[]]  # nothing is known behind the last token
    begun = text[:9]
    prompt = [3] * 20
    assert vllm_asks.propose([[begun[-1]], [], [3]], *batch(begun, begun, prompt)) == [text[9:13], [], []]


def test_no_guess_is_longer_than_the_model_takes():
    vllm_asks = proposer(15, longest=13)
    text = [1, 2, *CALL]
    for _ in range(12):
        vllm_asks.propose([text[8:]], *batch(text))
    assert vllm_asks.propose([[text[8]]], *batch(text[:9])) == [text[9:12]]
    assert vllm_asks.propose([[text[11]]], *batch(text[:12])) == [[]]


def test_a_large_batch_or_vocabulary_has_fewer_guesses_for_each_request():
    text = [1, 2, *CALL]
    many = 48
    rows = np.tile(ids(text), (many, 1))
    for vocabulary, most in ((50_000, 15), (152_000, 15), (152_000, 2)):
        vllm_asks = proposer(15, vocabulary=vocabulary)
        for _ in range(12):
            vllm_asks.propose([text[8:]], *batch(text))
        requests = 1 if most == 15 else many
        found = vllm_asks.propose([[text[8]]] * requests, np.full(many, 9, dtype=np.int32), rows)
        assert found == [text[9 : 9 + most]] * requests
    assert MOST_DRAFT_LOGITS // 152_000 == 110

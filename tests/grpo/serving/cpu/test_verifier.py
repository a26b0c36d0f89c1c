"""Guessed tokens: kept exactly where sampling one token after the other would have come to them; in a real server, too."""

from types import SimpleNamespace
from typing import Any, NamedTuple

import pytest

torch = pytest.importorskip("torch")
from hypothesis import given, settings  # noqa: E402
from hypothesis import strategies as st  # noqa: E402

from grpo.serving.cpu.sampler import sample_rows  # noqa: E402
from grpo.serving.cpu.verifier import install_verifier  # noqa: E402
from tests.grpo.serving.published import PROMPTS, Published, request  # noqa: E402

VOCABULARY = 300


class Gathered(NamedTuple):
    ids: torch.Tensor
    logprobs: torch.Tensor
    ranks: torch.Tensor


class Sampler:
    """What the plugin needs of vLLM's sampler."""

    use_fp64_gumbel = False
    logprobs_mode = "processed_logprobs"

    @staticmethod
    def greedy_sample(logits: torch.Tensor) -> torch.Tensor:
        return logits.argmax(-1)

    @staticmethod
    def gather_logprobs(logprobs: torch.Tensor, num_logprobs: int, token_ids: torch.Tensor) -> Any:
        assert num_logprobs == 0
        own = logprobs.gather(1, token_ids[:, None])
        return Gathered(token_ids[:, None].to(torch.int32), own, (logprobs > own).sum(1))


class RejectionSampler:
    """What the plugin needs of vLLM's class, whose own answer is a nine."""

    def __init__(self) -> None:
        self.sampler = Sampler()

    def forward(self, metadata: Any, draft_probs: Any, logits: Any, sampling_metadata: Any) -> Any:
        return "nine"


install_verifier(RejectionSampler, SimpleNamespace(LogprobsTensors=Gathered, SamplerOutput=SimpleNamespace))


def sampling(temperatures: list[float], generators: dict[int, Any], **more: Any) -> Any:
    """vLLM's SamplingMetadata of a batch."""
    nothing = {"max_num_logprobs": 0, "logprob_token_ids": None, "top_k": None, "top_p": None, "no_penalties": True}
    nothing |= {"bad_words_token_ids": {}, "allowed_token_ids_mask": None, "thinking_budget_state_holder": None}
    processors = SimpleNamespace(
        argmax_invariant=[SimpleNamespace(min_p_count=0)],
        non_argmax_invariant=[SimpleNamespace(biases={}), SimpleNamespace(min_toks={})],
    )
    return SimpleNamespace(
        **(nothing | {"logitsprocs": processors} | more),
        temperature=torch.tensor(temperatures),
        all_greedy=not any(temperatures),
        all_random=all(temperatures),
        generators=generators,
    )


def guessed(guesses: list[list[int]]) -> Any:
    """vLLM's SpecDecodeMetadata of a batch."""
    return SimpleNamespace(
        num_draft_tokens=[len(each) for each in guesses],
        draft_token_ids=torch.tensor([token for each in guesses for token in each], dtype=torch.int32),
    )


def one_by_one(logits: torch.Tensor, generator: Any, temperature: float) -> list[int]:
    """The token at each position, sampled one after the other."""
    if temperature == 0:
        return logits.argmax(-1).tolist()
    rows = (logits / temperature).log_softmax(-1)
    return [int(sample_rows(row, torch.rand(1, generator=generator, dtype=torch.float64))) for row in rows.split(1)]


@given(
    counts=st.lists(st.integers(0, 6), min_size=1, max_size=5),
    temperatures=st.lists(st.sampled_from([0.0, 0.5, 1.0]), min_size=5, max_size=5),
    right=st.lists(st.integers(0, 6), min_size=5, max_size=5),
    seed=st.integers(0, 1000),
)
@settings(deadline=None)
def test_tokens_are_those_of_sampling_one_by_one_and_so_are_the_generators_afterwards(
    counts: list[int], temperatures: list[float], right: list[int], seed: int
):
    temperatures = temperatures[: len(counts)]
    logits = [2 * torch.randn(count + 1, VOCABULARY, generator=torch.Generator().manual_seed(seed)) for count in counts]
    expected, guesses = [], []
    for number, (rows, count, temperature) in enumerate(zip(logits, counts, temperatures, strict=True)):
        path = one_by_one(rows, torch.Generator().manual_seed(number), temperature)
        wrong_at = min(right[number], count)
        guesses.append([token if at < wrong_at else (token + 1) % VOCABULARY for at, token in enumerate(path[:-1])])
        expected.append(path[: wrong_at + 1])
    generators = {number: torch.Generator().manual_seed(number) for number in range(len(counts))}
    given_logits = torch.cat(logits)
    found = RejectionSampler().forward(guessed(guesses), None, given_logits, sampling(temperatures, generators))
    width = max(counts) + 1
    padded = [tokens + [-1] * (width - len(tokens)) for tokens in expected]
    assert found.sampled_token_ids.tolist() == padded
    assert found.sampled_token_ids.dtype == torch.int32
    logprobs = found.logprobs_tensors.logprobs.view(len(counts), width)
    for number, (tokens, rows, temperature) in enumerate(zip(expected, logits, temperatures, strict=True)):
        of_rows = (rows / (temperature or 1.0)).log_softmax(-1)
        own = of_rows[range(len(tokens)), tokens]
        torch.testing.assert_close(logprobs[number, : len(tokens)], own)
        if temperature:
            again = torch.Generator().manual_seed(number)
            torch.rand(len(tokens), generator=again, dtype=torch.float64)
            assert torch.rand(1, generator=generators[number]) == torch.rand(1, generator=again)
    assert torch.equal(given_logits, torch.cat(logits)), "the logits are left as they were"


def test_without_seeds_a_guess_is_kept_as_often_as_it_is_likely_and_the_tokens_are_distributed_as_without_guesses():
    batch = 20_000
    logits = torch.tensor([[0.7, 0.2, 0.1]]).log().repeat(2 * batch, 1)
    torch.manual_seed(0)
    found = RejectionSampler().forward(guessed([[0]] * batch), None, logits, sampling([1.0] * batch, {}))
    first, second = found.sampled_token_ids.T
    assert torch.equal(second >= 0, first == 0)
    for tokens in (first, second[second >= 0]):
        share = torch.bincount(tokens, minlength=3) / len(tokens)
        torch.testing.assert_close(share, torch.tensor([0.7, 0.2, 0.1]), atol=0.015, rtol=0)


@pytest.mark.parametrize(
    "more",
    [
        {"top_k": torch.tensor([2])},
        {"top_p": torch.tensor([0.5])},
        {"no_penalties": False},
        {"bad_words_token_ids": {0: [[1]]}},
        {"allowed_token_ids_mask": torch.zeros(1, VOCABULARY, dtype=torch.bool)},
        {"logprob_token_ids": {0: [1]}},
        {"max_num_logprobs": -1},
        {"thinking_budget_state_holder": SimpleNamespace(has_tracked_requests=lambda: True)},
        *(
            {"logitsprocs": SimpleNamespace(argmax_invariant=[], non_argmax_invariant=[acting])}
            for acting in (
                SimpleNamespace(biases={0: {1: 2.0}}),
                SimpleNamespace(min_toks={0: (1, [], {2}, False)}),
                SimpleNamespace(min_p_count=1),
                SimpleNamespace(of_another_kind=0),
            )
        ),
    ],
    ids=lambda more: next(iter(more)),
)
def test_what_it_does_not_do_stays_vllms(more: dict[str, Any]):
    logits = torch.zeros(2, VOCABULARY)
    assert RejectionSampler().forward(guessed([[1]]), None, logits, sampling([1.0], {}, **more)) == "nine"


def test_guesses_with_probabilities_of_their_own_and_other_modes_stay_vllms():
    logits = torch.zeros(2, VOCABULARY)
    assert RejectionSampler().forward(guessed([[1]]), torch.ones(1, 1), logits, sampling([1.0], {})) == "nine"
    for name, value in (("logprobs_mode", "raw_logprobs"), ("use_fp64_gumbel", True)):
        other = RejectionSampler()
        setattr(other.sampler, name, value)
        assert other.forward(guessed([[1]]), None, logits, sampling([1.0], {})) == "nine"


@pytest.mark.vllm
async def test_guessed_tokens_are_kept_and_have_the_logprobs_of_the_adapter_that_was_asked(published: Published):
    jobs = [(which, published.tokenize(text)) for text in PROMPTS for which in (None, 0, 1)]
    kept = published.accepted_guesses()
    for _ in range(4):  # the same tokens again and again: the last time they are guessed
        bodies = [
            request(published.model(which), ids, seed=300 + number, temperature=number % 2)
            for number, (which, ids) in enumerate(jobs)
        ]
        answers = await published.answers(bodies)
    assert published.accepted_guesses() > kept + 24
    assert {len(answer["token_ids"]) for answer in answers} == {24}
    published.check(*zip(*jobs, strict=True), answers)


@pytest.mark.vllm
async def test_what_the_plugin_does_not_verify_is_verified_by_vllm(published: Published):
    ids = published.tokenize(PROMPTS[0])
    for _ in range(4):
        kept = published.accepted_guesses()
        body = request(published.model(0), ids, temperature=0.0, top_k=1, min_tokens=24, logprobs=1)
        (choice,) = await published.answers([body])
        assert len(choice["token_ids"]) == 24
        best = [max(entry.values()) for entry in choice["logprobs"]["top_logprobs"]]
        assert choice["logprobs"]["token_logprobs"] == best
    assert published.accepted_guesses() > kept

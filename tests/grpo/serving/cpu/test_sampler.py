"""Sampling for vLLM on the CPU: against numbers computed by hand, a slow reference, and the distribution itself."""

import math
from typing import Any

import pytest

torch = pytest.importorskip("torch")
from hypothesis import given, settings  # noqa: E402
from hypothesis import strategies as st  # noqa: E402

from grpo.serving.cpu.sampler import install_sampler, sample_rows  # noqa: E402


def sample(probabilities: list[float], *uniforms: float) -> list[int]:
    rows = torch.tensor(probabilities).log().expand(len(uniforms), -1).contiguous()
    return sample_rows(rows, torch.tensor(uniforms, dtype=torch.float64)).tolist()


def test_a_random_number_falls_into_the_token_whose_share_it_is():
    assert sample([0.5, 0.25, 0.25], 0.0, 0.49, 0.51, 0.74, 0.76, 1 - 2**-53) == [0, 0, 1, 1, 2, 2]


def test_a_token_of_probability_zero_is_never_sampled():
    assert sample([0.0, 0.5, 0.0, 0.5, 0.0], 0.0, 0.49, 0.51, 1 - 2**-53) == [1, 1, 3, 3]


def test_tokens_of_all_chunks_are_sampled_and_the_padding_is_not():
    probabilities = [0.0] * 1000
    probabilities[3], probabilities[700], probabilities[999] = 0.25, 0.5, 0.25
    assert sample(probabilities, 0.0, 0.2, 0.3, 0.7, 0.8, 1 - 2**-53) == [3, 3, 700, 700, 999, 999]


@given(seed=st.integers(0, 1000), size=st.sampled_from([1, 5, 256, 257, 700]))
@settings(deadline=None)
def test_it_inverts_the_cumulative_distribution(seed: int, size: int):
    generator = torch.Generator().manual_seed(seed)
    logprobs = (4 * torch.randn(3, size, generator=generator)).log_softmax(-1)
    uniforms = torch.rand(3, generator=generator, dtype=torch.float64)
    for row, token in enumerate(sample_rows(logprobs, uniforms).tolist()):
        shares = [math.exp(value) for value in logprobs[row].tolist()]
        below = math.fsum(shares[:token]) / math.fsum(shares)
        assert below - 1e-6 <= uniforms[row] <= below + shares[token] + 1e-6


class Sampler:
    """What the plugin needs of vLLM's sampler, whose own answer is a nine."""

    use_fp64_gumbel = False
    logprobs_mode = "processed_logprobs"

    def forward_cpu(self, logits, generators, k, p) -> Any:
        return "nine"


install_sampler(Sampler)


def test_a_request_with_a_seed_gets_the_same_token_in_any_company_and_the_logprobs_are_of_what_was_sampled_from():
    logits = 3 * torch.randn(4, 600, generator=torch.Generator().manual_seed(0))

    def seeded(row: int, rows: list[int]) -> int:
        tokens, logprobs = Sampler().forward_cpu(
            logits[rows], {rows.index(row): torch.Generator().manual_seed(5)}, None, None
        )
        torch.testing.assert_close(logprobs, logits[rows].log_softmax(-1))
        return int(tokens[rows.index(row)])

    alone = seeded(2, [2])
    assert {seeded(2, [0, 1, 2]), seeded(2, [3, 2]), seeded(2, [2, 0, 1, 3])} == {alone}
    others = {int(Sampler().forward_cpu(logits[2:3], {0: torch.Generator().manual_seed(s)}, None, None)[0])
              for s in range(20)}  # fmt: skip
    assert len(others) > 5


@pytest.mark.parametrize(
    ("k", "p", "setting"),
    [
        (torch.tensor([2]), None, {}),
        (None, torch.tensor([0.5]), {}),
        (None, None, {"logprobs_mode": "raw_logprobs"}),
        (None, None, {"use_fp64_gumbel": True}),
    ],
    ids=["top-k", "top-p", "raw logprobs", "float64"],
)
def test_what_it_does_not_do_stays_vllms(k: Any, p: Any, setting: dict[str, Any]):
    sampler = Sampler()
    vars(sampler).update(setting)
    assert sampler.forward_cpu(torch.zeros(1, 4), {}, k, p) == "nine"

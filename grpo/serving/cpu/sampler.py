"""Sampling for vLLM on the CPU with one random number a row instead of one for each token of the vocabulary.

vLLM's CPU sampler adds Gumbel noise to every logit of every row, with a scalar logarithm for each, and computes the
log-probabilities besides. With 48 rows of 49,152 tokens that is a twelfth of a decode step. Where the log-probabilities
are wanted anyway (``processed_logprobs``), this part of the plugin inverts the cumulative distribution instead: the
samples have the same distribution, and a request's seed still fixes them. top-k, top-p and other modes stay vLLM's.

Source: inverse transform sampling, Devroye, Non-Uniform Random Variate Generation (1986), section III.2.
"""

from typing import Any

import torch

_CHUNK = 256
_BELOW_ONE = 1.0 - 2.0**-53


def install_sampler(sampler: Any) -> None:
    """Replace ``forward_cpu`` of vLLM's class ``TopKTopPSampler``, or of a class like it."""
    of_vllm = sampler.forward_cpu

    def forward_cpu(
        self: Any,
        logits: torch.Tensor,
        generators: dict[int, torch.Generator],
        k: torch.Tensor | None,
        p: torch.Tensor | None,
    ) -> tuple[torch.Tensor, torch.Tensor | None]:
        if k is not None or p is not None or self.use_fp64_gumbel or self.logprobs_mode != "processed_logprobs":
            return of_vllm(self, logits, generators, k, p)
        logprobs_BV = logits.log_softmax(dim=-1, dtype=torch.float32)
        uniforms_B = torch.rand(len(logits), dtype=torch.float64)
        for row, generator in generators.items():
            uniforms_B[row] = torch.rand((), generator=generator, dtype=torch.float64)
        return sample_rows(logprobs_BV, uniforms_B), logprobs_BV

    sampler.forward_cpu = forward_cpu


def sample_rows(logprobs_BV: torch.Tensor, uniforms_B: torch.Tensor) -> torch.Tensor:
    """One token a row: the first whose cumulative probability is above the row's random number.

    First the chunk of the vocabulary, then the token in it, so only sums of chunks are added up in float64. A token of
    probability 0 is never chosen.

    Args:
        logprobs_BV: Log-probabilities, float32.
        uniforms_B: Random numbers in [0, 1), float64.

    Returns:
        Token ids, (B,), int64.
    """
    probs_BV = logprobs_BV.exp()
    padding = -probs_BV.shape[1] % _CHUNK
    if padding:
        probs_BV = torch.nn.functional.pad(probs_BV, (0, padding))
    probs_BNC = probs_BV.view(len(probs_BV), -1, _CHUNK)
    chunk_B1, share_B1 = _invert(probs_BNC.sum(-1), uniforms_B[:, None])
    rows_B = torch.arange(len(probs_BNC))
    token_B1, _ = _invert(probs_BNC[rows_B, chunk_B1[:, 0]], share_B1)
    return (chunk_B1 * _CHUNK + token_B1)[:, 0]


def _invert(weights_BN: torch.Tensor, uniforms_B1: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """The entry of each row that a random number falls into, and how far into it, as a number in [0, 1)."""
    cumulative_BN = weights_BN.double().cumsum(-1)
    targets_B1 = uniforms_B1 * cumulative_BN[:, -1:]
    chosen_B1 = torch.searchsorted(cumulative_BN, targets_B1, right=True).clamp_(max=weights_BN.shape[1] - 1)
    ends_B1 = cumulative_BN.gather(1, chosen_B1)
    starts_B1 = torch.where(chosen_B1 > 0, cumulative_BN.gather(1, (chosen_B1 - 1).clamp_(min=0)), 0.0)
    return chosen_B1, ((targets_B1 - starts_B1) / (ends_B1 - starts_B1)).clamp_(max=_BELOW_ONE)

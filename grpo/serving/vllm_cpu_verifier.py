"""Which guessed tokens are kept: those that are sampled anyway. So guesses change the time, and nothing else.

vLLM's rejection sampling accepts a guess with its probability and samples anew where it rejects one: the right
distribution, but other tokens than without guesses, and a request's seed no longer fixes them. This part of the plugin
samples every position as ``vllm_cpu_sampler`` does, with the request's own next random number, and keeps the guesses
up to the first that is not what was sampled. It accepts as many: a guess without a distribution of its own is accepted
with the probability that it is sampled. Batches with top-k, penalties and the like stay vLLM's.

Source: speculative sampling, arXiv 2211.17192, section 2.3, for guesses that are certain.
"""

from __future__ import annotations

import inspect
from itertools import accumulate
from typing import Any

import torch

from grpo.serving.vllm_cpu_sampler import sample_rows

_GREEDY_BELOW = 1e-5
_NOTHING = -1


def why_not_verify(rejection_sampler: Any) -> str:
    """Say why vLLM's class ``RejectionSampler`` should be left alone; an empty string means that it fits."""
    seen = list(inspect.signature(getattr(rejection_sampler, "forward", lambda: None)).parameters)
    expected = ["self", "metadata", "draft_probs", "logits", "sampling_metadata"]
    return "" if seen == expected else f"forward takes {seen}, not {expected}"


def install_verifier(rejection_sampler: Any, outputs: Any) -> None:
    """Replace ``forward`` of vLLM's class ``RejectionSampler``, or of a class like it.

    Args:
        rejection_sampler: The class.
        outputs: vLLM's module ``vllm.v1.outputs``.
    """
    of_vllm = rejection_sampler.forward

    def forward(self: Any, metadata: Any, draft_probs: Any, logits: torch.Tensor, sampling_metadata: Any) -> Any:
        if draft_probs is not None or not _is_plain(self.sampler, sampling_metadata):
            return of_vllm(self, metadata, draft_probs, logits, sampling_metadata)
        counts = [guessed + 1 for guessed in metadata.num_draft_tokens]
        tokens_R, logprobs_RV, kept = _sampled(self.sampler, metadata, counts, logits, sampling_metadata)
        width = max(counts)
        starts = [end - count for end, count in zip(accumulate(counts), counts, strict=True)]
        rows = torch.tensor([start + at for start, each in zip(starts, kept, strict=True) for at in range(each)])
        places = torch.tensor([width * number + at for number, each in enumerate(kept) for at in range(each)])
        size = width * len(kept)
        sampled = torch.full((size,), _NOTHING, dtype=torch.int32)
        sampled[places] = tokens_R[rows].to(torch.int32)
        logprobs = None
        if sampling_metadata.max_num_logprobs is not None:
            own = logprobs_RV if len(rows) == len(logprobs_RV) else logprobs_RV[rows]
            found = self.sampler.gather_logprobs(own, sampling_metadata.max_num_logprobs, token_ids=tokens_R[rows])
            logprobs = outputs.LogprobsTensors(*(_placed(part, places, size) for part in found[:3]))
        return outputs.SamplerOutput(sampled_token_ids=sampled.view(len(kept), width), logprobs_tensors=logprobs)

    rejection_sampler.forward = forward


def _sampled(
    sampler: Any, metadata: Any, counts: list[int], logits: torch.Tensor, sampling: Any
) -> tuple[torch.Tensor, torch.Tensor, list[int]]:
    """What is sampled at each position, the log-probabilities there, and how many positions of each request hold.

    A request has its guesses' positions and one more, ``counts`` in all; they stand one after the other in ``logits``
    (R, V).
    """
    logits_RV = logits.to(torch.float32)
    temperatures_R = None
    if not sampling.all_greedy:
        temperatures_R = sampling.temperature.repeat_interleave(torch.tensor(counts))
        divisors_R = torch.where(temperatures_R < _GREEDY_BELOW, 1.0, temperatures_R)
        if not (divisors_R == 1.0).all():
            logits_RV = logits_RV / divisors_R[:, None]
    logprobs_RV = logits_RV.log_softmax(dim=-1)
    uniforms_R = torch.rand(len(logits_RV), dtype=torch.float64)
    states: dict[int, torch.Tensor] = {}
    ends = list(accumulate(counts))
    for number, generator in sampling.generators.items():
        states[number] = generator.get_state()
        numbers = torch.rand(counts[number], generator=generator, dtype=torch.float64)
        uniforms_R[ends[number] - counts[number] : ends[number]] = numbers
    if temperatures_R is None:
        tokens_R = sampler.greedy_sample(logits_RV).long()
    elif sampling.all_random:
        tokens_R = sample_rows(logprobs_RV, uniforms_R)
    else:
        tokens_R = sampler.greedy_sample(logits_RV).long()
        random = temperatures_R >= _GREEDY_BELOW
        tokens_R[random] = sample_rows(logprobs_RV[random], uniforms_R[random])
    tokens, guesses = iter(tokens_R.tolist()), iter(metadata.draft_token_ids.tolist())
    kept = [
        _agreeing([next(tokens) for _ in range(count)], [next(guesses) for _ in range(count - 1)]) for count in counts
    ]
    for number, state in states.items():
        if kept[number] < counts[number]:  # what was drawn for positions that do not hold is drawn again
            sampling.generators[number].set_state(state)
            torch.rand(kept[number], generator=sampling.generators[number], dtype=torch.float64)
    return tokens_R, logprobs_RV, kept


def _agreeing(tokens: list[int], guesses: list[int]) -> int:
    """How many of the sampled tokens hold: up to and with the first that was guessed wrongly."""
    return next((at + 1 for at, guess in enumerate(guesses) if guess != tokens[at]), len(tokens))


def _placed(values: torch.Tensor, places: torch.Tensor, size: int) -> torch.Tensor:
    """The values at their places of a tensor of ``size`` rows, zeros elsewhere."""
    placed = torch.zeros((size, *values.shape[1:]), dtype=values.dtype)
    placed[places] = values
    return placed


def _is_plain(sampler: Any, sampling: Any) -> bool:
    """Whether nothing but the temperature stands between logits and samples."""
    holder = sampling.thinking_budget_state_holder
    return (
        sampler.logprobs_mode == "processed_logprobs"
        and not sampler.use_fp64_gumbel
        and sampling.max_num_logprobs != -1
        and not sampling.logprob_token_ids
        and sampling.top_k is None
        and sampling.top_p is None
        and sampling.no_penalties
        and not sampling.bad_words_token_ids
        and sampling.allowed_token_ids_mask is None
        and (holder is None or not holder.has_tracked_requests())
        and not any(map(_acts, (*sampling.logitsprocs.argmax_invariant, *sampling.logitsprocs.non_argmax_invariant)))
    )


def _acts(processor: Any) -> bool:
    """Whether one of vLLM's processors changes logits of this batch; one that is not known counts as if it did."""
    state = [getattr(processor, name) for name in ("min_p_count", "biases", "min_toks") if hasattr(processor, name)]
    return not state or any(state)

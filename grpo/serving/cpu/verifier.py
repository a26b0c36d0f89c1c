"""Which guessed tokens are kept: those that are sampled anyway. So guesses change the time, and nothing else.

vLLM's rejection sampling accepts a guess with its probability and samples anew where it rejects one: the right
distribution, but other tokens than without guesses, and a request's seed no longer fixes them. This part of the plugin
samples every position as ``cpu.sampler`` does, with the request's own next random number, and keeps the guesses
up to the first that is not what was sampled. It accepts as many: a guess without a distribution of its own is accepted
with the probability that it is sampled. Batches with top-k, penalties and the like stay vLLM's.

Source: speculative sampling, arXiv 2211.17192, section 2.3, for guesses that are certain.
"""

from itertools import accumulate
from typing import Any

import torch

from grpo.serving.cpu.sampler import sample_rows

_GREEDY_BELOW = 1e-5
_NOTHING = -1


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
        generators = sampling_metadata.generators
        states = {number: generator.get_state() for number, generator in generators.items()}
        numbers_R = _random_numbers(counts, generators)
        tokens_R, logprobs_RV = _sampled(self.sampler, counts, logits, sampling_metadata, numbers_R)
        kept = _kept(counts, tokens_R.tolist(), metadata.draft_token_ids.tolist())
        for number, state in states.items():
            if kept[number] < counts[number]:  # what was drawn for positions that do not hold is drawn again
                generators[number].set_state(state)
                torch.rand(kept[number], generator=generators[number], dtype=torch.float64)
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


def _random_numbers(counts: list[int], generators: dict[int, torch.Generator]) -> torch.Tensor:
    """One in [0, 1) for each position, (R,), float64; those of a request with a generator are its next ones."""
    numbers_R = torch.rand(sum(counts), dtype=torch.float64)
    ends = list(accumulate(counts))
    for number, generator in generators.items():
        own = slice(ends[number] - counts[number], ends[number])
        numbers_R[own] = torch.rand(counts[number], generator=generator, dtype=torch.float64)
    return numbers_R


def _sampled(
    sampler: Any, counts: list[int], logits: torch.Tensor, sampling: Any, numbers_R: torch.Tensor
) -> tuple[torch.Tensor, torch.Tensor]:
    """What is sampled at each position, (R,), and the log-probabilities there, (R, V).

    A request has its guesses' positions and one more, ``counts`` in all; they stand one after the other in ``logits``.
    """
    logits_RV = logits.to(torch.float32)
    if sampling.all_greedy:
        return sampler.greedy_sample(logits_RV).long(), logits_RV.log_softmax(dim=-1)
    temperatures_R = sampling.temperature.repeat_interleave(torch.tensor(counts))
    is_random_R = temperatures_R >= _GREEDY_BELOW
    divisors_R = torch.where(is_random_R, temperatures_R, 1.0)
    if not (divisors_R == 1.0).all():
        logits_RV = logits_RV / divisors_R[:, None]
    logprobs_RV = logits_RV.log_softmax(dim=-1)
    if sampling.all_random:
        return sample_rows(logprobs_RV, numbers_R), logprobs_RV
    tokens_R = sampler.greedy_sample(logits_RV).long()
    tokens_R[is_random_R] = sample_rows(logprobs_RV[is_random_R], numbers_R[is_random_R])
    return tokens_R, logprobs_RV


def _kept(counts: list[int], tokens: list[int], guesses: list[int]) -> list[int]:
    """How many sampled tokens of each request hold: up to and with the first that was guessed wrongly."""
    kept: list[int] = []
    token = guess = 0
    for count in counts:
        pairs = enumerate(zip(tokens[token : token + count], guesses[guess : guess + count - 1], strict=False), 1)
        kept.append(next((at for at, (sampled, guessed) in pairs if sampled != guessed), count))
        token, guess = token + count, guess + count - 1
    return kept


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

"""The policy-gradient loss as pure functions of log-probabilities.

Shapes: ``T`` is the number of action tokens of a micro-batch, row after row. All reductions are token sums divided by
``normalizer``, the number of action tokens of the whole optimizer step, so the loss does not depend on how rows are
cut into micro-batches.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor


@dataclass(frozen=True, slots=True)
class LossConfig:
    """Constants of the loss.

    ``clip_low`` and ``clip_high`` bound the ratio to [1 - low, 1 + high] (PPO, arXiv 1707.06347, eq. 7; the wider upper
    bound is DAPO's clip-higher, arXiv 2503.14476, eq. 10). ``max_importance_weight`` truncates the weight between
    the sampler and the trainer token by token (truncated importance sampling, Ionides 2008).
    """

    clip_low: float = 0.2
    clip_high: float = 0.28
    max_importance_weight: float = 2.0


@dataclass(frozen=True, slots=True)
class LossTerms:
    """A loss ready for ``backward`` and the detached per-token values that are logged."""

    loss: Tensor
    gap_T: Tensor
    ratio_T: Tensor
    clipped_T: Tensor


def grpo_loss(
    logprobs_T: Tensor,
    sampler_logprobs_T: Tensor,
    advantages_T: Tensor,
    *,
    normalizer: float,
    config: LossConfig,
    old_logprobs_T: Tensor | None = None,
) -> LossTerms:
    """Clipped surrogate with a truncated importance weight, summed over tokens (DAPO, arXiv 2503.14476, eq. 8 and 12).

    Args:
        logprobs_T: Log-probabilities under the weights being trained, with gradient.
        sampler_logprobs_T: What the sampler reported when it drew the tokens.
        advantages_T: The row's advantage repeated for each of its tokens.
        normalizer: Action tokens of the whole step.
        config: Clipping and truncation.
        old_logprobs_T: Log-probabilities under the weights at the start of the step; the current ones, detached, when
            a step makes a single update.

    Returns:
        ``-sum_t w_t min(r_t A_t, clip(r_t) A_t) / normalizer`` with ``r_t = exp(logp - old)`` and
        ``w_t = min(exp(old - sampler), max_importance_weight)``.
    """
    old_T = logprobs_T.detach() if old_logprobs_T is None else old_logprobs_T
    ratio_T = torch.exp(logprobs_T - old_T)
    clipped_ratio_T = ratio_T.clamp(1 - config.clip_low, 1 + config.clip_high)
    weight_T = torch.exp(old_T - sampler_logprobs_T).clamp(max=config.max_importance_weight)
    surrogate_T = torch.minimum(ratio_T * advantages_T, clipped_ratio_T * advantages_T)
    detached_ratio_T = torch.exp(logprobs_T.detach() - sampler_logprobs_T)
    return LossTerms(
        loss=-(weight_T * surrogate_T).sum() / normalizer,
        gap_T=(logprobs_T.detach() - sampler_logprobs_T).abs(),
        ratio_T=detached_ratio_T,
        clipped_T=((clipped_ratio_T * advantages_T) < (ratio_T * advantages_T)).detach()
        | (detached_ratio_T > config.max_importance_weight),
    )


def imitation_loss(logprobs_T: Tensor, *, normalizer: float) -> Tensor:
    """Negative log-likelihood of demonstrated tokens, summed and divided by ``normalizer``."""
    return -logprobs_T.sum() / normalizer


class SelectedLogprobs(torch.autograd.Function):
    """Log-probability of one target id per position from hidden states, without keeping the logits.

    The vocabulary projection is frozen under LoRA, so the gradient with respect to the hidden state is
    ``W[target] - softmax(logits) @ W`` and can be formed while the logits of a chunk are at hand: memory is one chunk
    of logits, and backward is one multiplication.
    """

    @staticmethod
    def forward(ctx, hidden_TD: Tensor, weight_VD: Tensor, target_T: Tensor, chunk: int):  # type: ignore[override]
        """Returns (logprobs_T, entropy_T) in float32; entropy carries no gradient."""
        logprobs_T = torch.empty(hidden_TD.shape[0], dtype=torch.float32, device=hidden_TD.device)
        entropy_T = torch.empty_like(logprobs_T)
        gradient_TD = torch.empty_like(hidden_TD) if ctx.needs_input_grad[0] else None
        for start in range(0, hidden_TD.shape[0], chunk):
            part = slice(start, start + chunk)
            logits_CV = (hidden_TD[part] @ weight_VD.T).float()
            log_z_C = torch.logsumexp(logits_CV, -1)
            logprobs_T[part] = logits_CV.gather(1, target_T[part, None])[:, 0] - log_z_C
            probs_CV = torch.exp(logits_CV - log_z_C[:, None])
            entropy_T[part] = log_z_C - (probs_CV * logits_CV).sum(-1)
            if gradient_TD is not None:
                gradient_TD[part] = weight_VD[target_T[part]] - probs_CV.to(weight_VD.dtype) @ weight_VD
        ctx.save_for_backward(gradient_TD)
        ctx.mark_non_differentiable(entropy_T)
        return logprobs_T, entropy_T

    @staticmethod
    def backward(ctx, grad_T: Tensor, _entropy: Tensor):  # type: ignore[override]
        """Chain rule with the stored gradient."""
        (gradient_TD,) = ctx.saved_tensors
        return (gradient_TD * grad_T[:, None].to(gradient_TD.dtype)), None, None, None

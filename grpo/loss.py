"""The policy-gradient losses as pure functions of log-probabilities.

Shapes: ``T`` is the number of action tokens of a micro-batch, row after row; ``B`` its rows (a row is what TRL calls a
sequence). All reductions are sums over tokens divided by ``normalizer``, which counts over a whole optimizer update, so
a loss does not depend on how rows are cut into micro-batches. With ratio ``r_t``, advantage ``A``, weight ``w_t`` (see
``grpo_loss``), ``N`` rows of ``|o_i|`` action tokens each:

    dapo     sum_t w_t min(r_t A, clip(r_t) A) / sum_i |o_i| of the step     arXiv 2503.14476, eq. 8 and 12
    bnpo     the same / sum_i |o_i| of the update                           TRL's name
    dr_grpo  the same / (N x max_completion_tokens)                         arXiv 2503.20783, section 3.2
    grpo     every row's sum / |o_i|, then / N                              arXiv 2402.03300, eq. 3
    gspo     grpo with one ratio a row, r_i = exp(mean_t log r_t)           arXiv 2507.18071, eq. 5 and 7
    cispo    sum_t w_t stop_grad(min(r_t, 1 + clip_high)) A log p_t / sum_i |o_i| of the step
                                                                            arXiv 2506.13585, eq. 4 and 5
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from grpo.config import LossType


@dataclass(frozen=True, slots=True)
class LossConfig:
    """Which loss, and its constants.

    ``clip_low`` and ``clip_high`` bound the ratio to [1 - low, 1 + high] (PPO, arXiv 1707.06347, eq. 7; the wider upper
    bound is DAPO's clip-higher, arXiv 2503.14476, eq. 10). ``max_importance_weight`` truncates the weight between
    the sampler and the trainer token by token (truncated importance sampling, Ionides 2008). ``kl_coef`` times the KL
    divergence from the reference policy is added to every token's loss (DeepSeekMath, arXiv 2402.03300, eq. 3 and 4).
    ``max_completion_tokens`` is the constant that dr_grpo divides by.
    """

    clip_low: float = 0.2
    clip_high: float = 0.28
    max_importance_weight: float = 2.0
    loss: LossType = "dapo"
    kl_coef: float = 0.0
    max_completion_tokens: int = 4096

    @property
    def by_row(self) -> bool:
        """Whether every row counts the same, however long it is."""
        return self.loss in ("grpo", "gspo")

    def normalizer(self, action_counts: Sequence[int]) -> float:
        """What the sum is divided by, for rows with these numbers of action tokens."""
        if self.by_row:
            return len(action_counts)
        if self.loss == "dr_grpo":
            return len(action_counts) * self.max_completion_tokens
        return sum(action_counts)


@dataclass(frozen=True, slots=True)
class LossTerms:
    """A loss ready for ``backward`` and the detached per-token values that are logged.

    ``kl_T`` is None where ``kl_coef`` is 0.
    """

    loss: Tensor
    gap_T: Tensor
    ratio_T: Tensor
    clipped_T: Tensor
    kl_T: Tensor | None = None


def grpo_loss(
    logprobs_T: Tensor,
    sampler_logprobs_T: Tensor,
    advantages_T: Tensor,
    *,
    normalizer: float,
    config: LossConfig,
    old_logprobs_T: Tensor | None = None,
    action_counts_B: Tensor | None = None,
    reference_logprobs_T: Tensor | None = None,
) -> LossTerms:
    """The loss that ``config`` names, with a truncated importance weight.

    Args:
        logprobs_T: Log-probabilities under the weights being trained, with gradient.
        sampler_logprobs_T: What the sampler reported when it drew the tokens.
        advantages_T: The row's advantage repeated for each of its tokens.
        normalizer: ``config.normalizer`` of all rows that share an optimizer update.
        config: Which loss, clipping, truncation, KL.
        old_logprobs_T: Log-probabilities under the weights at the start of the step; the current ones, detached, when
            a step makes a single update.
        action_counts_B: Action tokens of each row; needed by grpo and gspo.
        reference_logprobs_T: Log-probabilities under the reference policy; needed with a ``kl_coef``.

    Returns:
        For dapo ``-sum_t w_t min(r_t A_t, clip(r_t) A_t) / normalizer`` with ``r_t = exp(logp - old)`` and
        ``w_t = min(exp(old - sampler), max_importance_weight)``; for the others see the module. With a reference,
        ``kl_coef (exp(d_t) - d_t - 1)`` with ``d_t = reference - logp`` is added to each token's loss: the estimator
        k3, which is never negative (Schulman 2020, http://joschu.net/blog/kl-approx.html).
    """
    old_T = logprobs_T.detach() if old_logprobs_T is None else old_logprobs_T
    log_ratio_T = logprobs_T - old_T
    if config.loss == "gspo":
        assert action_counts_B is not None, "gspo needs the rows' numbers of action tokens"
        log_ratio_T = _row_means(log_ratio_T, action_counts_B)
    ratio_T = torch.exp(log_ratio_T)
    clipped_ratio_T = ratio_T.clamp(1 - config.clip_low, 1 + config.clip_high)
    weight_T = torch.exp(old_T - sampler_logprobs_T).clamp(max=config.max_importance_weight)
    if config.loss == "cispo":
        bounded_T = ratio_T.detach().clamp(max=1 + config.clip_high)
        surrogate_T = bounded_T * advantages_T * logprobs_T
        clipped_T = (ratio_T.detach() > bounded_T) & (advantages_T > 0)
    else:
        surrogate_T = torch.minimum(ratio_T * advantages_T, clipped_ratio_T * advantages_T)
        clipped_T = ((clipped_ratio_T * advantages_T) < (ratio_T * advantages_T)).detach()
    loss_T = -(weight_T * surrogate_T)
    kl_T = None
    if config.kl_coef > 0:
        assert reference_logprobs_T is not None, "a KL term needs the reference's logprobs"
        difference_T = reference_logprobs_T - logprobs_T
        kl_T = torch.exp(difference_T) - difference_T - 1
        loss_T = loss_T + config.kl_coef * kl_T
    if config.by_row:
        assert action_counts_B is not None, "a mean over rows needs their numbers of action tokens"
        loss_T = loss_T / action_counts_B.repeat_interleave(action_counts_B)
    detached_ratio_T = torch.exp(logprobs_T.detach() - sampler_logprobs_T)
    return LossTerms(
        loss=loss_T.sum() / normalizer,
        gap_T=(logprobs_T.detach() - sampler_logprobs_T).abs(),
        ratio_T=detached_ratio_T,
        clipped_T=clipped_T | (detached_ratio_T > config.max_importance_weight),
        kl_T=None if kl_T is None else kl_T.detach(),
    )


def _row_means(values_T: Tensor, action_counts_B: Tensor) -> Tensor:
    """Every token gets its row's mean."""
    row_T = torch.arange(len(action_counts_B), device=values_T.device).repeat_interleave(action_counts_B)
    sums_B = values_T.new_zeros(len(action_counts_B)).index_add(0, row_T, values_T)
    return (sums_B / action_counts_B)[row_T]


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

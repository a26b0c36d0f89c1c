"""The losses as pure functions of log-probabilities, and the vocabulary projection that they come from.

Shapes: ``T`` is the number of action tokens of a micro-batch, row after row; ``B`` its rows (a row is what TRL calls a
sequence). A loss is a sum over tokens divided by ``LossSpec.normalizer``, which counts over a whole optimizer update,
so it does not depend on how rows are cut into micro-batches. With ratio ``r_t``, advantage ``A``, weight ``w_t`` (see
``token_losses``), ``N`` rows of ``|o_i|`` action tokens each:

    dapo     sum_t w_t min(r_t A, clip(r_t) A) / sum_i |o_i| of the step     arXiv 2503.14476, eq. 8 and 12
    bnpo     the same / sum_i |o_i| of the update                           TRL's name
    dr_grpo  the same / (rollouts x max_completion_tokens)                  arXiv 2503.20783, section 3.2
    grpo     every row's sum / |o_i|, then / N                              arXiv 2402.03300, eq. 3
    gspo     grpo with one ratio a row, r_i = exp(mean_t log r_t)           arXiv 2507.18071, eq. 5 and 7
    cispo    sum_t w_t stop_grad(min(r_t, 1 + clip_high)) A log p_t / sum_i |o_i| of the step
                                                                            arXiv 2506.13585, eq. 4 and 5

A row on which sampler and trainer disagree (``LossSpec.max_row_gap``) has weight 0; the divisors count it. The bound is
on the mean of its tokens. Their product, which TRL bounds, grows with the length of a row, and so with rounding alone.
"""

from dataclasses import dataclass, replace

import torch
from torch import Tensor

from grpo.learner.engine import LossSpec

_CPU_ROWS = 16
"""Rows of logits that are worked on at once on a CPU: 3 MB (float32, 49,152 ids), which its second cache holds."""


@dataclass(slots=True)
class ActionTokens:
    """The action tokens of a micro-batch, shape ``T`` each, row after row.

    ``action_counts`` has the number of action tokens of each row; ``reference_logprobs_T`` the log-probabilities
    without the adapter, where the loss has a KL term; ``row_bounds`` each row's `LossSpec.row_bound`, if it has one.
    """

    logprobs_T: Tensor
    sampler_logprobs_T: Tensor
    advantages_T: Tensor
    action_counts: list[int]
    reference_logprobs_T: Tensor | None = None
    row_bounds: list[float] | None = None

    def agreeing(self) -> Tensor:
        """Whether sampler and trainer agree on a token's row; of a gap that is no number nothing is said."""
        gaps_T = self.row_means((self.logprobs_T - self.sampler_logprobs_T).detach().abs())
        bounds_B = gaps_T.new_tensor(self.row_bounds or [torch.inf] * len(self.action_counts))
        return ~(gaps_T > bounds_B.repeat_interleave(torch.tensor(self.action_counts, device=gaps_T.device)))

    def row_means(self, values_T: Tensor) -> Tensor:
        """Every token gets its row's mean."""
        return torch.cat([part_A.mean().expand(len(part_A)) for part_A in values_T.split(self.action_counts)])

    def by_row(self, values_T: Tensor) -> list[list[float]]:
        """Plain numbers, row by row."""
        return [part_A.tolist() for part_A in values_T.detach().split(self.action_counts)]


def token_losses(tokens: ActionTokens, spec: LossSpec, old_logprobs_T: Tensor | None = None) -> Tensor:
    """Every token's share of the loss; their sum is the loss.

    Args:
        tokens: Log-probabilities, with gradient, and what else the loss needs of a token.
        spec: Which loss.
        old_logprobs_T: Log-probabilities under the policy that the ratio is taken against; ``spec.old_policy`` says
            which where they are not given.

    Returns:
        For dapo ``-w_t min(r_t A_t, clip(r_t) A_t) / normalizer`` with ``r_t = exp(logp - old)`` and
        ``w_t = min(exp(old - sampler), max_importance_weight)``, 0 in rows on which sampler and trainer disagree; for
        the others see the module. For imitation
        ``-A_t logp / normalizer``.
    """
    if spec.kind == "imitation":
        return -tokens.advantages_T * tokens.logprobs_T / spec.normalizer
    agrees_T = tokens.agreeing()
    # Here too, for where a ratio is infinite, 0 times its gradient is no number.
    tokens = replace(tokens, logprobs_T=torch.where(agrees_T, tokens.logprobs_T, tokens.sampler_logprobs_T))
    if old_logprobs_T is None:
        old_logprobs_T = tokens.logprobs_T.detach() if spec.old_policy == "current" else tokens.sampler_logprobs_T
    weight_T = torch.exp(old_logprobs_T - tokens.sampler_logprobs_T).clamp(max=spec.max_importance_weight)
    loss_T = -(weight_T * _surrogate(tokens, spec, old_logprobs_T))
    if spec.kl_coef > 0:
        loss_T = loss_T + spec.kl_coef * _kl_divergence(tokens)
    if spec.by_row:
        loss_T = torch.cat([part_A / len(part_A) for part_A in loss_T.split(tokens.action_counts)])
    return torch.where(agrees_T, loss_T, 0.0) / spec.normalizer


def _surrogate(tokens: ActionTokens, spec: LossSpec, old_logprobs_T: Tensor) -> Tensor:
    """What is maximised, before weights and divisors."""
    log_ratio_T = tokens.logprobs_T - old_logprobs_T
    ratio_T = torch.exp(tokens.row_means(log_ratio_T) if spec.kind == "gspo" else log_ratio_T)
    advantages_T = tokens.advantages_T
    if spec.old_policy == "sampler":
        ratio_T = ratio_T.clamp(max=spec.max_importance_weight)
    if spec.kind == "cispo":
        return ratio_T.detach().clamp(max=1 + spec.clip_high) * advantages_T * tokens.logprobs_T
    clipped_T = ratio_T.clamp(1 - spec.clip_low, 1 + spec.clip_high)
    return torch.minimum(ratio_T * advantages_T, clipped_T * advantages_T)


def _kl_divergence(tokens: ActionTokens) -> Tensor:
    """``exp(d_t) - 1 - d_t`` with ``d_t = reference - logp``: k3, which is never negative.

    Source: Schulman 2020, http://joschu.net/blog/kl-approx.html.
    """
    assert tokens.reference_logprobs_T is not None, "a KL term needs the reference's logprobs"
    difference_T = tokens.reference_logprobs_T - tokens.logprobs_T
    return torch.expm1(difference_T) - difference_T


class SelectedLogprobs(torch.autograd.Function):
    """Log-probability of one target id per position from hidden states, without keeping the logits.

    The vocabulary projection is frozen under LoRA, so the gradient with respect to the hidden state is
    ``(onehot(target) - softmax(logits)) @ W / temperature`` and can be formed while the logits of a chunk are at hand:
    memory is one chunk of logits, and backward is one multiplication. The difference is taken before the product, in
    float32: bfloat16 has no numbers between 0.996 and 1, so that of a sure token would be lost.
    """

    @staticmethod
    def forward(  # type: ignore[override]
        ctx, hidden_TD: Tensor, weight_VD: Tensor, target_T: Tensor, chunk: int, temperature: float = 1.0
    ):
        """Returns (logprobs_T, entropy_T) of the logits over ``temperature``, in float32; entropy has no gradient."""
        count, vocabulary = hidden_TD.shape[0], weight_VD.shape[0]
        logprobs_T = torch.empty(count, dtype=torch.float32, device=hidden_TD.device)
        entropy_T = torch.empty_like(logprobs_T)
        gradient_TD = torch.empty_like(hidden_TD) if ctx.needs_input_grad[0] else None
        chunk = max(1, min(chunk, count))
        rows = min(chunk, _CPU_ROWS) if hidden_TD.device.type == "cpu" else chunk
        logits_CV = hidden_TD.new_empty(chunk, vocabulary)
        scratch_2RV = hidden_TD.new_empty(2, rows, vocabulary, dtype=torch.float32)
        for start in range(0, count, chunk):
            part = slice(start, start + chunk)
            part_CV = torch.mm(hidden_TD[part], weight_VD.T, out=logits_CV[: count - start])
            split = (x.split(rows) for x in (part_CV, target_T[part], logprobs_T[part], entropy_T[part]))
            for logits_RV, targets_R, found_R, spread_R in zip(*split, strict=True):
                _target_logprobs(logits_RV, targets_R, found_R, spread_R, temperature, scratch_2RV[:, : len(logits_RV)])
            if gradient_TD is not None:
                gradient_TD[part] = part_CV @ weight_VD
        ctx.save_for_backward(gradient_TD)
        ctx.mark_non_differentiable(entropy_T)
        return logprobs_T, entropy_T

    @staticmethod
    def backward(ctx, grad_T: Tensor, _entropy: Tensor):  # type: ignore[override]
        """Chain rule with the stored gradient."""
        (gradient_TD,) = ctx.saved_tensors
        return (gradient_TD * grad_T[:, None].to(gradient_TD.dtype)), None, None, None, None


def _target_logprobs(
    logits_RV: Tensor, targets_R: Tensor, logprobs_R: Tensor, entropy_R: Tensor, temperature: float, scratch_2RV: Tensor
) -> None:
    """Fill in the targets' log-probabilities and the entropies; the former's gradient takes the place of the logits."""
    shifted_RV, probs_RV = scratch_2RV
    shifted_RV.copy_(logits_RV).div_(temperature)
    shifted_RV.sub_(shifted_RV.amax(-1, keepdim=True))
    torch.exp(shifted_RV, out=probs_RV)
    sums_R = probs_RV.sum(-1)
    log_sums_R = sums_R.log()
    logprobs_R.copy_(shifted_RV.gather(1, targets_R[:, None])[:, 0] - log_sums_R)
    entropy_R.copy_(log_sums_R - shifted_RV.mul_(probs_RV).sum(-1) / sums_R)
    probs_RV.div_(sums_R[:, None] * -temperature)
    logits_RV.copy_(probs_RV.scatter_add_(1, targets_R[:, None], sums_R.new_full((len(sums_R), 1), 1 / temperature)))

"""Causal attention for CPU training: plain batched products with a hand-written backward.

The fused CPU kernel of ``scaled_dot_product_attention`` is fast forward and slow backward. For rows of a few hundred
tokens it pays to keep the probabilities and use three matrix products instead. Grouped key/value heads are never
repeated: the query heads that share one are laid out as more rows. Rows are padded on the right, so no mask
is needed but causality.

It is for bfloat16 on matrix units, where all kernels together made the learner 1.36 times as fast as the usual form. In
float32 torch's kernel is faster: with this one the learner made 154 tokens/s of CPU time, with torch's 206 (Xeon with
AVX-512, one thread, 22 November 2026, ``scripts/bench_learner``). So it is left out there, unless ``learner.kernels``
names it.

    softmax(Q K^T / sqrt(D) + M) V          (Attention Is All You Need, arXiv 1706.03762, eq. 1)

Shapes: B rows, K key/value heads, G query heads for each of them, L positions, D values a head.
"""

from __future__ import annotations

from functools import lru_cache

import torch
from torch import Tensor


class CausalAttention(torch.autograd.Function):
    """``(q_NML, k_NLD, v_NLD, bias_ML, scale) -> o_NMD`` with N = B * K and M = G * L."""

    @staticmethod
    def forward(ctx, q: Tensor, k: Tensor, v: Tensor, bias_ML: Tensor, scale: float):  # type: ignore[override]
        """Keeps the probabilities for backward."""
        scores = torch.baddbmm(bias_ML, q, k.transpose(1, 2), alpha=scale)
        probs = torch.softmax(scores, -1)
        ctx.save_for_backward(q, k, v, probs)
        ctx.scale = scale
        return torch.bmm(probs, v)

    @staticmethod
    def backward(ctx, grad: Tensor):  # type: ignore[override]
        """Chain rule through the two products and the softmax."""
        q, k, v, probs = ctx.saved_tensors
        grad = grad.contiguous()
        grad_v = torch.bmm(probs.transpose(1, 2), grad)
        grad_probs = torch.bmm(grad, v.transpose(1, 2))
        grad_scores = torch.ops.aten._softmax_backward_data(grad_probs, probs, -1, probs.dtype)
        grad_q = torch.bmm(grad_scores, k).mul_(ctx.scale)
        grad_k = torch.bmm(grad_scores.transpose(1, 2), q).mul_(ctx.scale)
        return grad_q, grad_k, grad_v, None, None


def causal_attention(q_BHLD: Tensor, k_BKLD: Tensor, v_BKLD: Tensor, scale: float) -> Tensor:
    """Causal attention; returns ``(B, L, H, D)`` as transformers' attention functions do."""
    batch, heads, length, width = q_BHLD.shape
    kv_heads = k_BKLD.shape[1]
    groups = heads // kv_heads
    q = q_BHLD.reshape(batch * kv_heads, groups * length, width)
    k, v = (x.reshape(batch * kv_heads, length, width) for x in (k_BKLD, v_BKLD))
    out = CausalAttention.apply(q, k, v, _bias(length, groups, q.dtype), scale)
    return out.view(batch, heads, length, width).transpose(1, 2)  # type: ignore[union-attr]


@lru_cache(maxsize=4)
def _bias(length: int, groups: int, dtype: torch.dtype) -> Tensor:
    """0 where a position may look, minus infinity where it may not; the same block for each of ``groups`` heads."""
    blocked = torch.ones(length, length, dtype=torch.bool).triu(1)
    return torch.zeros(length, length, dtype=dtype).masked_fill_(blocked, float("-inf")).repeat(groups, 1)

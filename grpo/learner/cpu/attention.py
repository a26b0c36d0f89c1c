"""Causal attention for CPU training over a list of tokens that rows share, with a hand-written backward.

Each token of the list is a query once, in the row that it belongs to first, and sees the keys of that row up to itself:
no row is padded, and no query is computed again for a row that shares it. Queries go in blocks, so that little is
computed of what causality hides. The fused CPU kernel of ``scaled_dot_product_attention`` is fast forward and slow
backward: matrix products block by block are faster. Probabilities are computed again in backward, not kept: with 300
tokens seen on average they would be a third of what a forward pass keeps, with 1,000 a half (SmolLM2-135M).
Grouped key/value heads are never repeated: the query heads that share one are laid out as more queries.

    softmax(Q K^T / sqrt(D) + M) V          (Attention Is All You Need, arXiv 1706.03762, eq. 1)

Shapes: T tokens of the list, K key/value heads, G query heads for each of them, D values a head, N tokens of a block,
M = N * G queries of a block, L keys that it sees.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING

import torch
from torch import Tensor

if TYPE_CHECKING:
    from grpo.learner.cpu.shared_rows import Layout

BLOCK_TOKENS = 256


@dataclass(frozen=True, slots=True)
class Block:
    """Tokens ``start`` to ``stop`` of the list, and where the list holds what they see: slices that end with them."""

    start: int
    stop: int
    seen: tuple[slice, ...]

    @property
    def num_seen(self) -> int:
        """How many tokens the last token of the block sees, itself included."""
        return sum(part.stop - part.start for part in self.seen)


def blocks_of(layout: Layout) -> list[Block]:
    """Every token of a layout in one block, each row's own tokens from its first to its last."""
    found = []
    for pieces, own in zip(layout.rows, layout.own, strict=True):
        if own is None:
            continue
        before = tuple(slice(piece.start, piece.start + piece.length) for piece in pieces[:-1])
        for start in range(own.start, own.start + own.length, BLOCK_TOKENS):
            stop = min(start + BLOCK_TOKENS, own.start + own.length)
            found.append(Block(start, stop, (*before, slice(own.start, stop))))
    return found


class BlockAttention(torch.autograd.Function):
    """``(q_KTGD, k_KTD, v_KTD, blocks, scale) -> o_KTGD``; zeros for tokens that are in no block."""

    @staticmethod
    def forward(ctx, q: Tensor, k: Tensor, v: Tensor, blocks: Sequence[Block], scale: float):  # type: ignore[override]
        """Keeps q, k and v."""
        q = q * scale
        out = torch.zeros_like(q)
        for block in blocks:
            probs = _probabilities(q, _seen(k, block), block)
            _queries(out, block).copy_(torch.bmm(probs, _seen(v, block)))
        ctx.save_for_backward(q, k, v)
        ctx.blocks, ctx.scale = blocks, scale
        return out

    @staticmethod
    def backward(ctx, grad: Tensor):  # type: ignore[override]
        """Chain rule through the two products and the softmax; keys and values are summed up in float32."""
        q, k, v = ctx.saved_tensors
        grad = grad.contiguous()
        grad_q = torch.zeros_like(q)
        grad_k, grad_v = (torch.zeros_like(x, dtype=torch.float32) for x in (k, v))
        for block in ctx.blocks:
            queries, upstream, keys = _queries(q, block), _queries(grad, block), _seen(k, block)
            probs = _probabilities(q, keys, block)
            _add_seen(grad_v, block, torch.bmm(probs.transpose(1, 2), upstream))
            grad_probs = torch.bmm(upstream, _seen(v, block).transpose(1, 2))
            grad_scores = torch.ops.aten._softmax_backward_data(grad_probs, probs, -1, probs.dtype)
            _queries(grad_q, block).copy_(torch.bmm(grad_scores, keys))
            _add_seen(grad_k, block, torch.bmm(grad_scores.transpose(1, 2), queries))
        return grad_q.mul_(ctx.scale), grad_k.to(k.dtype), grad_v.to(v.dtype), None, None


def block_attention(q_HTD: Tensor, k_KTD: Tensor, v_KTD: Tensor, blocks: Sequence[Block], scale: float) -> Tensor:
    """Causal attention of a list of tokens; returns ``(T, H, D)``."""
    groups = q_HTD.shape[0] // k_KTD.shape[0]
    q_KTGD = q_HTD.unflatten(0, (-1, groups)).transpose(1, 2).contiguous()
    out_KTGD = BlockAttention.apply(q_KTGD, k_KTD.contiguous(), v_KTD.contiguous(), blocks, scale)
    return out_KTGD.transpose(0, 1).flatten(1, 2)  # type: ignore[union-attr]


def _probabilities(q_KTGD: Tensor, seen_KLD: Tensor, block: Block) -> Tensor:
    """``(K, M, L)``, of scaled queries."""
    scores = torch.bmm(_queries(q_KTGD, block), seen_KLD.transpose(1, 2))
    tokens = block.stop - block.start
    scores[..., -tokens:] += _bias(tokens, q_KTGD.shape[2], q_KTGD.dtype)
    return torch.softmax(scores, -1)


def _queries(x_KTGD: Tensor, block: Block) -> Tensor:
    """A view of a block: ``(K, M, D)``, a token's heads one after another."""
    return x_KTGD[:, block.start : block.stop].flatten(1, 2)


def _seen(x_KTD: Tensor, block: Block) -> Tensor:
    """``(K, L, D)``, in the order of the row."""
    parts = [x_KTD[:, part] for part in block.seen]
    return parts[0] if len(parts) == 1 else torch.cat(parts, 1)


def _add_seen(sums_KTD: Tensor, block: Block, values_KLD: Tensor) -> None:
    lengths = [part.stop - part.start for part in block.seen]
    for part, values in zip(block.seen, values_KLD.split(lengths, 1), strict=True):
        sums_KTD[:, part] += values


@lru_cache(maxsize=64)
def _bias(tokens: int, groups: int, dtype: torch.dtype) -> Tensor:
    """``(M, N)``: 0 where a query may look, minus infinity where it may not, the same for a token's heads."""
    blocked = torch.ones(tokens, tokens, dtype=torch.bool).triu(1)
    return torch.zeros(tokens, tokens, dtype=dtype).masked_fill_(blocked, float("-inf")).repeat_interleave(groups, 0)

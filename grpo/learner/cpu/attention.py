"""Causal attention over a list of tokens that rows share (``cpu.shared_rows``).

On a GPU torch's attention sees whole rows, put together from their pieces. On a CPU it is that of this module, with a
hand-written backward. Each token of the list is a query once, in the row that it belongs to first, and sees the keys of
that row up to itself: no row is padded, and no query is computed again for a row that shares it. Queries go in blocks,
so that little is computed of what causality hides. The fused CPU kernel of ``scaled_dot_product_attention`` is fast
forward and slow backward: matrix products block by block are faster. Probabilities are computed again in backward, not
kept: with 300 tokens seen on average they would be a third of what a forward pass keeps, with 1,000 a half
(SmolLM2-135M). Grouped key/value heads are never repeated: the query heads that share one are laid out as more queries.

    softmax(Q K^T / sqrt(D) + M) V          (Attention Is All You Need, arXiv 1706.03762, eq. 1)

Shapes: T tokens of the list, K key/value heads, G query heads for each of them, D values a head, N tokens of a block,
M = N * G queries of a block, L keys that it sees.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import torch
from torch import Tensor

from grpo.learner.cpu.shared_rows import Layout, OwnTokens, RowMaps, WholeRows

NAME = "grpo_shared_rows"
"""Name under which ``register`` makes the attention known to transformers (``attn_implementation``)."""

BLOCK_TOKENS = 256


@dataclass(frozen=True, slots=True)
class Block:
    """Tokens ``start`` to ``stop`` of the list, and where the list holds what they see: slices that end with them."""

    start: int
    stop: int
    seen: tuple[slice, ...]


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


def register() -> str:
    """Make the attention known to transformers; returns the name for ``attn_implementation``."""
    from transformers import AttentionInterface, AttentionMaskInterface

    AttentionInterface.register(NAME, _forward)
    AttentionMaskInterface.register(NAME, lambda *args, **kwargs: None)
    return NAME


def _forward(
    module: Any,
    q_1HTD: Tensor,
    k_1KTD: Tensor,
    v_1KTD: Tensor,
    attention_mask: Any,
    scaling: float,
    maps: RowMaps | None = None,
    blocks: Sequence[Block] | None = None,
    **_others: Any,
) -> tuple[Tensor, None]:
    """Causal attention: that of this module with ``blocks``, else torch's; without either the inputs are whole rows."""
    if blocks is not None:
        return block_attention(q_1HTD[0], k_1KTD[0], v_1KTD[0], blocks, scaling)[None], None
    if maps is None:
        return _torchs_attention(q_1HTD, k_1KTD, v_1KTD, scaling), None
    q, k, v = (_whole_rows(x, maps) for x in (q_1HTD, k_1KTD, v_1KTD))
    out_BLHD = _torchs_attention(q, k, v, scaling)
    out_TW = OwnTokens.apply(out_BLHD.flatten(2), maps)
    return out_TW.view(1, -1, *out_BLHD.shape[2:]), None  # type: ignore[union-attr]


def _whole_rows(x_1HTD: Tensor, maps: RowMaps) -> Tensor:
    _, heads, tokens, width = x_1HTD.shape
    rows_BLW = WholeRows.apply(x_1HTD[0].transpose(0, 1).reshape(tokens, heads * width), maps)
    return rows_BLW.unflatten(2, (heads, width)).transpose(1, 2)  # type: ignore[union-attr]


def _torchs_attention(q_BHLD: Tensor, k_BKLD: Tensor, v_BKLD: Tensor, scale: float) -> Tensor:
    """``(B, L, H, D)``."""
    grouped = q_BHLD.shape[1] != k_BKLD.shape[1]
    if grouped and q_BHLD.is_cuda and q_BHLD.dtype == torch.float32:
        # The kernel that takes float32 on GPUs has no groups; with them torch would keep B x H x L x L probabilities.
        k_BKLD, v_BKLD = (x.repeat_interleave(q_BHLD.shape[1] // x.shape[1], dim=1) for x in (k_BKLD, v_BKLD))
        grouped = False
    out_BHLD = torch.nn.functional.scaled_dot_product_attention(
        q_BHLD, k_BKLD, v_BKLD, is_causal=True, scale=scale, enable_gqa=grouped
    )
    return out_BHLD.transpose(1, 2)

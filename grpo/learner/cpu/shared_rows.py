"""Rows that begin alike share what they have in common: every token of a micro-batch is computed once.

The rollouts of a group share their prompt, often their first call and its result too. Sorted by their ids, each row
shares its longest prefix with the row before it, so the rows of a micro-batch become one list of tokens in which a row
is the first pieces of the row before and its own rest. Everything that works token by token (projections, LoRA, norms)
runs over that list, without copies and without padding; attention alone sees whole rows, put together from their
pieces. Values and gradients are those of separate rows, up to rounding (Tree Training, arXiv 2511.00413, does the
same for trees of trajectories). One packed row with a four-dimensional mask was the alternative; its attention pays for
every pair of rows. After the warm start a rollout of the email recipe has about 30 % of its tokens in common with
another; the learner is 1.13 times as fast with it in float32 (Xeon with AVX-512, ``scripts/bench_learner``, November
2026). ``learner.kernels`` turns it off.

Shapes: T tokens of the list, B rows, L the longest row (rounded up), W values a token, H heads, D values a head.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from grpo.errors import ModelError
from grpo.learner.cpu.attention import causal_attention
from grpo.learner.segments import Segment, common_prefix

NAME = "grpo_shared_rows"
"""Name under which ``register`` makes the attention known to transformers (``attn_implementation``)."""

LENGTH_MULTIPLE = 32
"""The list and the rows are padded to a multiple of this: fewer shapes, so kernels and allocator reuse more."""


@dataclass(frozen=True, slots=True)
class Piece:
    """``length`` tokens that stand at ``start`` of the list and at ``offset`` of a row."""

    start: int
    offset: int
    length: int

    @property
    def of_list(self) -> slice:
        """Where it is in the list."""
        return slice(self.start, self.start + self.length)

    @property
    def of_row(self) -> slice:
        """Where it is in the row."""
        return slice(self.offset, self.offset + self.length)


@dataclass(frozen=True, slots=True)
class Layout:
    """The list of a micro-batch: token ids, their positions in their rows, and each row's pieces.

    ``own`` holds for each row the piece that no earlier row has, or None where an earlier row holds all of it.
    """

    ids: list[int]
    positions: list[int]
    rows: list[tuple[Piece, ...]]
    own: list[Piece | None]
    longest: int

    def place(self, row: int, position: int) -> int:
        """Where the token at ``position`` of ``row`` stands in the list."""
        piece = next(piece for piece in self.rows[row] if position < piece.offset + piece.length)
        return piece.start + position - piece.offset


def lay_out(batch: Sequence[Segment], *, share_beginnings: bool = True) -> Layout:
    """The layout of rows that ``micro_batches`` sorted; without ``share_beginnings`` each row is one piece."""
    ids: list[int] = []
    positions: list[int] = []
    rows: list[tuple[Piece, ...]] = []
    own: list[Piece | None] = []
    before: list[int] = []
    for segment in batch:
        shared = common_prefix(before, segment.ids) if share_beginnings else 0
        pieces = [
            Piece(piece.start, piece.offset, min(piece.length, shared - piece.offset))
            for piece in (rows[-1] if rows else ())
            if piece.offset < shared
        ]
        rest = len(segment.ids) - shared
        own.append(Piece(len(ids), shared, rest) if rest else None)
        rows.append((*pieces, own[-1]) if own[-1] else tuple(pieces))
        ids += segment.ids[shared:]
        positions += range(shared, len(segment.ids))
        before = segment.ids
    padding = -len(ids) % LENGTH_MULTIPLE
    longest = max(len(segment.ids) for segment in batch)
    return Layout(ids + [0] * padding, positions + [0] * padding, rows, own, longest + -longest % LENGTH_MULTIPLE)


class WholeRows(torch.autograd.Function):
    """``(T, W) -> (B, L, W)``: each row put together from its pieces; zeros behind it."""

    @staticmethod
    def forward(ctx, x_TW: Tensor, layout: Layout):  # type: ignore[override]
        """Copies."""
        ctx.layout, ctx.tokens = layout, len(x_TW)
        rows_BLW = x_TW.new_zeros(len(layout.rows), layout.longest, x_TW.shape[1])
        for row_LW, pieces in zip(rows_BLW, layout.rows, strict=True):
            for piece in pieces:
                row_LW[piece.of_row] = x_TW[piece.of_list]
        return rows_BLW

    @staticmethod
    def backward(ctx, grad_BLW: Tensor):  # type: ignore[override]
        """A token's gradient is the sum over the rows that hold it."""
        grad_TW = grad_BLW.new_zeros(ctx.tokens, grad_BLW.shape[2])
        for row_LW, pieces in zip(grad_BLW, ctx.layout.rows, strict=True):
            for piece in pieces:
                grad_TW[piece.of_list] += row_LW[piece.of_row]
        return grad_TW, None


class OwnTokens(torch.autograd.Function):
    """``(B, L, W) -> (T, W)``: back to the list; of a shared token, the first row's value."""

    @staticmethod
    def forward(ctx, rows_BLW: Tensor, layout: Layout):  # type: ignore[override]
        """Copies."""
        ctx.layout, ctx.shape = layout, rows_BLW.shape
        x_TW = rows_BLW.new_zeros(len(layout.ids), rows_BLW.shape[2])
        for row_LW, piece in zip(rows_BLW, layout.own, strict=True):
            if piece is not None:
                x_TW[piece.of_list] = row_LW[piece.of_row]
        return x_TW

    @staticmethod
    def backward(ctx, grad_TW: Tensor):  # type: ignore[override]
        """Each row gets the gradient of its own piece."""
        grad_BLW = grad_TW.new_zeros(ctx.shape)
        for row_LW, piece in zip(grad_BLW, ctx.layout.own, strict=True):
            if piece is not None:
                row_LW[piece.of_row] = grad_TW[piece.of_list]
        return grad_BLW, None


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
    layout: Layout | None = None,
    own_attention: bool = False,
    **special: Any,
) -> tuple[Tensor, None]:
    """Causal attention, torch's or ``cpu.attention``; without a layout the inputs are whole rows already."""
    _refuse_special(special, layout.longest if layout else q_1HTD.shape[2])
    attend = causal_attention if own_attention else _torchs_attention
    if layout is None:
        return attend(q_1HTD, k_1KTD, v_1KTD, scaling), None
    q, k, v = (_whole_rows(x, layout) for x in (q_1HTD, k_1KTD, v_1KTD))
    out_BLHD = attend(q, k, v, scaling)
    out_TW = OwnTokens.apply(out_BLHD.flatten(2), layout)
    return out_TW.view(1, -1, *out_BLHD.shape[2:]), None  # type: ignore[union-attr]


def _refuse_special(special: dict[str, Any], longest: int) -> None:
    window = special.get("sliding_window")
    found = [name for name in ("softcap", "s_aux") if special.get(name) is not None]
    if window is not None and window < longest:
        found.append(f"sliding_window={window}")
    if found:
        raise ModelError(
            f"the model's attention has {', '.join(found)}, which the learner does not compute; "
            "train a model with plain causal attention, for example Llama, Qwen2.5 or SmolLM2"
        )


def _whole_rows(x_1HTD: Tensor, layout: Layout) -> Tensor:
    _, heads, tokens, width = x_1HTD.shape
    rows_BLW = WholeRows.apply(x_1HTD[0].transpose(0, 1).reshape(tokens, heads * width), layout)
    return rows_BLW.unflatten(2, (heads, width)).transpose(1, 2)  # type: ignore[union-attr]


def _torchs_attention(q_BHLD: Tensor, k_BKLD: Tensor, v_BKLD: Tensor, scale: float) -> Tensor:
    """``(B, L, H, D)``."""
    grouped = q_BHLD.shape[1] != k_BKLD.shape[1]
    out_BHLD = torch.nn.functional.scaled_dot_product_attention(
        q_BHLD, k_BKLD, v_BKLD, is_causal=True, scale=scale, enable_gqa=grouped
    )
    return out_BHLD.transpose(1, 2)

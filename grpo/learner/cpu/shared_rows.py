"""Rows that begin alike share what they have in common: every token of a micro-batch is computed once.

The rollouts of a group share their prompt, often their first call and its result too. Sorted by their ids, each row
shares its longest prefix with the row before it, so the rows of a micro-batch become one list of tokens in which a row
is the first pieces of the row before and its own rest. Everything that works token by token (projections, LoRA, norms)
runs over that list, without copies and without padding, and so does attention on the CPU (``cpu.attention``). torch's
attention, on GPUs, sees whole rows, put together from their pieces. Values and gradients are those of separate rows,
up to rounding (Tree Training, arXiv 2511.00413, does the same for trees of trajectories). One packed row with a
four-dimensional mask was the alternative; its attention pays for every pair of rows. After the warm start a rollout of
the email recipe has about 30 % of its tokens in common with another; the learner is 1.13 times as fast with it in
float32 (Xeon with AVX-512, ``scripts/bench_learner``, November 2026). `LocalEngine` can do without it.

Shapes: T tokens of the list, B rows, L the longest row (rounded up), W values a token, H heads, D values a head.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Self

import torch
from torch import Tensor

from grpo.learner.segments import Segment
from grpo.types import common_prefix

LENGTH_MULTIPLE = 32
"""The list and the rows are padded to a multiple of this: fewer shapes, so kernels and allocator reuse more."""


@dataclass(frozen=True, slots=True)
class Piece:
    """``length`` tokens that stand at ``start`` of the list and at ``offset`` of a row."""

    start: int
    offset: int
    length: int


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


@dataclass(frozen=True, slots=True)
class Bags:
    """Which of some values are added up, sum by sum: those at ``places[starts[n]:starts[n + 1]]`` are the n-th."""

    places: Tensor
    starts: Tensor

    @classmethod
    def of(cls, sums: Tensor, places: Tensor, count: int) -> Self:
        """``places[i]`` is added to the sum ``sums[i]`` of ``count``."""
        order = torch.argsort(sums, stable=True)
        starts = torch.nn.functional.pad(torch.bincount(sums, minlength=count).cumsum(0), (1, 0))
        return cls(places[order], starts)

    def sums(self, values_NW: Tensor) -> Tensor:
        """One row of sums a bag; zeros where a bag is empty. Added up in float32, always in the same order."""
        return torch.nn.functional.embedding_bag(
            self.places, values_NW, self.starts, mode="sum", include_last_offset=True
        )

    def to(self, device: torch.device) -> Self:
        """On another device."""
        return type(self)(self.places.to(device), self.starts.to(device))


@dataclass(frozen=True, slots=True)
class RowMaps:
    """Where values go between the list of T tokens and the B rows of length L, each map as indices made once.

    Behind a row stand its first token's values, which no token of a row attends to. So all layers need is one gather
    each way, and one sum each way back.
    """

    shape: tuple[int, int]
    to_rows: Tensor
    of_tokens: Bags
    to_list: Tensor
    of_places: Bags

    @classmethod
    def of(cls, layout: Layout, device: torch.device) -> Self:
        """The maps of a layout."""
        shape = (len(layout.rows), layout.longest)
        held = [(row * layout.longest, piece) for row, pieces in enumerate(layout.rows) for piece in pieces]
        own = [(row * layout.longest, piece) for row, piece in enumerate(layout.own) if piece is not None]
        tokens, places = _pairs(held)
        own_tokens, own_places = _pairs(own)
        firsts = torch.tensor([pieces[0].start for pieces in layout.rows])
        to_rows = firsts.repeat_interleave(layout.longest)
        to_rows[places] = tokens
        to_list = torch.zeros(len(layout.ids), dtype=torch.long)
        to_list[own_tokens] = own_places
        of_tokens = Bags.of(tokens, places, len(layout.ids))
        of_places = Bags.of(own_places, own_tokens, shape[0] * shape[1])
        return cls(shape, to_rows.to(device), of_tokens.to(device), to_list.to(device), of_places.to(device))


def _pairs(pieces: list[tuple[int, Piece]]) -> tuple[Tensor, Tensor]:
    """Of each token of the pieces: its place in the list, and its place in rows laid end to end."""
    tokens = [torch.arange(piece.start, piece.start + piece.length) for _, piece in pieces]
    places = [row + torch.arange(piece.offset, piece.offset + piece.length) for row, piece in pieces]
    return torch.cat(tokens), torch.cat(places)


class WholeRows(torch.autograd.Function):
    """``(T, W) -> (B, L, W)``: each row put together from its pieces."""

    @staticmethod
    def forward(ctx, x_TW: Tensor, maps: RowMaps):  # type: ignore[override]
        """Copies."""
        ctx.maps = maps
        return x_TW.index_select(0, maps.to_rows).view(*maps.shape, -1)

    @staticmethod
    def backward(ctx, grad_BLW: Tensor):  # type: ignore[override]
        """A token's gradient is the sum over the rows that hold it."""
        return ctx.maps.of_tokens.sums(grad_BLW.flatten(0, 1)), None


class OwnTokens(torch.autograd.Function):
    """``(B, L, W) -> (T, W)``: back to the list; of a shared token, the first row's value."""

    @staticmethod
    def forward(ctx, rows_BLW: Tensor, maps: RowMaps):  # type: ignore[override]
        """Copies."""
        ctx.maps = maps
        return rows_BLW.flatten(0, 1).index_select(0, maps.to_list)

    @staticmethod
    def backward(ctx, grad_TW: Tensor):  # type: ignore[override]
        """Each row gets the gradient of its own piece."""
        return ctx.maps.of_places.sums(grad_TW).view(*ctx.maps.shape, -1), None

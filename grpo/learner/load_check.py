"""Is what the learner computes the model that is served? Tried with every model that is loaded, whatever its name.

Rows that see each other, dropout, scaled logits, positions that depend on the longest row of a batch: each is silent,
and off by up to 2 nats a token. The plain model has the same weights, transformers' attention and nothing of ours.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import torch

from grpo.devices.families import OTHERS
from grpo.errors import ModelError
from grpo.learner.loss import ActionTokens
from grpo.learner.segments import Segment

BOUNDS = {torch.float32: 1e-4, torch.bfloat16: 0.07}
"""Median |difference| of log-probabilities, as a share of their standard deviation. Rounding alone is at most 3e-6 and
0.045 (SmolLM2-135M and tiny models of 16 kinds, with an adapter and without, on a CPU); the least of the faults that
are tested is 0.076. A fault moves most tokens; rounding to bfloat16 may move a single one by 8 nats."""


def check_computing(model: Any, forward: Callable[[Sequence[Segment]], ActionTokens], longest_row: int) -> None:
    """Compare two rows that begin alike, computed together, once more, one alone, and by the plain model.

    Args:
        model: With its adapter, where it is computed.
        forward: Computes a batch as the learner does.
        longest_row: Tokens; the plain model computes beside a token at the last of these positions.

    Raises:
        ModelError: They differ.
    """
    head = model.get_base_model().lm_head.weight
    lists = [[(len(head) // 2 + at) % len(head) for at in (*range(6), *own)] for own in (range(6, 12), range(12, 24))]
    rows = [Segment(ids, [False] + [True] * (len(ids) - 1), [0.0] * len(ids), 1.0) for ids in lists]
    with torch.no_grad():
        batches = [forward(rows), forward(rows), forward(rows[1:])]
        together, again, alone = (batch.logprobs_T[-batch.action_counts[-1] :] for batch in batches)
        with _plain(model):
            plain = plain_logprobs(model, rows[1].ids, longest_row)
    for other, what in (
        (again, "the same rows twice (part of it is random, such as dropout, or no number)"),
        (alone, "a row alone and beside another (they see each other)"),
        (plain, "a row by the learner and by transformers (logits are scaled, or positions, by the longest row)"),
    ):
        if gap := gap_above_rounding(together, other, head.dtype):
            raise ModelError(
                f"{model.config.name_or_path} is not computed as it is served: log-probabilities of {what} differ by "
                f"{gap:.3g} nats a token; {OTHERS}"
            )


def gap_above_rounding(found_T: torch.Tensor, expected_T: torch.Tensor, dtype: torch.dtype) -> float:
    """Median |difference| in nats a token of log-probabilities computed in ``dtype``; 0 where it may be rounding."""
    gap = (found_T - expected_T).abs().median()
    return 0.0 if gap <= BOUNDS.get(dtype, max(BOUNDS.values())) * expected_T.std() else float(gap)


@torch.no_grad()
def plain_logprobs(model: Any, ids: Sequence[int], longest_row: int = 0) -> torch.Tensor:
    """Of each of these ids after those before it, as transformers computes them; see ``check_computing``."""
    ids_1L = torch.tensor([[*ids, 0]], device=model.device)
    positions_1L = torch.tensor([[*range(len(ids)), max(len(ids), longest_row - 1)]], device=model.device)
    logits_LV = model(input_ids=ids_1L, position_ids=positions_1L, use_cache=False).logits[0, :-2].float()
    return logits_LV.log_softmax(-1).gather(1, ids_1L[0, 1:-1, None])[:, 0]


@contextmanager
def _plain(model: Any) -> Iterator[None]:
    """Without the learner's kernels: modules compute as their classes say."""
    config = model.get_base_model().config
    own_attention, config._attn_implementation = config._attn_implementation, "eager"
    own = [(module, vars(module).pop("forward")) for module in model.modules() if "forward" in vars(module)]
    try:
        yield
    finally:
        config._attn_implementation = own_attention
        for module, forward in own:
            module.forward = forward

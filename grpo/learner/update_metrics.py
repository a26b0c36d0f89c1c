"""What is logged of a step's updates, from the plain numbers that an engine returns of each row.

The gap between sampler and trainer is measured in the first update's own forward pass, so looking at it costs nothing.
It is checked after the step's update and before its checkpoint: a step that fails the check leaves nothing behind but
its trajectories.
"""

import itertools
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean

import numpy as np

from grpo.errors import TrainingError
from grpo.learner.engine import LossSpec, RowStatistics
from grpo.learner.segments import Segment

MAX_EXPONENT = 80.0
"""Ratios are logged up to ``exp`` of this."""
MAX_DROPPED_SHARE = 0.1
"""Of a step's rows, on which sampler and trainer disagree: more of them are no accident."""


@dataclass(frozen=True, slots=True)
class Update:
    """An update that was made: its rows, what the engine said of each, and the gradient norm before clipping."""

    rows: Sequence[Segment]
    loss: LossSpec
    statistics: Sequence[RowStatistics]
    grad_norm: float


def update_metrics(updates: Sequence[Update]) -> dict[str, float]:
    """What is logged of a step's updates; `grpo.display.meanings` says what each means.

    ``gap/*`` and ``ratio/p99`` are of the action tokens of the first update, those of dropped rows too. For
    ``staleness``, a step before counts as many updates as this one has. Without an update there are the first two
    alone.
    """
    if not updates:
        return {"loss/policy": 0.0, "loss/grad_norm": 0.0}
    statistics = [row for update in updates for row in update.statistics]
    differences = _differences(updates[0])
    gaps: dict[bool, list[float]] = {False: [], True: []}  # by whether the row is of an older policy
    for row, of_row in zip(updates[0].rows, differences, strict=True):
        gaps[row.staleness > 0] += [abs(difference) for difference in of_row]
    entropies = [value for row in statistics for value in row.entropies]
    ages = [
        number + row.staleness * len(updates)
        for number, update in enumerate(updates)
        for row in update.rows
        for _ in row.sampled_logprobs
    ]
    metrics = {
        "loss/policy": math.fsum(row.loss for row in statistics) / len(updates),
        "loss/grad_norm": fmean(update.grad_norm for update in updates),
        **({"loss/entropy": fmean(entropies)} if entropies else {}),
        "loss/clip_share": fmean(cut for update in updates for cut in _clipped(update)),
        "gap/dropped_share": fmean(dropped for update in updates for dropped in _dropped(update)),
        "staleness": fmean(ages),
        "staleness/max": float(max(ages)),
        "ratio/p99": float(np.quantile([_exp(difference) for row in differences for difference in row], 0.99)),
    }
    if gaps[False]:
        metrics |= {"gap/mean_abs": fmean(gaps[False]), "gap/max": max(gaps[False])}
    if gaps[True]:
        metrics["gap/stale_mean_abs"] = fmean(gaps[True])
    if updates[0].loss.kl_coef > 0:
        metrics["loss/kl"] = fmean(divergence for row in statistics for divergence in _divergences(row))
    return metrics


def _differences(update: Update) -> list[list[float]]:
    """Trainer's less sampler's logprob of each action token, row by row."""
    return [
        [trained - sampled for trained, sampled in zip(found.logprobs, row.sampled_logprobs, strict=True)]
        for row, found in zip(update.rows, update.statistics, strict=True)
    ]


def _dropped(update: Update) -> list[bool]:
    """Whether a row had no weight: see ``ActionTokens.agreeing``."""
    rows = zip(update.rows, _differences(update), strict=True)
    return [fmean(map(abs, differences)) > update.loss.row_bound(row) for row, differences in rows]


def _clipped(update: Update) -> list[bool]:
    """Whether a token's gradient was cut: its ratio clipped, or its importance weight truncated."""
    loss = update.loss
    cut: list[bool] = []
    for row, differences in zip(update.rows, _differences(update), strict=True):
        log_ratios = [0.0] * len(differences) if loss.old_policy == "current" else differences
        if loss.kind == "gspo":
            log_ratios = [fmean(log_ratios)] * len(log_ratios)
        log_weights = differences if loss.old_policy == "current" else log_ratios
        up, down = row.advantage > 0, row.advantage < 0 and loss.kind != "cispo"
        for log_ratio, log_weight in zip(log_ratios, log_weights, strict=True):
            clipped = (up and _exp(log_ratio) > 1 + loss.clip_high) or (down and _exp(log_ratio) < 1 - loss.clip_low)
            cut.append(clipped or _exp(log_weight) > loss.max_importance_weight)
    return cut


def _divergences(row: RowStatistics) -> list[float]:
    """From the model without adapter, token by token: the estimator k3 of ``loss``."""
    pairs = zip(row.reference_logprobs, row.logprobs, strict=True)
    differences = [reference - logprob for reference, logprob in pairs]
    return [math.expm1(min(difference, MAX_EXPONENT)) - difference for difference in differences]


def _exp(value: float) -> float:
    return math.exp(min(value, MAX_EXPONENT))


def mean_distance(before: Sequence[Sequence[float]], after: Sequence[Sequence[float]]) -> float:
    """Of the log-probabilities of the same tokens, row by row, in nats a token."""
    pairs = zip(itertools.chain(*before), itertools.chain(*after), strict=True)
    return fmean(abs(one - other) for one, other in pairs)


def check_gap(metrics: Mapping[str, float], max_gap: float, step: int) -> None:
    """Stop a run whose server does not sample the policy that is trained.

    A gap of an older policy's rows holds what was learned since as well; it counts only where a step has no other, and
    is then named so.

    Raises:
        TrainingError: ``gap/mean_abs`` of ``metrics``, or without it ``gap/stale_mean_abs``, is above ``max_gap`` nats,
            or ``gap/dropped_share`` above ``MAX_DROPPED_SHARE``.
    """
    is_stale = "gap/mean_abs" not in metrics
    gap = metrics.get("gap/stale_mean_abs" if is_stale else "gap/mean_abs", 0.0)
    dropped = metrics.get("gap/dropped_share", 0.0)
    setting, found = "max_gap", f"by {gap:.3f} nats a token on average, above loss.max_gap = {max_gap}"
    if gap <= max_gap:
        if dropped <= MAX_DROPPED_SHARE:
            return
        is_stale = metrics["staleness/max"] > 0
        setting = "max_stale_row_gap" if is_stale else "max_row_gap"
        found = f"on {dropped:.0%} of the rows, above {MAX_DROPPED_SHARE:.0%}, by more than loss.{setting} each"
    learned_since = (
        "Rows are of an older policy (rollout.max_staleness, optimizer.updates_per_step), so a part of it may be what "
        f"was learned since: then raise loss.{setting}, which may change at --resume, or lower "
        "optimizer.learning_rate. Else "
        if is_stale
        else ""
    )
    raise TrainingError(
        f"step {step}: sampler and trainer disagree {found}. {learned_since}{'the' if is_stale else 'The'} server does "
        "not sample the adapter that is trained: look for another adapter, base model, temperature or logprobs mode in "
        "server.log. Nothing of this step was kept but its trajectories; the last checkpoint is whole"
    )

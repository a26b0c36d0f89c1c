"""A step's optimizer updates: rows with their advantages in, a better policy in the engine, metrics out.

It computes no advantages (``advantages``) and no gradients (``engine``); it says which rows make an update and what
their loss is. What is logged of them is made in ``update_metrics``.
"""

import math
import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from grpo.config import TrainConfig
from grpo.errors import TrainingError
from grpo.learner.engine import Engine, LossSpec
from grpo.learner.segments import Segment
from grpo.learner.update_metrics import Update, update_metrics
from grpo.settings import OptimizerSettings
from grpo.watch import LEARNER_STANDS_STILL, Part, Waiting, computed


@dataclass(frozen=True, slots=True)
class UpdateConfig:
    """How a step's rows become updates.

    ``count`` updates share the rows (``split``). The loss of each is normalised by its share of the step's action
    tokens (or rows, see ``normalizers``); bnpo's by the update's own, dr_grpo's by rollouts of
    ``max_completion_tokens``.
    """

    count: int
    learning_rate: float
    max_grad_norm: float
    loss: LossSpec
    max_completion_tokens: int = 4096


def update_config(config: TrainConfig, step: int) -> UpdateConfig:
    """What a run's settings say of the updates of 0-based ``step``."""
    loss = LossSpec(
        config.loss.type,
        clip_low=config.loss.clip_low,
        clip_high=config.loss.clip_high,
        max_importance_weight=config.loss.max_importance_weight,
        max_row_gap=config.loss.max_row_gap,
        max_stale_row_gap=config.loss.max_stale_row_gap,
        kl_coef=config.loss.kl_coef,
        temperature=config.rollout.temperature,
    )
    rate = scheduled_learning_rate(step, config.steps, config.optimizer)
    optimizer = config.optimizer
    return UpdateConfig(optimizer.updates_per_step, rate, optimizer.gradient_bound, loss, config.rollout.max_tokens)


def scheduled_learning_rate(step: int, steps: int, optimizer: OptimizerSettings) -> float:
    """Rate of 0-based ``step`` of ``steps``: a linear rise, and a linear fall to ``final_lr_share`` at the last."""
    rise = min(1.0, (step + 1) / (optimizer.warmup_steps + 1))
    fall = 1.0 - (1.0 - optimizer.final_lr_share) * step / max(1, steps - 1)
    return optimizer.learning_rate * rise * fall


def update_policy(
    engine: Engine, rows: Sequence[Segment], config: UpdateConfig, *, seed: int, on_rows: Callable[[int], None]
) -> dict[str, float]:
    """Update the policy on one step's rows.

    Rows without advantage are counted but, where there is no KL term, not computed: their gradient is zero. From the
    second update on the ratio is taken against the sampler (PPO, arXiv 1707.06347, eq. 6 and 7); in the first, both are
    the same policy, and that is where the gap between them is measured.

    Rows of an older policy (``Segment.staleness``) need the decoupled objective (AReaL, arXiv 2505.24298, section 5.2,
    after Hilton et al., arXiv 2110.00641): the ratio is held near a recent policy, and a weight leads from the policy
    that sampled to that one. Clipped around the sampler, the ratio would be held near a policy that was left behind
    steps ago. So an update with such rows takes its ratios against its own weights, whichever update of the step it is:
    the ratio is 1, and the weight, from sampler to trainer, is truncated (``max_importance_weight``).

    Args:
        engine: What computes.
        rows: Of the whole step.
        config: See there.
        seed: Which groups share an update, and which update is the first.
        on_rows: Called with the number of rows that were computed.

    Returns:
        The metrics of ``update_metrics``.

    Raises:
        TrainingError: The gradient is not finite.
    """
    useful = computed_rows(rows, config.loss.kl_coef)
    shares = split(useful, config.count, seed)
    updates: list[Update] = []
    for share, normalizer in zip(shares, normalizers(rows, shares, config), strict=True):
        is_stale = any(row.staleness for row in share)
        old_policy = "sampler" if updates and not is_stale else "current"
        loss = replace(config.loss, normalizer=normalizer, old_policy=old_policy)
        if updates:  # by now the step's own policy is an older one, too
            loss = replace(loss, max_row_gap=loss.max_stale_row_gap)
        with Waiting(Part.LEARNER, f"an update of {len(share)} rows", LEARNER_STANDS_STILL, pulse=computed):
            statistics = engine.forward_backward(share, loss, on_rows)
            norm = engine.optim_step(config.learning_rate, config.max_grad_norm)
        if not math.isfinite(norm):  # as where the loss is not
            raise TrainingError(
                f"the gradient's norm is {norm} in update {len(updates) + 1}; the last checkpoint is whole"
            )
        updates.append(Update(share, loss, statistics, norm))
    return update_metrics(updates)


def computed_rows(rows: Sequence[Segment], kl_coef: float) -> list[Segment]:
    """The rows that have a gradient: those with an advantage, and all where there is a KL term."""
    return [row for row in rows if row.advantage != 0.0 or kl_coef > 0]


def split(rows: Sequence[Segment], count: int, seed: int) -> list[list[Segment]]:
    """The rows of each of ``count`` updates (fewer where there are fewer rows): whole groups, even in action tokens.

    The rows of a group begin alike, and what they share is computed once in each update that has some of them. So a
    group stays in one update. It is cut in two, in the order of the ids, only while there are fewer pieces than
    updates, or where it has more than an even share of the action tokens. The pieces are dealt out heaviest first, each
    to the update that has least so far.

    Learning loses nothing by it. Every row is in one update, and all updates have the same normalizer (but bnpo's), so
    at one policy their gradients have the step's as their mean, whoever shares an update with whom. Which update is the
    first hangs on the seed alone. The advantages of a group sum up to zero (unless ``loss.negative_weight`` changes
    that): whole, it brings its baseline along, and what its rows have in common cancels within the update.
    """
    generator = random.Random(seed)
    groups: dict[str, list[Segment]] = {}
    for row in generator.sample(rows, len(rows)):
        groups.setdefault(row.task, []).append(row)
    pieces = _pieces(list(groups.values()), count)
    shares: list[list[Segment]] = [[] for _ in range(min(count, len(pieces)))]
    sizes = [0] * len(shares)
    for piece in sorted(pieces, key=_num_actions, reverse=True):
        lightest = sizes.index(min(sizes))
        shares[lightest] += piece
        sizes[lightest] += _num_actions(piece)
    generator.shuffle(shares)
    return shares


def _pieces(groups: list[list[Segment]], count: int) -> list[list[Segment]]:
    """The groups, the heaviest cut in two while there are fewer than ``count`` or it has more than an even share."""
    even_share = sum(map(_num_actions, groups)) / count
    pieces = [group for group in groups if len(group) == 1]
    divisible = [group for group in groups if len(group) > 1]
    while divisible:
        divisible.sort(key=_num_actions)
        if len(pieces) + len(divisible) >= count and _num_actions(divisible[-1]) <= even_share:
            break
        in_order = sorted(divisible.pop(), key=lambda row: row.ids)
        middle = len(in_order) // 2
        for half in (in_order[:middle], in_order[middle:]):
            (divisible if len(half) > 1 else pieces).append(half)
    return pieces + divisible


def _num_actions(rows: Sequence[Segment]) -> int:
    return sum(row.num_actions for row in rows)


def normalizers(rows: Sequence[Segment], shares: Sequence[Sequence[Segment]], config: UpdateConfig) -> list[float]:
    """What the loss of each update is divided by."""
    if config.loss.kind != "bnpo":
        return [_divisor(rows, config) / len(shares) for _ in shares]
    computed = {id(row) for share in shares for row in share}
    others = [row for row in rows if id(row) not in computed]
    return [_divisor([*share, *others[number :: len(shares)]], config) for number, share in enumerate(shares)]


def _divisor(rows: Sequence[Segment], config: UpdateConfig) -> float:
    """What the sum over these rows is divided by, if they are all that an update has."""
    if config.loss.by_row:
        return len(rows)
    if config.loss.kind == "dr_grpo":
        return math.fsum(row.rollout_share for row in rows) * config.max_completion_tokens
    return _num_actions(rows)

"""A step's optimizer updates: rows with their advantages in, a better policy in the engine, metrics out.

It computes no advantages (``advantages``) and no gradients itself (``engine``); it says which rows make an update, what
their loss is, and what is logged of it.
"""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from grpo.config import TrainConfig
from grpo.engine.base import BatchView, Engine
from grpo.errors import TrainingError
from grpo.loss import LossConfig, grpo_loss
from grpo.segments import Segment

if TYPE_CHECKING:
    from torch import Tensor


@dataclass(frozen=True, slots=True)
class UpdateConfig:
    """How a step's rows become updates.

    ``count`` updates share the rows evenly. The loss of each is normalised by its share of the step's action tokens (or
    rows, see ``LossConfig.normalizer``); bnpo's by the update's own.
    """

    count: int
    learning_rate: float
    max_grad_norm: float
    loss: LossConfig


def learning_rate(step: int, steps: int, peak: float, warmup_steps: int, final: float) -> float:
    """Rate of 0-based ``step`` of ``steps``: a linear rise, and a linear fall to ``final * peak`` at the last step."""
    rise = min(1.0, (step + 1) / (warmup_steps + 1))
    fall = 1.0 - (1.0 - final) * step / max(1, steps - 1)
    return peak * rise * fall


def schedule_note(config: TrainConfig, earlier_steps: int, step: int) -> str:
    """What another number of steps does to the learning rate of a run that goes on behind ``step``; "" for nothing.

    The schedule is always that of a run of ``config.steps`` from the start: a rate that had fallen can rise again.
    """
    if config.lr_final == 1.0 or earlier_steps == config.steps or step >= config.steps:
        return ""
    shape = config.learning_rate, config.lr_warmup_steps, config.lr_final
    now = learning_rate(step, config.steps, *shape)
    before = learning_rate(max(0, min(step, earlier_steps - 1)), earlier_steps, *shape)
    return (
        f"steps: {earlier_steps} -> {config.steps}; the learning rate (lr_final = {config.lr_final:g}) falls until "
        f"step {config.steps} now: {now:.2g} at step {step + 1}, where it was {before:.2g}"
    )


def update_policy(
    engine: Engine, rows: Sequence[Segment], config: UpdateConfig, *, seed: int, on_rows: Callable[[int], None]
) -> dict[str, float]:
    """Update the policy on one step's rows.

    Rows without advantage are counted but, where there is no KL term, not computed: their gradient is zero. From the
    second update on the ratio is taken against the sampler (PPO, arXiv 1707.06347, eq. 6 and 7); in the first, both are
    the same policy, and that is where the gap between them is measured.

    Args:
        engine: What computes.
        rows: Of the whole step.
        config: See there.
        seed: Which rows share an update.
        on_rows: Called with the number of rows that were computed.

    Returns:
        ``loss/*``, ``gap/*`` and ``ratio/*``: means over the updates; gap and ratio in nats and of the first update;
        ``loss/kl``, in nats a token, with a ``kl_coef`` only.

    Raises:
        TrainingError: The loss is not finite.
    """
    import torch

    from grpo.engine.distributed import gather

    useful = computed_rows(rows, config.loss)
    if not useful:
        return {"loss/policy": 0.0, "loss/grad_norm": 0.0}
    shuffled = random.Random(seed).sample(useful, len(useful))
    shares = [shuffled[number :: config.count] for number in range(min(config.count, len(useful)))]
    divisors = normalizers(rows, shares, config.loss)
    losses: list[float] = []
    norms: list[float] = []
    gaps: list[Tensor] = []
    ratios: list[Tensor] = []
    clipped: list[Tensor] = []
    entropies: list[Tensor] = []
    divergences: list[Tensor] = []
    for number, (share, normalizer) in enumerate(zip(shares, divisors, strict=True)):

        def loss_function(view: BatchView, first: bool = number == 0, normalizer: float = normalizer) -> Tensor:
            terms = grpo_loss(
                view.logprobs_T,
                view.sampler_logprobs_T,
                view.advantages_T,
                normalizer=normalizer,
                config=config.loss,
                old_logprobs_T=None if first else view.sampler_logprobs_T,
                action_counts_B=view.action_counts_B,
                reference_logprobs_T=view.reference_logprobs_T,
            )
            if first:
                gaps.append(terms.gap_T)
                ratios.append(terms.ratio_T)
            if terms.kl_T is not None:
                divergences.append(terms.kl_T)
            clipped.append(terms.clipped_T)
            entropies.append(view.entropy_T)
            on_rows(view.rows)
            return terms.loss

        losses.append(engine.forward_backward(share, loss_function, with_reference=config.loss.kl_coef > 0))
        if not math.isfinite(losses[-1]):
            raise TrainingError(f"the loss is {losses[-1]} in update {number + 1}; the last checkpoint is whole")
        norms.append(engine.optim_step(config.learning_rate, config.max_grad_norm))
    gap = gather(gaps)
    metrics = {
        "loss/policy": math.fsum(losses) / len(losses),
        "loss/grad_norm": math.fsum(norms) / len(norms),
        "loss/entropy": float(gather(entropies).mean()),
        "loss/clip_share": float(gather(clipped).float().mean()),
        "gap/mean_abs": float(gap.mean()),
        "gap/max": float(gap.max()),
        "ratio/p99": float(torch.quantile(gather(ratios)[:100_000], 0.99)),
    }
    if config.loss.kl_coef > 0:
        metrics["loss/kl"] = float(gather(divergences).mean())
    return metrics


def loss_config(config: TrainConfig) -> LossConfig:
    """The loss that a run's config names."""
    return LossConfig(
        config.clip_low,
        config.clip_high,
        config.max_importance_weight,
        config.loss,
        config.kl_coef,
        config.max_tokens,
    )


def computed_rows(rows: Sequence[Segment], loss: LossConfig) -> list[Segment]:
    """The rows that have a gradient: those with an advantage, and all where there is a KL term."""
    return [row for row in rows if row.advantage != 0.0 or loss.kl_coef > 0]


def normalizers(rows: Sequence[Segment], shares: Sequence[Sequence[Segment]], loss: LossConfig) -> list[float]:
    """What the loss of each update is divided by."""
    if loss.loss != "bnpo":
        return [loss.normalizer([row.num_actions for row in rows]) / len(shares)] * len(shares)
    computed = {id(row) for share in shares for row in share}
    others = [row for row in rows if id(row) not in computed]
    return [
        loss.normalizer([row.num_actions for row in (*share, *others[number :: len(shares)])])
        for number, share in enumerate(shares)
    ]


def check_gap(metrics: Mapping[str, float], max_gap: float, step: int) -> None:
    """Stop a run whose server does not sample the policy that is trained.

    It is asked after a step's update and before anything of it is kept or published: the last checkpoint is the policy
    before the step.

    Raises:
        TrainingError: ``gap/mean_abs`` of ``metrics`` is above ``max_gap`` nats a token.
    """
    gap = metrics.get("gap/mean_abs", 0.0)
    if gap > max_gap:
        raise TrainingError(
            f"step {step}: sampler and trainer disagree by {gap:.3f} nats a token on average, above max_gap {max_gap}. "
            "The server does not sample the adapter that is trained: look for another adapter, base model, temperature "
            "or logprobs mode in server.log. Nothing of this step was kept but its trajectories; the last checkpoint "
            "is whole"
        )

"""The protocol between the trainer and whatever computes gradients: rows and a loss go in, numbers come out.

Calls are data, so an engine may live in this process or in another one. An engine adds up the losses of tokens and
divides the sum by ``LossSpec.normalizer``; it normalises nothing itself. All GRPO arithmetic stays with the trainer.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal, Protocol

from grpo.learner.segments import Segment
from grpo.settings import LossType


@dataclass(frozen=True, slots=True)
class LossSpec:
    """The loss of one call; ``grpo.learner.loss`` has the formulas.

    Attributes:
        kind: A policy-gradient loss, or ``imitation``, the log-likelihood of the actions weighted by the advantages.
        normalizer: What the sum over tokens (or rows) is divided by; it counts over a whole optimizer update.
        old_policy: Which policy the ratio is taken against: the weights of this call, so that it is 1, or the sampler.
        clip_low: The ratio is clipped to [1 - clip_low, 1 + clip_high] (PPO, arXiv 1707.06347, eq. 7).
        clip_high: Wider than ``clip_low``: DAPO's clip-higher (arXiv 2503.14476, eq. 10).
        max_importance_weight: Bound of the weight between sampler and trainer, token by token (truncated importance
            sampling, Ionides 2008). Where the ratio is taken against the sampler it holds that weight, and is bounded
            itself (two-sided clipping, INTELLECT-2, arXiv 2505.07291, section 3.4.1; TRL's ``delta``).
        max_row_gap: Bound of a row's mean difference between sampler and trainer, |log-probability| in nats a token. A
            row above it has weight 0: what sampled it is not the policy that is trained.
        max_stale_row_gap: The same for rows of an older policy, whose difference holds what was learned since, too.
        kl_coef: Weight of the KL divergence from the model without adapter (arXiv 2402.03300, eq. 3 and 4).
        temperature: Of the distributions that the tokens were drawn from; logits are divided by it.
    """

    kind: LossType | Literal["imitation"] = "dapo"
    normalizer: float = 1.0
    old_policy: Literal["current", "sampler"] = "current"
    clip_low: float = 0.2
    clip_high: float = 0.28
    max_importance_weight: float = 2.0
    max_row_gap: float = math.inf
    max_stale_row_gap: float = math.inf
    kl_coef: float = 0.0
    temperature: float = 1.0

    @property
    def by_row(self) -> bool:
        """Whether every row counts the same, however long it is."""
        return self.kind in ("grpo", "gspo")

    def row_bound(self, row: Segment) -> float:
        """The bound that a row has."""
        return self.max_stale_row_gap if row.staleness else self.max_row_gap


@dataclass(frozen=True, slots=True)
class RowStatistics:
    """What an engine found in a row; the lists have one value for each action token.

    Attributes:
        loss: The row's share of the loss.
        logprobs: Under the weights that the gradient was taken at.
        entropies: Of the distributions that the tokens were drawn from, in nats; empty where an engine has none.
        reference_logprobs: Under the model without adapter; empty for a loss without a KL term.
    """

    loss: float
    logprobs: list[float]
    entropies: list[float]
    reference_logprobs: list[float] = field(default_factory=list)


def ignore_progress(_rows: int) -> None:
    """For callers that do not show how far an engine is."""


class Engine(Protocol):
    """Trains one LoRA policy."""

    def forward_backward(
        self, rows: Sequence[Segment], loss: LossSpec, on_rows: Callable[[int], None] = ignore_progress
    ) -> list[RowStatistics]:
        """Accumulate the gradient of ``loss`` over ``rows``.

        Args:
            rows: In any order.
            loss: What is minimised.
            on_rows: Called with the number of rows that were done since the last call.

        Returns:
            One entry for each of ``rows``, in their order.
        """
        ...

    def logprobs(self, rows: Sequence[Segment]) -> list[list[float]]:
        """Log-probabilities of each row's action tokens, without gradient."""
        ...

    def optim_step(self, learning_rate: float, max_grad_norm: float) -> float:
        """Clip (not with an infinite bound), step and clear gradients; returns the gradient norm before clipping."""
        ...

    def reset_optimizer(self) -> None:
        """Forget the optimizer's moments."""
        ...

    def save_adapter(self, folder: Path) -> None:
        """Write the policy in PEFT's format."""
        ...

    def state(self) -> dict[str, bytes]:
        """The optimizer and the random state: contents of files, by name. Later steps do not change them."""
        ...

    def load_state(self, folder: Path) -> None:
        """Continue from a folder with an adapter of ``save_adapter`` and the files of ``state``."""
        ...

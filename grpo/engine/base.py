"""The protocol between the trainer and whatever computes gradients.

An engine has token-sum semantics: it adds up what the loss function returns over micro-batches and normalises nothing
itself. All GRPO arithmetic stays with the trainer.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from grpo.segments import Segment

if TYPE_CHECKING:
    from torch import Tensor


@dataclass(slots=True)
class BatchView:
    """What a loss function sees of one micro-batch, aligned token for token (shape ``T``), row after row.

    ``action_counts_B`` holds the number of action tokens of each row; ``reference_logprobs_T`` the log-probabilities
    without the adapter, where they were asked for.
    """

    logprobs_T: Tensor
    sampler_logprobs_T: Tensor
    advantages_T: Tensor
    entropy_T: Tensor
    action_counts_B: Tensor
    reference_logprobs_T: Tensor | None = None

    @property
    def rows(self) -> int:
        """How many rows there are."""
        return len(self.action_counts_B)


LossFunction = Callable[[BatchView], "Tensor"]


class Engine(Protocol):
    """Trains one LoRA policy."""

    def forward_backward(
        self, segments: Sequence[Segment], loss_function: LossFunction, *, with_reference: bool = False
    ) -> float:
        """Accumulate gradients over ``segments``; returns the summed loss.

        Args:
            segments: Rows in any order.
            loss_function: Called once for each micro-batch.
            with_reference: Compute the log-probabilities of the model without its adapter as well.
        """
        ...

    def logprobs(self, segments: Sequence[Segment]) -> list[list[float]]:
        """Log-probabilities of each segment's action tokens, without gradient."""
        ...

    def optim_step(self, learning_rate: float, max_grad_norm: float) -> float:
        """Clip, step and clear gradients; returns the gradient norm before clipping."""
        ...

    def save_adapter(self, folder: Path) -> None:
        """Write the policy in PEFT's format."""
        ...

    def save_state(self, folder: Path) -> None:
        """Write the adapter, the optimizer and the random state."""
        ...

    def load_state(self, folder: Path) -> None:
        """Continue from what ``save_state`` wrote."""
        ...

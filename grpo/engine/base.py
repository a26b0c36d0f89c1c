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
    """What a loss function sees of one micro-batch, aligned token for token (shape ``T``)."""

    logprobs_T: Tensor
    sampler_logprobs_T: Tensor
    advantages_T: Tensor
    entropy_T: Tensor
    rows: int


LossFunction = Callable[[BatchView], "Tensor"]


class Engine(Protocol):
    """Trains one LoRA policy."""

    def forward_backward(self, segments: Sequence[Segment], loss_function: LossFunction) -> float:
        """Accumulate gradients over ``segments``; returns the summed loss."""
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

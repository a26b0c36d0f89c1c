"""The gated activation of an MLP, keeping for its gradient the two inputs alone.

Written as two operations it keeps ``silu(gate)`` besides, which is an eighth of what a forward pass keeps (in
SmolLM2-135M 1,536 of about 13,000 values a token and layer). Here it is computed again in backward: one pass over the
values. Values and gradients are those of the two operations. ``learner.kernels`` turns it off.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor


class GatedActivation(torch.autograd.Function):
    """``silu(gate) * up``, elementwise (SwiGLU without its projections, arXiv 2002.05202, eq. 5)."""

    @staticmethod
    def forward(ctx, gate: Tensor, up: Tensor):  # type: ignore[override]
        """Keeps both inputs."""
        ctx.save_for_backward(gate, up)
        return torch.nn.functional.silu(gate).mul_(up)

    @staticmethod
    def backward(ctx, grad: Tensor):  # type: ignore[override]
        """Product rule; ``silu(gate)`` is computed again."""
        gate, up = ctx.saved_tensors
        grad_gate = torch.ops.aten.silu_backward(grad * up, gate)
        return grad_gate, torch.nn.functional.silu(gate).mul_(grad)


def fuse_gates(model: Any) -> int:
    """Give every MLP of ``down(silu(gate(x)) * up(x))`` this activation; returns how many there are."""
    from transformers.activations import ACT2FN

    silu = type(ACT2FN["silu"])
    count = 0
    for mlp in model.modules():
        if isinstance(getattr(mlp, "act_fn", None), silu) and hasattr(mlp, "gate_proj") and hasattr(mlp, "up_proj"):
            mlp.forward = _gated_forward(mlp)
            count += 1
    return count


def _gated_forward(mlp: Any) -> Any:
    def forward(x: Tensor) -> Tensor:
        return mlp.down_proj(GatedActivation.apply(mlp.gate_proj(x), mlp.up_proj(x)))

    return forward

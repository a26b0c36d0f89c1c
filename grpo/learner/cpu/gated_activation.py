"""The gated activation of an MLP with the fused projection behind it, keeping for its gradient the two inputs alone.

Written as two operations it keeps ``silu(gate)`` besides, and the projection behind it keeps their product: each is an
eighth of what a forward pass keeps (in SmolLM2-135M 1,536 of about 13,000 values a token and layer). Here both are
computed again in backward: two passes over the values. Values and gradients are those of the two operations, up to
rounding. It is used where the projection is one of ``fused_lora``; `LocalEngine` can do without it.
"""

from typing import Any

import torch
from torch import Tensor

from grpo.learner.cpu.fused_lora import cast, fused_parts, input_gradient, lora_product


class GatedLoraLinear(torch.autograd.Function):
    """``FusedLoraLinear`` of ``silu(gate) * up`` (SwiGLU, arXiv 2002.05202, eq. 5); gate and up are ``(..., in)``."""

    @staticmethod
    def forward(  # type: ignore[override]
        ctx, gate: Tensor, up: Tensor, weight: Tensor, bias: Tensor | None, a: Tensor, b: Tensor, scale: float
    ):
        """Keeps gate and up, and of the product what the adapter makes of it."""
        a_RI, b_OR = cast(a, b, scale, weight)
        product = torch.nn.functional.silu(gate).mul_(up)
        h_TR, y_TO = lora_product(product.view(-1, product.shape[-1]), weight, bias, a_RI, b_OR)
        ctx.save_for_backward(gate, up, h_TR, weight, a_RI, b_OR)
        ctx.scale = scale
        return y_TO.view(*gate.shape[:-1], weight.shape[0])

    @staticmethod
    def backward(ctx, grad: Tensor):  # type: ignore[override]
        """Gradients of gate, up, A and B."""
        gate, up, h_TR, weight, a_RI, b_OR = ctx.saved_tensors
        g_TO = grad.reshape(-1, grad.shape[-1])
        gh_TR = g_TO @ b_OR
        grad_product = input_gradient(g_TO, gh_TR, weight, a_RI).view_as(gate)
        activated = torch.nn.functional.silu(gate)
        grad_a = gh_TR.T @ (activated * up).view(-1, gate.shape[-1])
        grad_up = activated.mul_(grad_product)
        grad_gate = torch.ops.aten.silu_backward(grad_product.mul_(up), gate)
        return grad_gate, grad_up, None, None, grad_a.float(), (g_TO.T @ h_TR).float() * ctx.scale, None


def fuse_gates(model: Any) -> None:
    """Give every MLP of ``down(silu(gate(x)) * up(x))`` this activation."""
    from transformers.activations import ACT2FN

    silu = type(ACT2FN["silu"])
    for mlp in model.modules():
        if isinstance(getattr(mlp, "act_fn", None), silu) and hasattr(mlp, "gate_proj") and hasattr(mlp, "up_proj"):
            mlp.forward = _gated_forward(mlp)


def _gated_forward(mlp: Any) -> Any:
    plain = mlp.forward

    def forward(x: Tensor) -> Tensor:
        parts = fused_parts(mlp.down_proj)
        if parts is None:
            return plain(x)
        return GatedLoraLinear.apply(mlp.gate_proj(x), mlp.up_proj(x), *parts)  # type: ignore[no-any-return]

    return forward

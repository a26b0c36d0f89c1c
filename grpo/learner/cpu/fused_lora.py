"""LoRA linears as one autograd function each, in the base model's dtype, without autocast's casts and copies.

peft computes ``base(x) + B(A(x)) * scale`` with separate kernels for the scaling, the sum and their gradients, each
over a full-sized activation. Here the update is accumulated into the base product by ``addmm``, both ways.
The learner is 1.04 times as fast with it in float32 (Xeon with AVX-512, ``scripts/bench_learner``, November 2026).
``learner.kernels`` turns it off. Values and gradients are peft's up to rounding (arXiv 2106.09685, eq. 3); the
parameters stay peft's own float32 ones.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor


class FusedLoraLinear(torch.autograd.Function):
    """``y = x W^T + bias + (x A^T)(scale B)^T`` with W and bias (Qwen2.5 has one at q, k and v) frozen.

    Shapes: x ``(..., in)``, W ``(out, in)``, bias ``(out)`` or none, A ``(r, in)``, B ``(out, r)``.
    """

    @staticmethod
    def forward(  # type: ignore[override]
        ctx, x: Tensor, weight: Tensor, bias: Tensor | None, a: Tensor, b: Tensor, scale: float
    ):
        """Forward in ``weight``'s dtype."""
        x_TI = x.reshape(-1, x.shape[-1]).to(weight.dtype)
        a_RI, b_OR = a.to(weight.dtype), (b * scale).to(weight.dtype)
        h_TR = x_TI @ a_RI.T
        y_TO = torch.addmm(torch.nn.functional.linear(x_TI, weight, bias), h_TR, b_OR.T)
        ctx.save_for_backward(x_TI, h_TR, weight, a_RI, b_OR)
        ctx.scale, ctx.shape = scale, x.shape
        return y_TO.view(*x.shape[:-1], weight.shape[0])

    @staticmethod
    def backward(ctx, grad: Tensor):  # type: ignore[override]
        """Gradients of x, A and B."""
        x_TI, h_TR, weight, a_RI, b_OR = ctx.saved_tensors
        g_TO = grad.reshape(-1, grad.shape[-1])
        gh_TR = g_TO @ b_OR
        grad_x = None
        if ctx.needs_input_grad[0]:
            grad_x = torch.addmm(g_TO @ weight, gh_TR, a_RI).view(ctx.shape)
        grad_a = (gh_TR.T @ x_TI).float()
        grad_b = (g_TO.T @ h_TR).float() * ctx.scale
        return grad_x, None, None, grad_a, grad_b, None


def fuse_lora(model: Any, adapter: str = "default") -> int:
    """Give every plain LoRA linear of a peft model the fused forward; returns how many there are.

    Layers with dropout, DoRA or more than the one adapter keep peft's own forward.
    """
    from peft.tuners.lora import Linear

    count = 0
    for layer in model.modules():
        if not isinstance(layer, Linear) or adapter not in layer.lora_A:
            continue
        plain = isinstance(layer.lora_dropout[adapter], torch.nn.Identity) and not layer.use_dora[adapter]
        if plain and len(layer.lora_A) == 1:
            layer.forward = _fused_forward(layer, adapter)
            count += 1
    return count


def _fused_forward(layer: Any, adapter: str) -> Any:
    """Parameters are looked up at every call: under ``fully_shard`` they are others each time."""
    peft_forward, base = layer.forward, layer.base_layer
    lora_a, lora_b, scale = layer.lora_A[adapter], layer.lora_B[adapter], layer.scaling[adapter]

    def forward(x: Tensor, *args: Any, **kwargs: Any) -> Tensor:
        if layer.disable_adapters or layer.merged or args or kwargs:
            return peft_forward(x, *args, **kwargs)
        return FusedLoraLinear.apply(x, base.weight, base.bias, lora_a.weight, lora_b.weight, scale)  # type: ignore[no-any-return]

    return forward

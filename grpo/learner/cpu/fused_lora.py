"""LoRA linears as one autograd function each, in the base model's dtype, without autocast's casts and copies.

peft computes ``base(x) + B(A(x)) * scale`` with separate kernels for the scaling, the sum and their gradients, each
over a full-sized activation. Here the update is accumulated into the base product by ``addmm``, both ways.
The learner is 1.04 times as fast with it in float32 (Xeon with AVX-512, ``scripts/bench_learner``, November 2026).
`LocalEngine` can do without it. Values and gradients are peft's up to rounding (arXiv 2106.09685, eq. 3); the
parameters stay peft's own float32 ones.
"""

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
        a_RI, b_OR = cast(a, b, scale, weight)
        h_TR, y_TO = lora_product(x_TI, weight, bias, a_RI, b_OR)
        ctx.save_for_backward(x_TI, h_TR, weight, a_RI, b_OR)
        ctx.scale, ctx.shape = scale, x.shape
        return y_TO.view(*x.shape[:-1], weight.shape[0])

    @staticmethod
    def backward(ctx, grad: Tensor):  # type: ignore[override]
        """Gradients of x, A and B."""
        x_TI, h_TR, weight, a_RI, b_OR = ctx.saved_tensors
        g_TO = grad.reshape(-1, grad.shape[-1])
        gh_TR = g_TO @ b_OR
        grad_x = input_gradient(g_TO, gh_TR, weight, a_RI).view(ctx.shape) if ctx.needs_input_grad[0] else None
        return grad_x, None, None, (gh_TR.T @ x_TI).float(), (g_TO.T @ h_TR).float() * ctx.scale, None


def cast(a: Tensor, b: Tensor, scale: float, weight: Tensor) -> tuple[Tensor, Tensor]:
    """The adapter in the dtype of W, with its scale in B."""
    return a.to(weight.dtype), (b * scale).to(weight.dtype)


def lora_product(
    x_TI: Tensor, weight: Tensor, bias: Tensor | None, a_RI: Tensor, b_OR: Tensor
) -> tuple[Tensor, Tensor]:
    """``x A^T``, which backward needs again, and the layer's output."""
    h_TR = x_TI @ a_RI.T
    return h_TR, torch.nn.functional.linear(x_TI, weight, bias).addmm_(h_TR, b_OR.T)


def input_gradient(g_TO: Tensor, gh_TR: Tensor, weight: Tensor, a_RI: Tensor) -> Tensor:
    """The gradient of x, from those of the output and of ``x A^T``."""
    return (g_TO @ weight).addmm_(gh_TR, a_RI)


def fuse_lora(model: Any) -> None:
    """Give every LoRA linear of a peft model the fused forward. It is in eval mode, so there is no dropout."""
    from peft.tuners.lora import Linear

    for layer in model.modules():
        if isinstance(layer, Linear):
            layer.forward = _fused_forward(layer)


def fused_parts(layer: Any) -> tuple[Tensor, Tensor | None, Tensor, Tensor, float] | None:
    """W, bias, A, B and scale of a layer that ``fuse_lora`` fused; None while its adapter is off or merged.

    They are looked up at every call: under ``fully_shard`` they are others each time.
    """
    if "forward" not in vars(layer) or layer.disable_adapters or layer.merged:
        return None
    base, lora_a, lora_b = layer.base_layer, layer.lora_A["default"], layer.lora_B["default"]
    return base.weight, base.bias, lora_a.weight, lora_b.weight, layer.scaling["default"]


def _fused_forward(layer: Any) -> Any:
    peft_forward = layer.forward

    def forward(x: Tensor, *args: Any, **kwargs: Any) -> Tensor:
        parts = fused_parts(layer)
        if parts is None or args or kwargs:
            return peft_forward(x, *args, **kwargs)
        return FusedLoraLinear.apply(x, *parts)  # type: ignore[no-any-return]

    return forward

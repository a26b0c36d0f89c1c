"""RMSNorm that keeps its input as it came and one number a token, with a hand-written backward.

transformers computes it in float32, operation by operation: of a bfloat16 input autograd keeps a float32 copy, which
for the two norms of a layer is a fifth of what a forward pass keeps (SmolLM2-135M: 4.6 of 23 kB a token and layer), and
its backward is a dozen passes over it. Here float32 lives within the norm alone. Values are those of transformers,
gradients too, up to rounding. `LocalEngine` can do without it.

    y = w * x / sqrt(mean(x^2) + eps)       (RMSNorm, arXiv 1910.07467, eq. 4)

Shapes: x and y ``(..., D)``, w ``(D)``, frozen.
"""

from inspect import signature
from typing import Any

import torch
from torch import Tensor


class RmsNorm(torch.autograd.Function):
    """``(x, w, eps) -> y`` in the dtype of x; w has no gradient."""

    @staticmethod
    def forward(ctx, x: Tensor, weight: Tensor, eps: float):  # type: ignore[override]
        """Keeps x and ``1 / sqrt(mean(x^2) + eps)``, ``(..., 1)`` in float32."""
        inverse = x.float().square().mean(-1, keepdim=True).add_(eps).rsqrt_()
        ctx.save_for_backward(x, weight, inverse)
        return (x * inverse).to(x.dtype).mul_(weight)

    @staticmethod
    def backward(ctx, grad: Tensor):  # type: ignore[override]
        """With n = x * inverse and g = w * grad: ``inverse * (g - n * mean(g * n))``."""
        x, weight, inverse = ctx.saved_tensors
        normed = x * inverse
        scaled = (grad * weight) * inverse
        mean = (scaled * normed).mean(-1, keepdim=True)
        return scaled.addcmul_(normed, mean, value=-1.0).to(x.dtype), None, None


def fuse_norms(model: Any) -> None:
    """Give every norm that computes this, and is frozen, this form of it.

    Whether it does is tried out: norms of other models add one to their weights, or round elsewhere.
    """
    for module in model.modules():
        weight, eps = getattr(module, "weight", None), getattr(module, "variance_epsilon", None)
        if isinstance(weight, Tensor) and weight.ndim == 1 and isinstance(eps, float) and not weight.requires_grad:
            if len(signature(module.forward).parameters) > 1:  # those of state layers have a gate
                continue
            x = torch.linspace(-2.0, 3.0, 2 * len(weight), device=weight.device).view(2, -1).to(weight.dtype)
            with torch.no_grad():
                is_it = torch.allclose(module(x).float(), RmsNorm.apply(x, weight, eps).float(), rtol=1e-2, atol=1e-5)
            if is_it:
                module.forward = _fused_forward(module)


def _fused_forward(norm: Any) -> Any:
    """The weight is looked up at every call: under ``fully_shard`` it is another each time."""
    return lambda x: RmsNorm.apply(x, norm.weight, norm.variance_epsilon)

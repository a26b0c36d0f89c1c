"""vLLM's own kernels for norms and rotary embeddings, which it leaves unused on the CPU where LoRA is on.

With LoRA vLLM does not compile a model on the CPU, but still takes the "native" forms that are meant for a compiler:
chains of torch operations that each read and write the whole batch. For 2,560 rows of 576 numbers such a norm takes 13
to 26 ms, and vLLM's kernel 0.2 ms. This part of the plugin enters the kernels in vLLM's table of implementations, puts
them first, and switches the kernel for rotary embeddings on.

SwiGLU keeps its native form: vLLM's kernel for it computes one exponential at a time, and is slower.

Sources: RMSNorm, arXiv 1910.07467, eq. 4; rotary embeddings, arXiv 2104.09864, eq. 34.
"""

from typing import Any

import torch

PROVIDER = "grpo_cpu"
"""Our name in vLLM's table of implementations."""

_NORMS = ("rms_norm", "fused_add_rms_norm")
_ROTARY = "rotary_embedding"


def install_kernels(ops: Any, platform: Any, kernels: Any) -> None:
    """Use the kernels.

    Args:
        ops: vLLM's module ``vllm.ir.ops``.
        platform: vLLM's class ``CpuPlatform``.
        kernels: ``torch.ops._C``, vLLM's compiled kernels.
    """

    @ops.rms_norm.register_impl(PROVIDER, supports_args=_takes)
    def rms_norm(
        x: torch.Tensor, weight: torch.Tensor | None, epsilon: float, variance_size: int | None = None
    ) -> torch.Tensor:
        out = torch.empty_like(x)
        kernels.rms_norm(out, x, weight, epsilon)
        return out

    @ops.fused_add_rms_norm.register_impl(PROVIDER, supports_args=_takes_residual, inplace=True)
    def fused_add_rms_norm(
        x: torch.Tensor,
        x_residual: torch.Tensor,
        weight: torch.Tensor | None,
        epsilon: float,
        variance_size: int | None = None,
    ) -> tuple[torch.Tensor, torch.Tensor]:
        kernels.fused_add_rms_norm(x, x_residual, weight, epsilon)
        return x, x_residual

    priority_of_vllm = platform.get_default_ir_op_priority
    check_of_vllm = platform.check_and_update_config

    def get_default_ir_op_priority(vllm_config: Any) -> Any:
        priority = priority_of_vllm(vllm_config)
        for name in _NORMS:
            setattr(priority, name, [PROVIDER, *getattr(priority, name)])
        return priority

    def check_and_update_config(vllm_config: Any) -> None:
        check_of_vllm(vllm_config)
        custom_ops = vllm_config.compilation_config.custom_ops
        if not {"all", f"+{_ROTARY}", f"-{_ROTARY}"} & set(custom_ops):
            custom_ops.append(f"+{_ROTARY}")

    platform.get_default_ir_op_priority = staticmethod(get_default_ir_op_priority)
    platform.check_and_update_config = staticmethod(check_and_update_config)


def install_rotary(embedding: Any) -> None:
    """Give the rotary kernel rows of all heads: of a query whose heads are apart (LFM2) it would take them for tokens.

    Args:
        embedding: vLLM's class ``RotaryEmbedding``.
    """
    kernel = embedding.forward_cpu

    def forward_cpu(
        self: Any, positions: torch.Tensor, query: torch.Tensor, key: torch.Tensor | None = None
    ) -> tuple[torch.Tensor, torch.Tensor | None]:
        turned, turned_key = kernel(self, positions, query.flatten(1), None if key is None else key.flatten(1))
        return turned.view_as(query), None if key is None else turned_key.view_as(key)

    embedding.forward_cpu = forward_cpu


def _takes(x: torch.Tensor, weight: torch.Tensor | None, epsilon: float, variance_size: int | None = None) -> bool:
    """Whether the kernel takes these arguments; vLLM's native form takes all."""
    return variance_size is None and weight is not None and weight.dtype == x.dtype and x.is_contiguous()


def _takes_residual(
    x: torch.Tensor,
    x_residual: torch.Tensor,
    weight: torch.Tensor | None,
    epsilon: float,
    variance_size: int | None = None,
) -> bool:
    return _takes(x, weight, epsilon, variance_size) and x_residual.dtype == x.dtype and x_residual.is_contiguous()

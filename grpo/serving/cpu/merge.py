"""Merged adapters for vLLM on the CPU: while all rows of a batch use one adapter, its layers cost what the base's do.

``cpu.lora`` installs this part of the plugin. A layer computes x (W + B A)^T with one matrix product instead of
W x and the adapter's small ones. The weights are merged once for each version, after ``MERGE_AFTER_TOKENS`` tokens of
batches that used it alone. Batches that mix adapters, or an adapter and the base model, keep the unmerged form. One
merged copy of the linear layers is kept, that of the adapter that was last alone.

The sum is made in float32 and rounded to the dtype that vLLM computes in. In bfloat16 that changes a merged weight by
at most 2^-9 of its size, which is as much as each activation is rounded by. vLLM packs the weights of a layer and drops
them, so they are kept here too, in bfloat16 where nothing is lost by that (models are usually published in it).

Source: LoRA, arXiv 2106.09685, section 4.1 ("no additional inference latency").
"""

import functools
import logging
from typing import Any

import torch

_LOGGER = logging.getLogger("vllm.grpo_cpu_merge")  # below "vllm", whose handler writes to the server's log

MERGE_AFTER_TOKENS = 1024
"""Merging costs as much as serving a few hundred tokens unmerged."""


def install_merge(linear_layer: Any, linear_method: Any) -> None:
    """Let linear layers with LoRA use merged weights.

    Args:
        linear_layer: vLLM's ``BaseLinearLayerWithLoRA``.
        linear_method: vLLM's ``UnquantizedLinearMethod``.
    """
    apply_unmerged, reset, process = (
        linear_layer._apply_sync,
        linear_layer.reset_lora,
        linear_method.process_weights_after_loading,
    )

    def apply(self: Any, x: torch.Tensor, bias: torch.Tensor | None = None) -> torch.Tensor:
        slot = self.punica_wrapper.grpo_merged_slot
        weight = getattr(self.base_layer, "grpo_weight", None)
        if slot is None or weight is None:
            return apply_unmerged(self, x, bias)
        kept = getattr(self, "grpo_merged", None)
        if kept is None or kept[0] != slot:
            _say_so()
            self.grpo_merged = None  # two copies at once would be one too many
            merged = merged_weight(weight, self.lora_a_stacked, self.lora_b_stacked, slot)
            self.grpo_merged = kept = slot, packed(merged.to(x.dtype))
        return kept[1](x, bias)

    def reset_lora(self: Any, index: int) -> None:
        kept = getattr(self, "grpo_merged", None)
        if kept is not None and kept[0] == index:
            self.grpo_merged = None
        reset(self, index)

    def process_weights_after_loading(self: Any, layer: Any) -> None:
        weight = layer.weight.data
        process(self, layer)
        if weight.dtype in (torch.float32, torch.bfloat16) and weight.ndim == 2 and _has_lora():
            layer.grpo_weight = compact(weight)

    linear_layer._apply_sync = apply
    linear_layer.reset_lora = reset_lora
    linear_method.process_weights_after_loading = process_weights_after_loading


class Tally:
    """Says which adapter's weights are to be merged."""

    def __init__(self) -> None:
        self._slot = -1
        self._tokens = 0

    def slot(self, plan: list[tuple[int, torch.Tensor | None]], num_tokens: int) -> int | None:
        """The slot whose merged weights serve a batch, or None for the unmerged form.

        Args:
            plan: The batch's slots and their rows, as ``cpu.lora.plan_rows`` gives them.
            num_tokens: Rows of the batch.
        """
        if len(plan) != 1 or plan[0][1] is not None:
            return None
        if plan[0][0] != self._slot:
            self._slot, self._tokens = plan[0][0], 0
        self._tokens += num_tokens
        return self._slot if self._tokens >= MERGE_AFTER_TOKENS else None


def compact(weight: torch.Tensor) -> torch.Tensor:
    """The same values in bfloat16 if that loses nothing, else the tensor itself."""
    half = weight.to(torch.bfloat16)
    return half if torch.equal(half.to(weight.dtype), weight) else weight


def merged_weight(
    weight: torch.Tensor, lora_a_stacked: tuple[torch.Tensor, ...], lora_b_stacked: tuple[torch.Tensor, ...], slot: int
) -> torch.Tensor:
    """W + B A in float32, slice by slice.

    Args:
        weight: W, (out, in).
        lora_a_stacked: One (slots, 1, rank, in) for each slice of the output.
        lora_b_stacked: One (slots, 1, width of the slice, rank) for each slice; alpha / rank is in it.
        slot: The adapter's.
    """
    merged = weight.to(torch.float32, copy=True)
    start = 0
    for lora_a, lora_b in zip(lora_a_stacked, lora_b_stacked, strict=True):
        a, b = lora_a[slot, 0].float(), lora_b[slot, 0].float()
        merged[start : start + len(b)].addmm_(b, a)
        start += len(b)
    return merged


def packed(weight: torch.Tensor) -> Any:
    """A function of x and bias that multiplies with ``weight`` (out, in), packed by vLLM as it packs its own."""
    from vllm.model_executor.layers.utils import dispatch_cpu_unquantized_gemm

    layer: Any = torch.nn.Module()
    layer.weight = torch.nn.Parameter(weight, requires_grad=False)
    dispatch_cpu_unquantized_gemm(layer, remove_weight=True)
    return lambda x, bias: layer.cpu_linear(x, layer.weight, bias)


@functools.cache
def _say_so() -> None:
    _LOGGER.info("An adapter is alone in its batches; its weights are merged, as those of later ones will be.")


def _has_lora() -> bool:
    from vllm.config import get_current_vllm_config

    return get_current_vllm_config().lora_config is not None

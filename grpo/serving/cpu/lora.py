"""A vLLM plugin that serves LoRA adapters fast and right on vLLM's CPU backend.

vLLM's CPU wrapper gathers one copy of A and B for every token of a batch, which makes decoding about nine times slower
than it has to be. In a batch that mixes adapters with the base model it also treats the base model's index, -1, as "the
last slot", so requests for the base model get somebody's adapter. This plugin replaces the two methods concerned: one
pair of matrix products for each adapter that a batch uses, and nothing for rows of the base model. Its other parts
merge the weights of an adapter that is alone (``cpu.merge``), sample with less work (``cpu.sampler``), keep
guessed tokens that are sampled anyway (``cpu.verifier``), use kernels of vLLM's that lie idle
(``cpu.kernels``) and count a container's free memory (``cpu.memory``).

vLLM finds it through the entry-point group ``vllm.general_plugins`` and calls ``register`` in each of its processes. It
acts on the CPU backend alone, and only while the wrapper is the one described above (``why_not``); otherwise it says
so in the log and leaves vLLM alone. It does not touch the sharded (tensor-parallel) and the embedding paths.

Sources: LoRA, arXiv 2106.09685, eq. 3; the batched form, Punica, arXiv 2310.18547, section 4.
"""

from __future__ import annotations

import inspect
import logging
from collections.abc import Callable
from types import ModuleType
from typing import Any

import torch
from torch.nn.functional import linear

from grpo.serving.cpu.kernels import install_kernels, why_not_kernels
from grpo.serving.cpu.memory import install_count, why_not_count
from grpo.serving.cpu.merge import Tally, install_merge, why_not_merge
from grpo.serving.cpu.sampler import install_sampler, why_not_sample
from grpo.serving.cpu.verifier import install_verifier, why_not_verify

Plan = list[tuple[int, "torch.Tensor | None"]]
"""For each adapter slot of a batch: the slot and its rows (a 1-D index tensor), or None for all rows."""

_LOGGER = logging.getLogger("vllm.grpo_cpu_lora")  # below "vllm", whose handler writes to the server's log
_LINEAR_PARAMETERS = [
    "self", "y", "x", "lora_a_stacked", "lora_b_stacked", "scale", "output_slices", "buffer", "kwargs",
]  # fmt: skip
_LOGITS_PARAMETERS = ["self", "y", "x", "lora_a_stacked", "lora_b_stacked", "scale", "buffer", "kwargs"]


def register() -> None:
    """Entry point for vLLM: repair its CPU wrapper, once in each process, or say in the log why not."""
    from vllm.platforms import current_platform

    if not current_platform.is_cpu():
        return
    from vllm.lora.punica_wrapper import punica_cpu

    reason = why_not(punica_cpu)
    if reason:
        _LOGGER.warning("grpo's LoRA plugin for the CPU is off: %s.", reason)
        return
    install(punica_cpu.PunicaWrapperCPU)
    _LOGGER.info("grpo's LoRA plugin for the CPU is on: one matrix product per active adapter.")
    _register_other_parts()


def _register_other_parts() -> None:
    from vllm.ir import ops as vllm_ops
    from vllm.lora.layers.base_linear import BaseLinearLayerWithLoRA
    from vllm.model_executor.layers.linear import UnquantizedLinearMethod
    from vllm.platforms import current_platform
    from vllm.v1 import outputs
    from vllm.v1.sample.ops.topk_topp_sampler import TopKTopPSampler
    from vllm.v1.sample.rejection_sampler import RejectionSampler
    from vllm.v1.worker import cpu_worker

    current_platform.import_kernels()
    layers, kernels = (
        (BaseLinearLayerWithLoRA, UnquantizedLinearMethod),
        (vllm_ops, type(current_platform), torch.ops._C),
    )
    _install(why_not_merge(*layers), "merges no weights", lambda: install_merge(*layers))
    _install(why_not_sample(TopKTopPSampler), "leaves vLLM's sampler alone", lambda: install_sampler(TopKTopPSampler))
    _install(
        why_not_verify(RejectionSampler),
        "leaves vLLM's rejection sampling alone",
        lambda: install_verifier(RejectionSampler, outputs),
    )
    _install(why_not_count(cpu_worker), "leaves vLLM's count of free memory alone", lambda: install_count(cpu_worker))
    _install(why_not_kernels(*kernels), "leaves vLLM's kernels for norms unused", lambda: install_kernels(*kernels))


def _install(reason: str, otherwise: str, part: Callable[[], object]) -> None:
    """Install a part where there is no reason against it; else the log says what the plugin does otherwise, and why."""
    if reason:
        _LOGGER.warning("grpo's LoRA plugin for the CPU %s: %s.", otherwise, reason)
    else:
        part()


def why_not(punica_cpu: ModuleType) -> str:
    """Say why vLLM's CPU wrapper should be left alone; an empty string means that it needs the repair.

    Args:
        punica_cpu: vLLM's module ``vllm.lora.punica_wrapper.punica_cpu``.
    """
    wrapper = getattr(punica_cpu, "PunicaWrapperCPU", None)
    if wrapper is None:
        return "this vLLM has no PunicaWrapperCPU"
    if getattr(wrapper, "_grpo_installed", False):
        return "it is installed already"
    if "update_metadata" in vars(wrapper) or not callable(getattr(wrapper, "update_metadata", None)):
        return "this vLLM prepares a batch in another way"
    for name, expected in (("add_lora_linear", _LINEAR_PARAMETERS), ("add_lora_logits", _LOGITS_PARAMETERS)):
        seen = list(inspect.signature(getattr(wrapper, name, lambda: None)).parameters)
        if seen != expected:
            return f"{name} takes {seen}, not {expected}"
    if not hasattr(punica_cpu, "bgmv_shrink"):
        return "this vLLM no longer gathers weights per token"
    return ""


def install(wrapper: Any) -> None:
    """Replace the methods of vLLM's class ``PunicaWrapperCPU`` (or of a class like it) by the ones of this module."""
    prepare = wrapper.update_metadata

    def update_metadata(self: Any, *args: Any, **kwargs: Any) -> None:
        prepare(self, *args, **kwargs)
        if self.grpo_tally is None:
            self.grpo_tally = Tally()
        self.grpo_token_plan = plan_rows(self.token_lora_indices)
        self.grpo_sampler_plan = plan_rows(self.sampler_indices)
        self.grpo_merged_slot = self.grpo_tally.slot(self.grpo_token_plan, len(self.token_lora_indices))

    wrapper.grpo_tally = wrapper.grpo_merged_slot = None
    wrapper.update_metadata = update_metadata
    wrapper.add_lora_linear = add_lora_linear
    wrapper.add_lora_logits = add_lora_logits
    wrapper._grpo_installed = True


def plan_rows(slots_T: torch.Tensor) -> Plan:
    """Group the rows of a batch by adapter slot; rows of the base model (slot -1) appear nowhere.

    Args:
        slots_T: Slot of each row, int64.
    """
    slots = torch.unique(slots_T).tolist()
    if len(slots) == 1:
        return [(slots[0], None)] if slots[0] >= 0 else []
    return [(slot, (slots_T == slot).nonzero().squeeze(1)) for slot in slots if slot >= 0]


def add_lora_linear(
    self: Any,
    y: torch.Tensor,
    x: torch.Tensor,
    lora_a_stacked: tuple[torch.Tensor, ...],
    lora_b_stacked: tuple[torch.Tensor, ...],
    scale: float,
    output_slices: tuple[int, ...],
    *,
    buffer: tuple[torch.Tensor, ...] | None = None,
    **kwargs: Any,
) -> None:
    """Add each row's adapter to the output of a linear layer, in place: y += scale * B (A x).

    Args:
        self: The wrapper, prepared by ``update_metadata``.
        y: Output of the base layer, (T, sum of output_slices).
        x: Input of the layer, (T, in).
        lora_a_stacked: One (slots, 1, rank, in) for each slice: one for a plain layer, three for a merged q, k, v.
        lora_b_stacked: One (slots, 1, slice, rank) for each slice.
        scale: Factor of the update; vLLM folds alpha / rank into B and passes 1.
        output_slices: Width of each slice of y.
        buffer: Unused; part of vLLM's signature.
        kwargs: Unused; part of vLLM's signature.
    """
    y_T_out, x_T_in = y.view(-1, y.shape[-1]), x.view(-1, x.shape[-1])
    for slot, rows in self.grpo_token_plan:
        x_rows = x_T_in if rows is None else x_T_in[rows]
        start = 0
        for lora_a, lora_b, width in zip(lora_a_stacked, lora_b_stacked, output_slices, strict=True):
            y_slice = y_T_out[:, start : start + width]
            _add_low_rank(y_slice, rows, x_rows, lora_a[slot, 0], lora_b[slot, 0, :width], scale)
            start += width


def add_lora_logits(
    self: Any,
    y: torch.Tensor,
    x: torch.Tensor,
    lora_a_stacked: torch.Tensor,
    lora_b_stacked: torch.Tensor,
    scale: float,
    *,
    buffer: torch.Tensor | None = None,
    **kwargs: Any,
) -> None:
    """Add each sampled row's adapter to the logits, in place. Shapes as in ``add_lora_linear``, one slice."""
    y_S_vocab, x_S_in = y.view(-1, y.shape[-1]), x.view(-1, x.shape[-1])
    for slot, rows in self.grpo_sampler_plan:
        if not lora_a_stacked[slot].any():
            continue  # most adapters leave the vocabulary projection alone; vLLM serves them zeros for it
        x_rows = x_S_in if rows is None else x_S_in[rows]
        # The adapter and the model may pad the vocabulary differently; the common part is what counts.
        width = min(y_S_vocab.shape[1], lora_b_stacked.shape[-2])
        y_common, b = y_S_vocab[:, :width], lora_b_stacked[slot, 0, :width]
        _add_low_rank(y_common, rows, x_rows, lora_a_stacked[slot, 0], b, scale)


def _add_low_rank(
    y: torch.Tensor, rows: torch.Tensor | None, x_rows: torch.Tensor, a: torch.Tensor, b: torch.Tensor, scale: float
) -> None:
    """Add scale * B (A x) to the given rows of y, in place; ``rows`` None stands for all rows.

    Shapes: y (T, out), rows (R,), x_rows (R, in), a (rank, in), b (out, rank).
    """
    shrunk = linear(x_rows.to(a.dtype), a)
    if rows is not None:
        y.index_add_(0, rows, linear(shrunk, b).to(y.dtype), alpha=scale)
    elif y.dtype == b.dtype:
        y.addmm_(shrunk, b.t(), alpha=scale)  # half the time of a product and a separate sum
    else:
        y.add_(linear(shrunk, b), alpha=scale)

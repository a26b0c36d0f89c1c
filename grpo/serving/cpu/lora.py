"""A vLLM plugin that serves LoRA adapters fast and right on vLLM's CPU backend.

vLLM's CPU wrapper gathers one copy of A and B for every token of a batch, which makes decoding about nine times slower
than it has to be. In a batch that mixes adapters with the base model it also treats the base model's index, -1, as "the
last slot", so requests for the base model get somebody's adapter. This plugin replaces the two methods concerned: one
pair of matrix products for each adapter that a batch uses, and nothing for rows of the base model. Its other parts
merge the weights of an adapter that is alone (``cpu.merge``), sample with less work (``cpu.sampler``), keep
guessed tokens that are sampled anyway (``cpu.verifier``), use kernels of vLLM's that lie idle
(``cpu.kernels``) and count a container's free memory (``cpu.memory``).

vLLM calls ``grpo.serving.vllm_main.register`` in each of its processes, which calls ``register`` here on the CPU alone.
All parts patch private names of one release, ``RELEASE``: a server of a run does not start with another one, and a vLLM
that somebody else starts is then left alone. The sharded (tensor-parallel) and the embedding paths are not touched.

Sources: LoRA, arXiv 2106.09685, eq. 3; the batched form, Punica, arXiv 2310.18547, section 4.
"""

import logging
import os
from typing import Any

import torch
from torch.nn.functional import linear

from grpo.machine.processes import PARENT_VARIABLE
from grpo.serving.cpu.kernels import install_kernels, install_rotary
from grpo.serving.cpu.memory import install_count
from grpo.serving.cpu.merge import Tally, install_merge
from grpo.serving.cpu.sampler import install_sampler
from grpo.serving.cpu.verifier import install_verifier

RELEASE = "0.32.0"
"""Of vLLM, whose private names this room knows."""

Plan = list[tuple[int, "torch.Tensor | None"]]
"""For each adapter slot of a batch: the slot and its rows (a 1-D index tensor), or None for all rows."""

_LOGGER = logging.getLogger("vllm.grpo_cpu_lora")  # below "vllm", whose handler writes to the server's log


def register() -> None:
    """Put every part of this room into the vLLM of this process; a second call does nothing.

    Raises:
        RuntimeError: It is a server of a run, and another release.
    """
    import vllm

    if not is_known(vllm.__version__):
        return
    from vllm.ir import ops as vllm_ops
    from vllm.lora.layers.base_linear import BaseLinearLayerWithLoRA
    from vllm.lora.punica_wrapper.punica_cpu import PunicaWrapperCPU
    from vllm.model_executor.layers.linear import UnquantizedLinearMethod
    from vllm.model_executor.layers.rotary_embedding.base import RotaryEmbedding
    from vllm.platforms import current_platform
    from vllm.v1 import outputs
    from vllm.v1.sample.ops.topk_topp_sampler import TopKTopPSampler
    from vllm.v1.sample.rejection_sampler import RejectionSampler
    from vllm.v1.worker import cpu_worker

    if getattr(PunicaWrapperCPU, "grpo_installed", False):
        return
    current_platform.import_kernels()
    install(PunicaWrapperCPU)
    install_merge(BaseLinearLayerWithLoRA, UnquantizedLinearMethod)
    install_sampler(TopKTopPSampler)
    install_verifier(RejectionSampler, outputs)
    install_count(cpu_worker)
    install_kernels(vllm_ops, type(current_platform), torch.ops._C)
    install_rotary(RotaryEmbedding)
    _LOGGER.info("grpo's LoRA plugin for the CPU is on: one matrix product per active adapter.")


def is_known(version: str) -> bool:
    """Whether this vLLM is the release that the parts were written for.

    Raises:
        RuntimeError: It is not, and serves a run: as it is, it gives requests for the base model an adapter.
    """
    if version.partition("+")[0] == RELEASE:
        return True
    reason = f"grpo.serving.cpu knows vLLM {RELEASE}, and this is {version}"
    if PARENT_VARIABLE in os.environ:
        raise RuntimeError(f"{reason}; on a CPU a run needs that release (scripts/install cpu)")
    _LOGGER.warning("grpo's LoRA plugin for the CPU is off: %s.", reason)
    return False


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
    wrapper.grpo_installed = True


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

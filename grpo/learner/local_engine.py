"""The local engine: a frozen base model with LoRA weights in this process, on CPU or one GPU.

It computes what rows have in common once, and the vocabulary projection for action tokens only. Where a model carries a
state from token to token, or looks back through a window, each row is computed alone, as transformers does.

Freed memory stays with the process between updates. ``malloc_trim(0)`` after an update takes it from 4.3 to 0.9 GB,
but the next update asks the system for all of it again: 17.5 s of CPU instead of 16.1 for an update (four interleaved
pairs). The peak is what a machine must have room for, and it hardly changed (6.2 GB, and 6.6 without). Half the
``token_budget`` lowers the peak: from 6.6 to 4.2 GB with 1,024 tokens, for 9 % more CPU and up to 45 % elsewhere.
Over the steps of a run live tensors do not grow. What grows is oneDNN's kernels, until their cache is full, and the
free pieces of glibc's heap that fit no tensor of the next micro-batch; ``grpo.machine.processes`` makes these fewer.
"""

import io
import math
import os
import platform
from collections.abc import Callable, Collection, Sequence
from copy import copy
from pathlib import Path
from pickle import UnpicklingError
from typing import Any, Literal, get_args

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file

from grpo.config import TrainConfig
from grpo.devices.plan import plan_gpus
from grpo.devices.shape import ModelShape
from grpo.errors import CheckpointError
from grpo.learner.cpu import attention, fused_lora, gated_activation, norm, shared_rows
from grpo.learner.engine import LossSpec, RowStatistics, ignore_progress
from grpo.learner.load_check import check_computing
from grpo.learner.lora_model import (
    LoraSpec,
    WaitingWeights,
    adapter_weights,
    explained_where_full,
    load_lora_model,
    usable_device,
)
from grpo.learner.loss import ActionTokens, SelectedLogprobs, token_losses
from grpo.learner.segments import Segment, micro_batches
from grpo.machine.probe import computing_dtype
from grpo.machine.processes import torchrun_rank

LOGIT_CHUNK_TOKENS = 128
"""Action tokens whose logits are there at once: 12 MB (bfloat16, 49,152 ids), which are used again for the next ones.
``scripts/bench_learner`` has a form with 512, too."""
ALLOCATOR_VARIABLES = frozenset({"PYTORCH_ALLOC_CONF", "PYTORCH_CUDA_ALLOC_CONF"})
"""By which a user sets torch's allocator on GPUs."""
STATE_FILE = "engine.pt"
WEIGHTS_FILE = "adapter_model.safetensors"

Kernel = Literal["shared_rows", "attention", "fused_lora", "gated_activation", "norm"]
KERNELS: tuple[Kernel, ...] = get_args(Kernel)
"""The fast paths, named after their modules in ``grpo.learner.cpu``."""


def engine_options(config: TrainConfig, model_path: Path, init_adapter: Path | None) -> dict[str, Any]:
    """What a run's settings say of a ``LocalEngine``, but its model; on a GPU, its part of the plan."""
    dtype = computing_dtype(config.dtype, config.device, model_path).dtype
    plan = plan_gpus(config, ModelShape.read(model_path)) if config.device == "cuda" else None
    here = torchrun_rank()
    return {
        "lora": LoraSpec(config.lora.rank, config.lora.alpha),
        "seed": config.seed,
        "device": plan.learner_devices[here.local_rank if here else 0] if plan else config.device,
        "dtype": dtype,
        "threads": config.threads,
        "token_budget": config.learner.token_budget,
        "init_adapter": init_adapter,
        "gradient_checkpointing": plan.gradient_checkpointing
        if plan
        else config.learner.gradient_checkpointing is True,
        "logit_chunk_tokens": plan.logit_chunk_tokens if plan else LOGIT_CHUNK_TOKENS,
        "sleeps": plan is not None and plan.in_turns,
        "longest_row": config.rollout.max_tokens,
    }


class LocalEngine:
    """One process, one LoRA policy, AdamW."""

    @explained_where_full()
    def __init__(
        self,
        model_path: Path,
        lora: LoraSpec,
        *,
        seed: int,
        device: str = "cpu",
        dtype: str = "float32",
        threads: int | None = None,
        token_budget: int = 4096,
        init_adapter: Path | None = None,
        kernels: Collection[Kernel] = KERNELS,
        gradient_checkpointing: bool = False,
        logit_chunk_tokens: int = LOGIT_CHUNK_TOKENS,
        sleeps: bool = False,
        longest_row: int | None = None,
    ):
        """Load a model, and try whether it is computed as it is served (`load_check`).

        Args:
            model_path: Folder of the base model.
            lora: Of a new adapter.
            seed: Of a new adapter's weights.
            device: ``cpu``, ``cuda`` or ``cuda:1``.
            dtype: Of the base model: ``float32`` or ``bfloat16``.
            threads: CPU threads; None leaves torch's own number.
            token_budget: Tokens of a forward pass, shared ones once.
            init_adapter: Adapter to go on from.
            kernels: Which of ``KERNELS`` are used; values and gradients are the same without them, up to rounding.
            gradient_checkpointing: Keep the inputs of layers and compute what is inside them again for the gradient
                (arXiv 1604.06174): the same gradient, a third more work, and a fraction of the memory.
            logit_chunk_tokens: Action tokens that are projected to the vocabulary at once.
            sleeps: Have the base model on the device only between ``wake_up`` and ``sleep``; it sleeps at first, and is
                tried when it wakes up before the first update.
            longest_row: Tokens of a row at most; by default ``token_budget``.

        Raises:
            ConfigError: The device is not there.
            ModelError: The model or the adapter cannot be used.
            FullGpuError: The GPU has no room; so do the methods that compute.
        """
        if threads is not None:
            torch.set_num_threads(threads)
        torch.manual_seed(seed)
        self.device = usable_device(device)
        if self.device.type == "cuda":
            torch.cuda.set_device(self.device)
            # Nearly every micro-batch has a shape of its own. cuDNN would make a plan of attention for each, and torch
            # would keep blocks of memory that fit nothing.
            torch.backends.cuda.enable_cudnn_sdp(enabled=False)
            if may_expand_segments():
                torch._C._accelerator_setAllocatorSettings("expandable_segments:True")
        self.token_budget = token_budget
        self._longest_row = longest_row or token_budget
        model = load_lora_model(model_path, lora, init_adapter, getattr(torch, dtype), self._longest_row)
        if "fused_lora" in kernels:
            fused_lora.fuse_lora(model)
        if "gated_activation" in kernels and device == "cpu":
            gated_activation.fuse_gates(model)
        if "norm" in kernels and device == "cpu":
            norm.fuse_norms(model)
        self._waiting = WaitingWeights(model, self.device) if sleeps else None
        self.model = model if sleeps else self._placed(model)
        if gradient_checkpointing:
            # There is no dropout, so no random state needs to be kept for the second time.
            self.model.gradient_checkpointing_enable({"use_reentrant": False, "preserve_rng_state": False})
            for layer in self.model.modules():
                layer.training = getattr(layer, "gradient_checkpointing", False)  # else transformers keeps everything
        self._logit_chunk_tokens = logit_chunk_tokens
        self._own_attention = "attention" in kernels and device == "cpu"
        inner: Any = self.model.get_base_model()
        self._rows_alone = inner.config._attn_implementation != attention.NAME
        self._share_beginnings = "shared_rows" in kernels and not self._rows_alone
        self._body, self._head = inner.model, inner.lm_head
        self._logits_divisor = getattr(inner.config, "logits_scaling", None) or 1.0
        self.parameters = [parameter for parameter in self.model.parameters() if parameter.requires_grad]
        self.optimizer = torch.optim.AdamW(self.parameters, lr=0.0, betas=(0.9, 0.95), weight_decay=0.0, fused=True)
        if not sleeps:
            self._try()

    def forward_backward(
        self, rows: Sequence[Segment], loss: LossSpec, on_rows: Callable[[int], None] = ignore_progress
    ) -> list[RowStatistics]:
        """Accumulate the gradient of ``loss`` over ``rows``; returns what was found in each, in their order."""
        found: dict[int, RowStatistics] = {}
        for batch in self._batches(rows):
            found |= zip(map(id, batch), self._backward(batch, loss), strict=True)
            on_rows(len(batch))
        return [found[id(row)] for row in rows]

    @torch.no_grad()
    def logprobs(self, rows: Sequence[Segment]) -> list[list[float]]:
        """Log-probabilities of each row's action tokens, in the order of ``rows``."""
        found: dict[int, list[float]] = {}
        for batch in self._batches(rows):
            tokens, _ = self._forward(batch)
            found |= zip(map(id, batch), tokens.by_row(tokens.logprobs_T), strict=True)
        return [found[id(row)] for row in rows]

    @explained_where_full()
    def optim_step(self, learning_rate: float, max_grad_norm: float) -> float:
        """Clip, step and clear gradients; returns the gradient norm before clipping."""
        norm = torch.nn.utils.clip_grad_norm_(self.parameters, max_grad_norm)
        for group in self.optimizer.param_groups:
            group["lr"] = learning_rate
        self.optimizer.step()
        self.optimizer.zero_grad(set_to_none=True)
        return float(norm)

    def reset_optimizer(self) -> None:
        """Forget the moments, for example between the warm start and reinforcement learning."""
        self.optimizer.state.clear()

    @explained_where_full()
    def wake_up(self) -> None:
        """Of an engine that ``sleeps``: have the base model on the device, ready to compute."""
        if self._waiting is not None:
            self._waiting.load()
            if not self.optimizer.state:  # nothing is learned yet
                self._try()

    def sleep(self) -> None:
        """Of an engine that ``sleeps``: give the device all memory back but that of the adapter and its moments."""
        if self._waiting is not None:
            self._waiting.unload()

    def save_adapter(self, folder: Path) -> None:
        """Write ``adapter_model.safetensors`` and ``adapter_config.json``.

        Raises:
            CheckpointError: The disk refuses the file.
        """
        config = copy(self.model.peft_config["default"])
        config.inference_mode, config.base_model_name_or_path = True, self.model.get_base_model().name_or_path
        weights = {name: weight.detach() for name, weight in adapter_weights(self.model).items()}
        try:
            config.save_pretrained(str(folder))
            save_file(weights, folder / WEIGHTS_FILE, {"format": "pt"})
        except SafetensorError as error:
            raise CheckpointError(
                f"the adapter cannot be written to {folder} ({error}); make room, or check the disk and the limits "
                "(ulimit -a)"
            ) from error

    def state(self) -> dict[str, bytes]:
        """See ``Engine``: Adam's two moments, 8 bytes for each weight of the adapter."""
        buffer = io.BytesIO()
        torch.save({"optimizer": self.optimizer.state_dict(), "rng": torch.get_rng_state()}, buffer)
        return {STATE_FILE: buffer.getvalue()}

    def load_state(self, folder: Path) -> None:
        """Continue from ``save_adapter`` and ``state``, to the bit on CPU.

        Raises:
            CheckpointError: A file is missing or does not fit this model.
        """
        self.set_state(self.read_state(folder))

    def read_state(self, folder: Path) -> dict[str, Any]:
        """What is in ``folder``, once it is known to fit; raises as ``load_state`` does."""
        path, weights = folder / STATE_FILE, folder / WEIGHTS_FILE
        try:
            state = torch.load(path, map_location="cpu", weights_only=True)  # Adam counts steps there
        except (OSError, EOFError, RuntimeError, UnpicklingError) as error:
            raise CheckpointError(_unreadable(path, error)) from error
        try:
            state["adapter"] = load_file(weights)
        except (OSError, SafetensorError) as error:
            raise CheckpointError(_unreadable(weights, error)) from error
        adapters = state["adapter"], adapter_weights(self.model)
        shapes = [{name: weight.shape for name, weight in adapter.items()} for adapter in adapters]
        if shapes[0] != shapes[1]:
            raise CheckpointError(f"{weights} was written by a model or LoRA rank of other shapes than this run's")
        return state

    def set_state(self, state: dict[str, Any]) -> None:
        """Continue from what ``read_state`` gave."""
        for name, parameter in adapter_weights(self.model).items():
            parameter.data.copy_(state["adapter"][name])
        self.optimizer.load_state_dict(state["optimizer"])
        torch.set_rng_state(state["rng"])

    def _placed(self, model: Any) -> Any:
        """The loaded model where it is computed."""
        return model.to(self.device)

    def _try(self) -> None:
        check_computing(self.model, lambda rows: self._forward(rows)[0], self._longest_row)

    def _batches(self, rows: Sequence[Segment]) -> list[list[Segment]]:
        return micro_batches(rows, self.token_budget, share_beginnings=self._share_beginnings)

    @explained_where_full()
    def _backward(self, batch: Sequence[Segment], loss: LossSpec) -> list[RowStatistics]:
        """Accumulate the gradient of a micro-batch."""
        reference_T = self._reference_logprobs(batch, loss.temperature) if loss.kl_coef > 0 else None
        tokens, entropy_T = self._forward(batch, loss.temperature)
        tokens.reference_logprobs_T, tokens.row_bounds = reference_T, [loss.row_bound(row) for row in batch]
        loss_T = token_losses(tokens, loss)
        loss_T.sum().backward()
        return _statistics(tokens, entropy_T, loss_T)

    @torch.no_grad()
    def _reference_logprobs(self, batch: Sequence[Segment], temperature: float) -> torch.Tensor:
        """Shape ``T``: the frozen model alone."""
        with self.model.disable_adapter():
            return self._forward(batch, temperature)[0].logprobs_T

    @explained_where_full()
    def _forward(self, batch: Sequence[Segment], temperature: float = 1.0) -> tuple[ActionTokens, torch.Tensor]:
        """The batch's action tokens, and the entropy at each, shape ``T``."""
        layout = shared_rows.lay_out(batch, share_beginnings=self._share_beginnings)
        actions = [
            (row, position) for row, s in enumerate(batch) for position, acts in enumerate(s.action_mask) if acts
        ]
        predictors_T = self._tensor([layout.place(row, position - 1) for row, position in actions])
        targets_T = self._tensor([batch[row].ids[position] for row, position in actions])
        hidden_ND = self._hidden(batch, layout)
        hidden_TD = hidden_ND[predictors_T].to(self._head.weight.dtype)
        logprobs_T, entropy_T = SelectedLogprobs.apply(  # type: ignore[misc]
            hidden_TD, self._head.weight, targets_T, self._logit_chunk_tokens, temperature * self._logits_divisor
        )
        advantages_T = self._tensor([batch[row].advantage for row, _ in actions])
        sampler_T = self._tensor([batch[row].sampler_logprobs[position] for row, position in actions])
        counts = [row.num_actions for row in batch]
        return ActionTokens(logprobs_T, sampler_T, advantages_T, counts), entropy_T

    def _hidden(self, batch: Sequence[Segment], layout: shared_rows.Layout) -> torch.Tensor:
        """Of each token of the layout's list, but its padding where rows are alone; shape ``N x D``."""
        if self._rows_alone:
            alone = (self._body(input_ids=self._tensor([row.ids]), use_cache=False) for row in batch)
            return torch.cat([found.last_hidden_state[0] for found in alone])
        found = self._body(
            input_ids=self._tensor([layout.ids]),
            position_ids=self._tensor([layout.positions]),
            use_cache=False,
            **self._places(layout),
        )
        return found.last_hidden_state[0]

    def _places(self, layout: shared_rows.Layout) -> dict[str, Any]:
        """What attention needs to know of rows."""
        if self._own_attention:
            return {"blocks": attention.blocks_of(layout)}
        return {"maps": shared_rows.RowMaps.of(layout, self.device)}

    def _tensor(self, values: list[Any]) -> torch.Tensor:
        return torch.tensor(values, device=self.device)


def may_expand_segments() -> bool:
    """Whether torch's allocator is left to us, and the driver is one that can do it: WSL2's fails at a tensor."""
    return not ALLOCATOR_VARIABLES & os.environ.keys() and "microsoft" not in " ".join(platform.uname()).lower()


def _unreadable(path: Path, error: Exception) -> str:
    why = error if isinstance(error, OSError) else "it is damaged"  # torch tells a loader's developer what to do
    return f"{path} cannot be read: {why}; remove its folder to go on from the one before"


def _statistics(tokens: ActionTokens, entropy_T: torch.Tensor, loss_T: torch.Tensor) -> list[RowStatistics]:
    """Of each row of a micro-batch."""
    reference_T = tokens.reference_logprobs_T
    references = [[] for _ in tokens.action_counts] if reference_T is None else tokens.by_row(reference_T)
    parts = (tokens.by_row(values_T) for values_T in (loss_T, tokens.logprobs_T, entropy_T))
    return [RowStatistics(math.fsum(losses), *lists) for losses, *lists in zip(*parts, references, strict=True)]

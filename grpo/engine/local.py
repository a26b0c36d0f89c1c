"""The local engine: a bf16 base model with float32 LoRA weights in this process, on CPU or one GPU.

It computes what rows have in common once, and the vocabulary projection for action tokens only. Where
``torch.distributed`` is initialised, its processes share the rows (``distributed``); the model is whole in each.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from pickle import UnpicklingError
from typing import Any

import torch

from grpo.engine import distributed, fused_lora, shared_rows
from grpo.engine.base import BatchView, LossFunction
from grpo.errors import CheckpointError, ConfigError, ModelError
from grpo.loss import SelectedLogprobs
from grpo.segments import Segment, micro_batches

LINEAR_LAYERS = ["q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj"]
LOGIT_CHUNK_TOKENS = 512
LOGIT_CHANGES = (
    "final_logit_softcapping",
    "logit_scale",
    "logits_scaling",
    "lm_head_multiplier",
    "output_multiplier",
)
"""What some models' configs name that they do to logits."""
STATE_FILE = "engine.pt"


@dataclass(frozen=True, slots=True)
class LoraSpec:
    """Rank and scale of the adapter (LoRA, arXiv 2106.09685: the update is ``alpha / rank * B A``)."""

    rank: int = 16
    alpha: int = 32


class LocalEngine:
    """One process, one LoRA policy, AdamW."""

    def __init__(
        self,
        model_path: Path,
        lora: LoraSpec,
        *,
        seed: int,
        device: str = "cpu",
        threads: int | None = None,
        token_budget: int = 4096,
        init_adapter: Path | None = None,
        dtype: torch.dtype = torch.bfloat16,
    ):
        from peft import LoraConfig, PeftModel, get_peft_model
        from safetensors import SafetensorError
        from transformers import AutoModelForCausalLM
        from transformers.utils import logging as transformers_logging

        transformers_logging.disable_progress_bar()
        if threads is not None:
            torch.set_num_threads(threads)
        torch.manual_seed(seed)
        self.device = usable_device(device)
        self.token_budget = token_budget
        try:
            base: Any = AutoModelForCausalLM.from_pretrained(
                str(model_path), dtype=dtype, attn_implementation=shared_rows.register(), low_cpu_mem_usage=True
            )
            base = base.to(self.device)
        except (OSError, ValueError) as error:
            raise ModelError(f"the model in {model_path} could not be loaded: {error}") from error
        if init_adapter is not None:
            try:
                model = PeftModel.from_pretrained(base, str(init_adapter), is_trainable=True)
            except (OSError, ValueError, RuntimeError, SafetensorError) as error:
                first = str(error).strip().splitlines()[:2]
                raise ModelError(
                    f"the adapter {init_adapter} does not fit the model in {model_path}, or is damaged "
                    f"({' '.join(line.strip() for line in first)}); start from an adapter of that model"
                ) from error
        else:
            config = LoraConfig(
                r=lora.rank,
                lora_alpha=lora.alpha,
                target_modules=LINEAR_LAYERS,
                lora_dropout=0.0,
                task_type="CAUSAL_LM",
            )
            model = get_peft_model(base, config)
        self.model: Any = model
        self.parameters: list[torch.nn.Parameter] = []
        for parameter in model.parameters():
            if parameter.requires_grad:
                parameter.data = parameter.data.float()
                self.parameters.append(parameter)
        self.model.train()
        fused_lora.fuse_lora(model)
        inner: Any = model.get_base_model()
        self._body, self._head = inner.model, inner.lm_head
        if self._head.weight.requires_grad or self._head.bias is not None:
            raise ModelError("the vocabulary projection must be frozen and without bias for LoRA training here")
        scaled = [name for name in LOGIT_CHANGES if getattr(inner.config, name, None) not in (None, 1)]
        if scaled:
            raise ModelError(
                f"the model changes its logits ({scaled[0]} = {getattr(inner.config, scaled[0])}), which the learner "
                "does not compute; train a model with plain logits, for example Llama, Qwen2.5 or SmolLM2"
            )
        self.optimizer = torch.optim.AdamW(self.parameters, lr=0.0, betas=(0.9, 0.95), weight_decay=0.0)

    def forward_backward(
        self, segments: Sequence[Segment], loss_function: LossFunction, *, with_reference: bool = False
    ) -> float:
        """Accumulate gradients over ``segments``; returns the summed loss."""
        total = 0.0
        for batch in micro_batches(distributed.share(segments), self.token_budget):
            reference_T = self._reference_logprobs(batch) if with_reference else None
            view = self._forward(batch)
            view.reference_logprobs_T = reference_T
            loss = loss_function(view)
            loss.backward()
            total += float(loss.detach())
        return distributed.sum_numbers(total)

    @torch.no_grad()
    def logprobs(self, segments: Sequence[Segment]) -> list[list[float]]:
        """Log-probabilities of each segment's action tokens, in the order of ``segments``."""
        found: dict[int, list[float]] = {}
        for batch in micro_batches(segments, self.token_budget):
            values = self._forward(batch).logprobs_T.split([s.num_actions for s in batch])
            found |= {id(segment): value.tolist() for segment, value in zip(batch, values, strict=True)}
        return [found[id(segment)] for segment in segments]

    def optim_step(self, learning_rate: float, max_grad_norm: float) -> float:
        """Clip, step and clear gradients; returns the gradient norm before clipping."""
        distributed.sum_gradients(self.parameters)
        norm = torch.nn.utils.clip_grad_norm_(self.parameters, max_grad_norm)
        for group in self.optimizer.param_groups:
            group["lr"] = learning_rate
        self.optimizer.step()
        self.optimizer.zero_grad(set_to_none=True)
        return float(norm)

    def reset_optimizer(self) -> None:
        """Forget the moments, for example between the warm start and reinforcement learning."""
        self.optimizer.state.clear()

    def save_adapter(self, folder: Path) -> None:
        """Write ``adapter_model.safetensors`` and ``adapter_config.json``."""
        # The vocabulary's weights are frozen; told so, peft does not look the base model up on the hub to find out.
        self.model.save_pretrained(str(folder), save_embedding_layers=False)

    def save_state(self, folder: Path) -> None:
        """Write the adapter, the optimizer and the random state into ``folder``."""
        folder.mkdir(parents=True, exist_ok=True)
        self.save_adapter(folder)
        state = {
            "parameters": [parameter.detach().cpu() for parameter in self.parameters],
            "optimizer": self.optimizer.state_dict(),
            "rng": torch.get_rng_state(),
        }
        torch.save(state, folder / STATE_FILE)

    def load_state(self, folder: Path) -> None:
        """Continue from what ``save_state`` wrote, to the bit on CPU.

        Raises:
            CheckpointError: The file is missing or does not fit this model.
        """
        path = folder / STATE_FILE
        try:
            state = torch.load(path, map_location=self.device, weights_only=True)
        except (OSError, EOFError, RuntimeError, UnpicklingError) as error:
            raise CheckpointError(
                f"{path} cannot be read: {error}; remove its folder to go on from the one before"
            ) from error
        if missing := {"parameters", "optimizer", "rng"} - state.keys():
            raise CheckpointError(
                f"{path} has no {', '.join(sorted(missing))}: another version of this program wrote it"
            )
        if [p.shape for p in state["parameters"]] != [p.shape for p in self.parameters]:
            raise CheckpointError(f"{path} was written by a model or LoRA rank of other shapes than this run's")
        for parameter, saved in zip(self.parameters, state["parameters"], strict=True):
            parameter.data.copy_(saved)
        self.optimizer.load_state_dict(state["optimizer"])
        torch.set_rng_state(state["rng"].cpu())

    @torch.no_grad()
    def _reference_logprobs(self, batch: Sequence[Segment]) -> torch.Tensor:
        """Shape ``T``: the frozen model alone."""
        with self.model.disable_adapter():
            return self._forward(batch).logprobs_T

    def _forward(self, batch: Sequence[Segment]) -> BatchView:
        layout = shared_rows.lay_out(batch)
        actions = [
            (row, position) for row, s in enumerate(batch) for position, acts in enumerate(s.action_mask) if acts
        ]
        predictors_T = self._tensor([layout.place(row, position - 1) for row, position in actions])
        targets_T = self._tensor([batch[row].ids[position] for row, position in actions])
        hidden_ND = self._body(
            input_ids=self._tensor([layout.ids]),
            position_ids=self._tensor([layout.positions]),
            use_cache=False,
            layout=layout,
        ).last_hidden_state[0]
        hidden_TD = hidden_ND[predictors_T].to(self._head.weight.dtype)
        logprobs_T, entropy_T = SelectedLogprobs.apply(  # type: ignore[misc]
            hidden_TD, self._head.weight, targets_T, LOGIT_CHUNK_TOKENS
        )
        advantages_T = self._tensor([batch[row].advantage for row, _ in actions])
        sampler_T = self._tensor([batch[row].sampler_logprobs[position] for row, position in actions])
        action_counts_B = self._tensor([s.num_actions for s in batch])
        return BatchView(logprobs_T, sampler_T, advantages_T, entropy_T, action_counts_B)

    def _tensor(self, values: list[Any]) -> torch.Tensor:
        return torch.tensor(values, device=self.device)


def usable_device(name: str) -> torch.device:
    """The device of this name.

    Raises:
        ConfigError: It is a GPU, and torch sees none.
    """
    if name != "cpu" and not torch.cuda.is_available():
        visible = os.environ.get("CUDA_VISIBLE_DEVICES")
        raise ConfigError(
            f"device = {name!r}, but torch {torch.__version__} sees no GPU"
            + ("" if visible is None else f" (CUDA_VISIBLE_DEVICES = {visible!r})")
            + "; train with --cpu, or let grpo-doctor --cuda say what is missing"
        )
    return torch.device(name)

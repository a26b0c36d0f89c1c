"""The plan of a run on GPUs: which of them serve and which train, and how much memory each takes.

The rule is fixed. Servers take GPUs from the front, learners from the back, in the order in which
``CUDA_VISIBLE_DEVICES`` shows them: where there are enough, nothing is shared, and one GPU does both. vLLM is told the
size of its KV cache, so it measures no free memory while the learner loads. The cache has room for all sequences at
once at their full length where the card has it. Where it has not, the learner computes activations again instead of
keeping them; then the cache gets what is left, and some episodes wait while others are sampled. Sequences rarely reach
their full length, and those of a group share their prompt, so that costs little.

Where even that does not fit and one GPU does both, they take turns (vLLM's sleep mode): while one computes, the other's
model waits in the host's memory. Every update then waits for both models to be moved.
"""

import math
import os
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import product

from grpo.config import TrainConfig
from grpo.devices.memory import GIB, Memory, learner_memory, planned_dtype, server_memory, vocabulary_bytes
from grpo.devices.shape import ModelShape
from grpo.errors import ConfigError
from grpo.machine.hardware import LEAST_CAPABILITY, Gpu, memory_gib, visible_gpus
from grpo.machine.probe import Dtype
from grpo.machine.processes import torchrun_rank

CARD_ORDER = {"CUDA_DEVICE_ORDER": "PCI_BUS_ID"}
"""CUDA's own order is by speed, nvidia-smi's by bus. With this variable both number the GPUs alike."""

USABLE = 0.97
"""Of a card's memory; the rest is the driver's."""

SLACK_GIB = 0.5
"""Left free on every card: vLLM measures what is free after CUDA has taken its part, and others come and go."""

PAGE_LOCKED = 1.5
"""So many times its size takes vLLM's sleeping model of the host's memory: 22 GiB for a Qwen3-8B
(vllm-project/vllm#48337)."""

LEAST_SEQUENCES = 8
"""One of so many sequences, at full length, is the least that the KV cache must have room for."""

_LOGIT_SHARE = 0.03

_KV_BLOCK = 64
"""Tokens of vLLM's largest usual block of the KV cache; most attention kernels have 16."""


@dataclass(frozen=True, slots=True)
class Placement:
    """Numbers of GPUs: those of each server, and that of each learner process."""

    servers: tuple[tuple[int, ...], ...]
    learners: tuple[int, ...]

    @property
    def server_cards(self) -> tuple[int, ...]:
        """Those of all servers."""
        return tuple(card for cards in self.servers for card in cards)

    @property
    def shared(self) -> bool:
        """Whether a learner is on a server's GPU."""
        return not set(self.learners).isdisjoint(self.server_cards)


def place(cards: int, *, servers: int = 1, tensor_parallel: int = 1, learners: int = 1) -> Placement:
    """Give ``cards`` GPUs to servers and learner processes.

    Args:
        cards: GPUs that are visible.
        servers: vLLM processes of ours.
        tensor_parallel: GPUs of each server.
        learners: Processes that train, one GPU each.

    Raises:
        ConfigError: There are fewer than the servers, or the learners, need.
    """
    if cards == 0:
        shown = os.environ.get("CUDA_VISIBLE_DEVICES")
        raise ConfigError(
            "device = 'cuda', but nvidia-smi shows no GPU"
            + ("" if shown is None else f" (CUDA_VISIBLE_DEVICES = {shown!r})")
            + "; show whole ones, not parts (MIG), install the driver, or use --cpu"
        )
    served = servers * tensor_parallel
    if cards < max(served, learners):
        parts = [f"{servers} vLLM server(s) x server.tensor_parallel = {tensor_parallel}"] if served else []
        parts += [f"{learners} learner process(es)"] if learners else []
        raise ConfigError(
            f"device = 'cuda' with {' and '.join(parts)}, but {cards} GPU(s) are visible; ask for fewer, show more "
            "(CUDA_VISIBLE_DEVICES), or train with --cpu"
        )
    of_server = tuple(tuple(range(n * tensor_parallel, (n + 1) * tensor_parallel)) for n in range(servers))
    return Placement(of_server, tuple(range(cards - learners, cards)))


@dataclass(frozen=True, slots=True)
class GpuPlan:
    """What runs where, or might. All figures of memory are bytes.

    Attributes:
        config: The run's settings.
        shape: Of its model.
        gpus: The visible ones.
        placement: Which of them serve and train.
        sharers: Processes that share the model's layers.
        gradient_checkpointing: Whether the learner computes activations again.
        in_turns: Whether learner and server have the GPU in turns (`grpo.serving.sleep_mode`).
        kv_cache: Of vLLM's KV cache on each of its GPUs.
    """

    config: TrainConfig
    shape: ModelShape
    gpus: tuple[Gpu, ...]
    placement: Placement
    sharers: int = 1
    gradient_checkpointing: bool = False
    in_turns: bool = False
    kv_cache: int = 0

    @property
    def learner(self) -> Memory | None:
        """Memory of a learner process; None where nothing is trained."""
        config = self.config
        if not self.placement.learners:
            return None
        return learner_memory(
            self.shape,
            config.lora.rank,
            planned_dtype(config),
            tokens=max(config.learner.token_budget, config.rollout.max_tokens),
            gradient_checkpointing=self.gradient_checkpointing,
            logit_chunk_tokens=self.logit_chunk_tokens,
            processes=self.sharers,
        )

    @property
    def server(self) -> Memory | None:
        """Memory of vLLM on each of its GPUs; None where no server is ours."""
        return server_memory(self.config, self.shape, kv_cache=self.kv_cache) if self.placement.servers else None

    @property
    def logit_chunk_tokens(self) -> int:
        """Action tokens that the learner projects to the vocabulary at once.

        It is the power of two, from 128 to 4,096, whose logits take ``_LOGIT_SHARE`` of the learner's card at most.
        """
        cards = self.placement.learners or self.placement.server_cards
        room = _LOGIT_SHARE * self.usable(cards) / vocabulary_bytes(self.shape, planned_dtype(self.config))
        return min(4096, max(128, 2 ** int(math.log2(max(1, room)))))

    @property
    def sequences(self) -> tuple[int, int]:
        """How many of full length the KV cache has room for, of how many at once."""
        rollout, server = self.config.rollout, self.config.server
        one = rollout.max_tokens * self.shape.kv_bytes(planned_dtype(self.config)) + self.shape.state_bytes
        room = self.kv_cache * server.tensor_parallel // one
        return min(room * server.replicas, rollout.concurrency), rollout.concurrency

    @property
    def learner_devices(self) -> tuple[str, ...]:
        """torch's names of the learners' GPUs."""
        return tuple(f"cuda:{card}" for card in self.placement.learners)

    def server_cards(self, number: int = 0) -> tuple[str, ...]:
        """What ``CUDA_VISIBLE_DEVICES`` shows to a server."""
        return tuple(self.gpus[card].id for card in self.placement.servers[number])

    @property
    def gpu_memory_utilization(self) -> float:
        """vLLM's share of the smallest of its cards: it refuses to start where less than that is free."""
        assert self.server is not None, "a server is ours"
        smallest = min(self.gpus[card].memory_gib for card in self.placement.server_cards)
        return math.floor(1000 * self.server.total / (GIB * smallest)) / 1000

    @property
    def waiting_gib(self) -> float:
        """What both put in the host's memory where they take turns."""
        learner, server = self.learner, self.server
        vllms = server.weights + server.adapter if server else 0
        return ((learner.weights if learner else 0) + PAGE_LOCKED * vllms) / GIB

    def usable(self, cards: tuple[int, ...]) -> float:
        """Memory of these cards that one may take of each: what the fullest has left of others."""
        left = [USABLE * self.gpus[card].memory_gib - self.gpus[card].used_gib for card in cards]
        return GIB * (min(left) - SLACK_GIB)

    @property
    def left(self) -> float:
        """For more of the KV cache on each of the server's cards; below zero where not even the rest fits.

        Of one that waits for its turn, its runtime stays on the card, and the learner's adapter with Adam's moments.
        """
        learner, server = self.learner, self.server
        for_server = for_learner = math.inf
        if learner is not None:
            waits = server.runtime if server and self.in_turns else 0
            for_learner = self.usable(self.placement.learners) - learner.total - waits
        if server is not None:
            for_server = self.usable(self.placement.server_cards) - server.total
            if learner is not None and self.placement.shared:
                for_server -= learner.runtime + learner.adapter if self.in_turns else learner.total
        return for_server if for_learner >= 0 else for_learner

    def lines(self) -> list[str]:
        """The plan as a log shows it."""
        shown: list[str] = []
        if self.server is not None:
            cards = ", ".join(self._name(card) for cards in self.placement.servers for card in cards)
            room, at_once = self.sequences
            cache = f"{self.server.kv_cache / GIB:.1f} of it for {room} of {at_once} sequences at full length"
            shown.append(f"vLLM on {cards}: {self.server}, {cache}")
        if self.learner is not None:
            cards = ", ".join(self._name(card) for card in self.placement.learners)
            again = "computed again for the gradient" if self.gradient_checkpointing else "kept for the gradient"
            shown.append(f"learner on {cards}: {self.learner}; activations are {again}")
        if self.in_turns:
            waiting = self.waiting_gib
            shown.append(
                f"they take turns on it (sleep mode); their models wait in {waiting:.1f} GiB of the host's memory"
            )
        return shown

    def _name(self, card: int) -> str:
        gpu = self.gpus[card]
        others = f", {gpu.used_gib:.1f} of them used by others" if gpu.used_gib >= SLACK_GIB else ""
        return f"{'GPU ' if gpu.id.isdigit() else ''}{gpu.id} ({gpu.name}, {gpu.memory_gib:.1f} GiB{others})"


def plan_gpus(
    config: TrainConfig,
    shape: ModelShape,
    gpus: Sequence[Gpu] | None = None,
    *,
    learners: int | None = None,
    host_gib: float | None = None,
) -> GpuPlan:
    """Plan a run with ``device = 'cuda'``.

    Args:
        config: The run's settings.
        shape: Of its model.
        gpus: The visible GPUs; asked of ``nvidia-smi`` by default.
        learners: Processes that train, by default those that torchrun started here, or one; 0 where a policy is only
            served.
        host_gib: Memory of the host, by default this machine's.

    Raises:
        ConfigError: There are too few GPUs, learner and server do not fit on them, one is divided or not open to both,
            or learner or vLLM does not compute there in this dtype.
    """
    here = torchrun_rank()
    if learners is None:
        learners = here.local_size if here else 1
    cards = tuple(visible_gpus() if gpus is None else gpus)
    servers = 0 if config.server.urls else config.server.replicas
    if servers and config.dtype == "float32":  # its kernels assert a type of 16 bits, once an adapter is computed
        raise ConfigError(
            "dtype = 'float32' with device = 'cuda': vLLM's LoRA kernels for GPUs compute no float32; take bfloat16 "
            "(--set dtype=bfloat16, or --dtype bfloat16 to serve or evaluate what was trained in float32), or use --cpu"
        )
    placement = place(len(cards), servers=servers, tensor_parallel=config.server.tensor_parallel, learners=learners)
    _check_gpus(cards, placement, planned_dtype(config))
    plan = GpuPlan(config, shape, cards, placement, here.size if here and config.learner.shard else 1)
    setting = config.learner.gradient_checkpointing
    choices = (False, True) if setting == "auto" else (setting,)
    sizes = _kv_sizes(plan)
    ways = (False, True) if _may_take_turns(config, placement) else (False,)
    for in_turns, least, again in product(ways, sizes, choices):
        plan = replace(plan, in_turns=in_turns, gradient_checkpointing=again)
        if (left := plan.left) >= least:
            plan = replace(plan, kv_cache=int(min(left, sizes[0])))
            break
    else:
        raise ConfigError(_why_not(replace(plan, kv_cache=sizes[-1])))
    host = memory_gib() if host_gib is None else host_gib
    if plan.in_turns and plan.waiting_gib > host:
        raise ConfigError(
            "learner and vLLM fit on the GPU in turns alone (sleep mode), and their models would wait in "
            f"{plan.waiting_gib:.1f} GiB of memory, of which this machine has {host:.0f}; take a smaller model, or "
            "more GPUs"
        )
    return plan


def _may_take_turns(config: TrainConfig, placement: Placement) -> bool:
    """One learner and one server may, on the same GPU, where no episode is played while the learner computes."""
    alone = placement.shared and len(placement.servers) == 1 and torchrun_rank() is None
    return config.server.sleep_mode and alone and config.rollout.max_staleness == 0


def _kv_sizes(plan: GpuPlan) -> list[int]:
    """The size of the KV cache on a card that is wanted, and the least that will do.

    Raises:
        ConfigError: A size that was set has no room for one sequence.
    """
    config, settings = plan.config, plan.config.server
    if plan.server is None:
        return [0]

    def of_sequences(count: int) -> int:
        """Of full length, in whole blocks, with their states, and of the one block that vLLM keeps empty."""
        blocks = count * math.ceil(config.rollout.max_tokens / _KV_BLOCK) + 1
        cached = blocks * _KV_BLOCK * plan.shape.kv_bytes(planned_dtype(config)) + count * plan.shape.state_bytes
        return cached // settings.tensor_parallel

    if settings.kv_cache_gib is None:
        at_once = math.ceil(config.rollout.concurrency / settings.replicas)
        return [of_sequences(at_once), of_sequences(max(1, at_once // LEAST_SEQUENCES))]
    size = settings.kv_cache_gib * GIB
    if size < (needed := of_sequences(1)):
        raise ConfigError(
            f"server.kv_cache_gib = {settings.kv_cache_gib}, but one sequence of rollout.max_tokens = "
            f"{config.rollout.max_tokens} takes {needed / GIB:.1f}; raise the one or lower the other"
        )
    return [int(size)]


def _why_not(plan: GpuPlan) -> str:
    """What is needed and what there is, with the settings that change it."""
    config, needed, lower = plan.config, list[str](), list[str]()
    if plan.learner is not None:
        usable = plan.usable(plan.placement.learners) / GIB
        needed.append(f"{plan.learner} for the learner, where {usable:.1f} are usable")
        lower.append(f"learner.token_budget ({config.learner.token_budget})")
    if plan.server is not None:
        usable = plan.usable(plan.placement.server_cards) / GIB
        shared = " on the same GPU" if plan.placement.shared else ""
        needed.append(f"{plan.server} for vLLM, where {usable:.1f} are usable{shared}")
        lower.append(f"rollout.concurrency ({config.rollout.concurrency}) or server.kv_cache_gib")
    others = ""
    if plan.learner is not None and not plan.gradient_checkpointing:
        others += "set learner.gradient_checkpointing = true, "
    if plan.placement.shared and not plan.in_turns:
        others += "let them take turns (server.sleep_mode, with rollout.max_staleness = 0 and no torchrun), "
    return (
        f"the model does not fit: needed are {' and '.join(needed)}. Lower {', '.join(lower)}, rollout.max_tokens "
        f"({config.rollout.max_tokens}), {others}take a smaller model or lora.rank, or show more GPUs than "
        f"{len(plan.gpus)}"
    )


def _check_gpus(gpus: Sequence[Gpu], placement: Placement, dtype: Dtype) -> None:
    """Memory is planned for whole GPUs, which compute in bfloat16 where vLLM or a learner does.

    Below ``LEAST_CAPABILITY`` vLLM does not start, and torch's attention keeps the scores of all pairs of tokens.

    Raises:
        ConfigError: One is divided, does not, or lets in fewer processes than are to compute there.
    """
    halves = {*placement.server_cards, *(placement.learners if dtype == "bfloat16" else ())}
    whole = [gpu.id for gpu in gpus if not gpu.divided and (gpu.capability or LEAST_CAPABILITY) >= LEAST_CAPABILITY]
    others = f"show the others alone (CUDA_VISIBLE_DEVICES={','.join(whole)})" if whole else "show other GPUs"
    for card, gpu in enumerate(gpus):
        name = f"GPU {gpu.id} ({gpu.name})"
        if gpu.divided:
            raise ConfigError(
                f"{name} is divided into parts (MIG), which are not planned for; {others}, or train with --cpu"
            )
        if card in halves and gpu.capability is not None and gpu.capability < LEAST_CAPABILITY:
            raise ConfigError(
                f"{name} has compute capability {gpu.capability}, and vLLM and the learner compute in bfloat16 from "
                f"{LEAST_CAPABILITY} (Ampere, such as A10 or RTX 30) on alone; {others}, sample on another machine "
                "(--server URL) and train here with --set dtype=float32, or use --cpu"
            )
        users = (card in placement.server_cards) + (card in placement.learners)
        if users > {"Prohibited": 0, "Exclusive_Process": 1}.get(gpu.mode, users):
            raise ConfigError(
                f"{name} is in compute mode {gpu.mode}, which keeps vLLM or the learner off it; let several processes "
                f"compute there (sudo nvidia-smi -i {gpu.id} -c DEFAULT), or show other GPUs"
            )

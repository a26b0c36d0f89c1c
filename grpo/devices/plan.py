"""The plan of a run on GPUs: where learner and vLLM are, and how much memory each takes, or why they do not fit.

vLLM is told the size of its KV cache, so it measures no free memory while the learner loads. The cache has room for all
sequences at once at their full length where the card has it. Where it has not, the learner computes activations again
instead of keeping them; then the cache gets what is left, and some episodes wait while others are sampled. Sequences
rarely reach their full length, and those of a group share their prompt, so that costs little.

Where even that does not fit and one GPU does both, they take turns (vLLM's sleep mode): while one computes, the other's
model waits in the host's memory. Every update then waits for both models to be moved.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product

from grpo.config import TrainConfig
from grpo.devices.memory import GIB, Memory, learner_memory, server_memory, vocabulary_bytes
from grpo.devices.placement import Placement, check_serving, check_training, check_whole, place
from grpo.devices.shape import ModelShape
from grpo.errors import ConfigError
from grpo.machine import torchrun
from grpo.machine.dtype import Dtype
from grpo.machine.hardware import Gpu, memory_gib, visible_gpus

USABLE = 0.97
"""Of a card's memory; the rest is the driver's."""

PAGE_LOCKED = 1.5
"""So many times its size takes vLLM's sleeping model of the host's memory: 22 GiB for a Qwen3-8B
(vllm-project/vllm#48337)."""

LEAST_SEQUENCES = 8
"""One of so many sequences, at full length, is the least that the KV cache must have room for."""

_LOGIT_SHARE = 0.03

_KV_BLOCK = 64
"""Tokens of vLLM's largest usual block of the KV cache; most attention kernels have 16."""


@dataclass(frozen=True, slots=True)
class GpuPlan:
    """What runs where.

    Attributes:
        gpus: The visible ones.
        placement: Which of them serve and train.
        learner: Memory of a learner process.
        server: Memory of vLLM on each of its GPUs; None where no server is ours.
        gradient_checkpointing: Whether the learner computes activations again.
        logit_chunk_tokens: Action tokens that the learner projects to the vocabulary at once.
        sequences: How many of full length the KV cache has room for, of how many at once.
        in_turns: Whether learner and server have the GPU in turns (`grpo.serving.turns`).
    """

    gpus: tuple[Gpu, ...]
    placement: Placement
    learner: Memory | None
    server: Memory | None
    gradient_checkpointing: bool
    logit_chunk_tokens: int
    sequences: tuple[int, int]
    in_turns: bool

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
        cards = [self.gpus[card] for cards in self.placement.servers for card in cards]
        return math.floor(1000 * self.server.total / (min(card.memory_gib for card in cards) * GIB)) / 1000

    def lines(self) -> list[str]:
        """The plan as a log shows it."""
        shown: list[str] = []
        if self.server is not None:
            cards = ", ".join(self._name(card) for cards in self.placement.servers for card in cards)
            room, at_once = self.sequences
            shown.append(f"vLLM on {cards}: {self.server}")
            shown.append(f"KV cache: room for {room} of {at_once} sequences at full length")
        if self.learner is not None:
            cards = ", ".join(self._name(card) for card in self.placement.learners)
            again = "computed again for the gradient" if self.gradient_checkpointing else "kept for the gradient"
            shown.append(f"learner on {cards}: {self.learner}; activations are {again}")
        if self.in_turns:
            waiting = _waiting_gib(self.learner, self.server)
            shown.append(
                f"they take turns on it (sleep mode); their models wait in {waiting:.1f} GiB of the host's memory"
            )
        return shown

    def _name(self, card: int) -> str:
        gpu = self.gpus[card]
        return f"{'GPU ' if gpu.id.isdigit() else ''}{gpu.id} ({gpu.name}, {gpu.memory_gib:.1f} GiB)"


def served_adapters(config: TrainConfig) -> int:
    """Adapters that vLLM keeps: the versions that episodes may be under way with, a new one, and at least three."""
    return max(3, config.rollout.max_staleness + 2)


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
        ConfigError: There are too few GPUs, learner and server do not fit on them, one is divided, or learner or vLLM
            does not compute there in this dtype.
    """
    here = torchrun.place()
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
    check_whole(cards)
    check_serving(cards[card] for server in placement.servers for card in server)
    sharers = here.size if here and config.learner.shard else 1
    plan = _Room(config, shape, cards, placement, sharers).plan()
    waiting, host = _waiting_gib(plan.learner, plan.server), memory_gib() if host_gib is None else host_gib
    if plan.in_turns and waiting > host:
        raise ConfigError(
            "learner and vLLM fit on the GPU in turns alone (sleep mode), and their models would wait in "
            f"{waiting:.1f} GiB of memory, of which this machine has {host:.0f}; take a smaller model, or more GPUs"
        )
    return plan


def _waiting_gib(learner: Memory | None, server: Memory | None) -> float:
    """What both put in the host's memory where they take turns."""
    ours, vllms = learner.weights if learner else 0, server.weights + server.adapter if server else 0
    return (ours + PAGE_LOCKED * vllms) / GIB


@dataclass(frozen=True, slots=True)
class _Room:
    """The cards of a plan and what they have to hold. All figures are bytes."""

    config: TrainConfig
    shape: ModelShape
    gpus: tuple[Gpu, ...]
    placement: Placement
    sharers: int  # processes that share the model's layers

    def plan(self) -> GpuPlan:
        check_training((self.gpus[card] for card in self.placement.learners), self._dtype)
        setting = self.config.learner.gradient_checkpointing
        choices = (False, True) if setting == "auto" else (setting,)
        sizes, ways = self._kv_sizes(), self._ways()
        for in_turns, least, checkpointing in product(ways, sizes, choices):
            left = self._left_in_turns(checkpointing) if in_turns else self._left(checkpointing)
            if left >= least:
                return self._plan(checkpointing, int(min(left, sizes[0])), in_turns)
        raise ConfigError(self._why_not(choices[-1], in_turns=ways[-1]))

    def _ways(self) -> tuple[bool, ...]:
        """Whether learner and server may take turns, in the order in which it is tried.

        Raises:
            ConfigError: They must, and cannot.
        """
        setting, placement = self.config.server.sleep_mode, self.placement
        if setting is False or not (placement.learners and placement.servers):
            return (False,)
        alone = placement.shared and len(placement.servers) == 1 and torchrun.place() is None
        if alone and self.config.rollout.max_staleness == 0:
            return (True,) if setting is True else (False, True)
        if setting is True:
            raise ConfigError(
                "server.sleep_mode = true is for one learner and one server on the same GPU, without torchrun and with "
                "rollout.max_staleness = 0; leave it out, or show one GPU (CUDA_VISIBLE_DEVICES)"
            )
        return (False,)

    def _plan(self, checkpointing: bool, kv_cache: int, in_turns: bool) -> GpuPlan:
        rollout = self.config.rollout
        room = int(kv_cache * self.config.server.tensor_parallel // (rollout.max_tokens * self._kv_bytes))
        return GpuPlan(
            self.gpus,
            self.placement,
            self._learner(checkpointing) if self.placement.learners else None,
            self._server(kv_cache) if self.placement.servers else None,
            checkpointing,
            self._logit_chunk,
            (min(room * self.config.server.replicas, rollout.concurrency), rollout.concurrency),
            in_turns,
        )

    def _left(self, checkpointing: bool) -> float:
        """For the KV cache on each of the server's cards; below zero where not even the rest fits."""
        learner = self._learner(checkpointing).total if self.placement.learners else 0
        over = self._usable(self.placement.learners) - learner if self.placement.learners else 0
        if not self.placement.servers:
            return over
        left = self._usable(self._server_cards) - self._server(0).total
        if self.placement.shared:
            return left - learner
        return left if over >= 0 else over

    def _left_in_turns(self, checkpointing: bool) -> float:
        """The same where one waits: its runtime stays on the card, and the learner's adapter with Adam's moments."""
        learner, server = self._learner(checkpointing), self._server(0)
        usable = self._usable(self._server_cards)
        over = self._usable(self.placement.learners) - learner.total - server.runtime
        return usable - server.total - learner.runtime - learner.adapter if over >= 0 else over

    def _learner(self, checkpointing: bool) -> Memory:
        config = self.config
        return learner_memory(
            self.shape,
            config.lora.rank,
            self._dtype,
            tokens=max(config.learner.token_budget, config.rollout.max_tokens),
            repeated_keys=self._dtype == "float32",
            gradient_checkpointing=checkpointing,
            logit_chunk_tokens=self._logit_chunk,
            processes=self.sharers,
        )

    def _server(self, kv_cache: int) -> Memory:
        config = self.config
        return server_memory(
            self.shape,
            config.lora.rank,
            self._dtype,
            adapters=served_adapters(config),
            sampled_tokens=config.rollout.concurrency,
            kv_cache=int(kv_cache),
            tensor_parallel=config.server.tensor_parallel,
        )

    @property
    def _dtype(self) -> Dtype:
        return "bfloat16" if self.config.dtype == "auto" else self.config.dtype

    @property
    def _kv_bytes(self) -> int:
        return self.shape.kv_bytes(self._dtype)

    def _kv_sizes(self) -> list[int]:
        """The size of the KV cache on a card that is wanted, and the least that will do.

        Raises:
            ConfigError: A size that was set has no room for one sequence.
        """
        config, settings = self.config, self.config.server
        if not self.placement.servers:
            return [0]
        if settings.kv_cache_gib is None and settings.gpu_memory_utilization is None:
            at_once = math.ceil(config.rollout.concurrency / config.server.replicas)
            return [self._sequences_kv(at_once), self._sequences_kv(max(1, at_once // LEAST_SEQUENCES))]
        if settings.kv_cache_gib is not None:
            name, value, size = "kv_cache_gib", settings.kv_cache_gib, settings.kv_cache_gib * GIB
        else:
            name, value = "gpu_memory_utilization", settings.gpu_memory_utilization or 0.0
            card = min(self.gpus[card].memory_gib for card in self._server_cards) * GIB
            size = value * card - self._server(0).total
        if size < (needed := self._sequences_kv(1)):
            raise ConfigError(
                f"server.{name} = {value} leaves {max(0.0, size / GIB):.1f} GiB for the KV cache, but one sequence of "
                f"rollout.max_tokens = {config.rollout.max_tokens} takes {needed / GIB:.1f}; raise the one or "
                "lower the other"
            )
        return [int(size)]

    def _sequences_kv(self, count: int) -> int:
        """Of ``count`` sequences of full length, in whole blocks, and of the one block that vLLM keeps empty."""
        blocks = count * math.ceil(self.config.rollout.max_tokens / _KV_BLOCK) + 1
        return blocks * _KV_BLOCK * self._kv_bytes // self.config.server.tensor_parallel

    @property
    def _logit_chunk(self) -> int:
        """The power of two, from 128 to 4,096, whose logits take ``_LOGIT_SHARE`` of the learner's card at most."""
        cards = self.placement.learners or self._server_cards
        room = _LOGIT_SHARE * self._usable(cards) / vocabulary_bytes(self.shape, self._dtype)
        return min(4096, max(128, 2 ** int(math.log2(max(1, room)))))

    @property
    def _server_cards(self) -> tuple[int, ...]:
        return tuple(card for cards in self.placement.servers for card in cards)

    def _usable(self, cards: tuple[int, ...]) -> float:
        return USABLE * GIB * min(self.gpus[card].memory_gib for card in cards)

    def _why_not(self, checkpointing: bool, *, in_turns: bool) -> str:
        config, parts = self.config, list[str]()
        if self.placement.learners:
            usable = self._usable(self.placement.learners) / GIB
            parts.append(f"the learner takes {self._learner(checkpointing)} of {usable:.1f} GiB that are usable")
        if self.placement.servers:
            usable, least = self._usable(self._server_cards) / GIB, self._kv_sizes()[-1]
            where = "the same card" if self.placement.shared else f"a card with {usable:.1f} GiB"
            parts.append(f"vLLM at least {self._server(least)} on {where}{', not even in turns' if in_turns else ''}")
        lower = [f"learner.token_budget ({config.learner.token_budget})"] if self.placement.learners else []
        lower += [f"rollout.concurrency ({config.rollout.concurrency})"] if self.placement.servers else []
        lower.append(f"rollout.max_tokens ({config.rollout.max_tokens})")
        changes = self._changes_for_turns(checkpointing)
        return (
            f"the model does not fit: {', '.join(parts)}. Lower {', '.join(lower)}, take a smaller model or lora.rank, "
            f"or show more GPUs than {len(self.gpus)}"
            + (f"; learner and vLLM may take turns on the card with {' and '.join(changes)}" if changes else "")
        )

    def _changes_for_turns(self, checkpointing: bool) -> list[str]:
        """What keeps a learner and a server from turns on a card where they fit in turns, as it would have to be."""
        here, placement, config = torchrun.place(), self.placement, self.config
        alone = len(placement.servers) == len(placement.learners) == 1 and (here is None or here.size == 1)
        if not (alone and placement.shared) or self._left_in_turns(checkpointing) < self._kv_sizes()[-1]:
            return []
        changes = ["server.sleep_mode = 'auto'"] if config.server.sleep_mode is False else []
        changes += ["rollout.max_staleness = 0"] if config.rollout.max_staleness else []
        return changes + (["no torchrun"] if here else [])

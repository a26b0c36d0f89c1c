"""How much memory a learner and a vLLM server take, estimated from the model's shape and the run's settings.

One rule has a constant for each part of a block, so the estimate is a few per cent off, rather too high than too low on
a GPU, where a part that does not fit ends the run. A test compares it with what is alive in a step. The runtime (CUDA's
context, workspaces of libraries, vLLM's CUDA graphs) is an allowance, not a measurement.

On a CPU the learner's own attention keeps less, and the C library keeps more, because freed blocks of ever other sizes
fit nothing: ``CPU_SLACK``. There the need is compared with what is free before a run starts, not by the kernel later.

All figures of a `Memory` are bytes.
"""

from dataclasses import dataclass, fields

from grpo.config import TrainConfig
from grpo.devices.shape import DTYPE_BYTES, ModelShape
from grpo.errors import ConfigError
from grpo.machine.probe import Dtype
from grpo.machine.processes import torchrun_rank

GIB = 1024**3

ROWS_BUDGET = 3
"""Attention works on whole rows: this many times the token budget bounds its memory where rows share much."""

LEARNER_RUNTIME = GIB
SERVER_RUNTIME = int(2.5 * GIB)

SERVER_TOKENS = 8192
"""Tokens that vLLM computes at once (``--max-num-batched-tokens``); longer prompts are cut in chunks."""

MOST_DRAFT_LOGITS = 2**24
"""Of all guesses of a step of vLLM on the CPU; in float32 they take 64 MiB, and several copies of them are made."""

CPU_KV_CACHE_GIB = 2.0
"""Of the KV cache on a CPU, where no size is set."""

CPU_SLACK = 1.2
"""Of the learner's activations: a little more than was measured over the computed ones (docs/performance.md)."""

CPU_LOGIT_CHUNK_TOKENS = 512
"""At least as many as the learner takes, whose module would load torch."""

_SLACK = 1.1
"""Freed blocks that fit nothing: a tenth of what is allocated and freed again."""

_GATHERED = 3
"""Blocks of a sharded model that are whole at once: the one that is computed, the next, and the copy it comes from."""

_FLOAT = 4


@dataclass(frozen=True, slots=True)
class Memory:
    """Bytes by what they are for."""

    weights: int
    adapter: int
    activations: int
    runtime: int
    kv_cache: int = 0

    @property
    def total(self) -> int:
        """All of them."""
        return sum(getattr(self, field.name) for field in fields(self))

    def __str__(self) -> str:
        """For example ``5.0 GiB``."""
        return f"{self.total / GIB:.1f} GiB"


def planned_dtype(config: TrainConfig) -> Dtype:
    """What a run computes in; ``auto`` is measured on a CPU, so it is that of a GPU."""
    return "bfloat16" if config.dtype == "auto" else config.dtype


def served_adapters(config: TrainConfig) -> int:
    """Adapters that vLLM keeps: the versions that episodes may be under way with, a new one, and at least three."""
    return max(3, config.rollout.max_staleness + 2)


def vocabulary_bytes(shape: ModelShape, dtype: Dtype) -> int:
    """Of an action token while its chunk is projected: logits, and in float32 these again and their exponentials."""
    return shape.vocab * (DTYPE_BYTES[dtype] + 2 * _FLOAT)


def learner_memory(
    shape: ModelShape,
    rank: int,
    dtype: Dtype,
    *,
    tokens: int,
    rows_per_token: float = ROWS_BUDGET,
    gradient_checkpointing: bool,
    logit_chunk_tokens: int,
    processes: int = 1,
) -> Memory:
    """What the learner takes at its highest.

    Autograd keeps ``(5 + 4 rows) D + 4 I`` values of a token in a block (D hidden, I intermediate): inputs of norms and
    projections, what attention has of the token's rows, and the MLP. While a block's gradient is computed there are
    ``2 D + 2 I`` more. With checkpointing blocks keep their input alone, and one is computed again at a time.

    Args:
        shape: Of the model.
        rank: Of the adapter.
        dtype: Of the base model; the adapter, its gradient and Adam's two moments are float32.
        tokens: Of a forward pass, shared ones once.
        rows_per_token: Places in whole rows for each token, above 1 where rows share tokens or are padded.
        gradient_checkpointing: Whether blocks keep their input alone.
        logit_chunk_tokens: Action tokens that are projected to the vocabulary at once.
        processes: That share the weights of the blocks; each has ``_GATHERED`` blocks whole for a while.
    """
    width = DTYPE_BYTES[dtype]
    elsewhere = shape.layers - shape.layers / processes - _GATHERED if processes > 1 else 0
    block = tokens * width * ((5 + 4 * rows_per_token) * shape.hidden + 4 * shape.intermediate)
    kept = shape.layers * (tokens * width * shape.hidden if gradient_checkpointing else block)
    computed = tokens * width * 2 * (shape.hidden + shape.intermediate) + (block if gradient_checkpointing else 0)
    return Memory(
        weights=int((shape.parameters - max(0, elsewhere) * shape.block_parameters) * width),
        adapter=shape.adapter_parameters(rank) * 4 * _FLOAT,
        activations=int(_SLACK * (kept + max(computed, logit_chunk_tokens * vocabulary_bytes(shape, dtype)))),
        runtime=LEARNER_RUNTIME,
    )


def server_memory(config: TrainConfig, shape: ModelShape, *, kv_cache: int, guessed_tokens: int = 0) -> Memory:
    """What vLLM takes of each of its GPUs.

    Args:
        config: The run's settings.
        shape: Of the model; embedding and vocabulary have slots for adapters, too.
        kv_cache: Bytes of the KV cache on each GPU.
        guessed_tokens: Sampled at once, besides one of each sequence.
    """
    width, rank, gpus = DTYPE_BYTES[planned_dtype(config)], config.lora.rank, config.server.tensor_parallel
    adapter = (shape.adapter_parameters(rank) + 2 * rank * (shape.vocab + shape.hidden)) * width
    computed = SERVER_TOKENS * width * (3 * shape.intermediate + 8 * shape.hidden)
    tokens = config.rollout.concurrency + guessed_tokens
    sampled = tokens * shape.vocab * 5 * _FLOAT  # logits, probabilities, logprobs, noise and a copy
    return Memory(
        weights=shape.parameters * width // gpus,
        adapter=served_adapters(config) * adapter // gpus,
        activations=computed + sampled,
        runtime=SERVER_RUNTIME,
        kv_cache=kv_cache,
    )


@dataclass(frozen=True, slots=True)
class CpuNeeds:
    """What a run on the CPU needs, in GiB.

    Attributes:
        trainer: At its highest; under torchrun, all learners of this machine.
        server: Of a vLLM of its own; 0 where the user names one.
        least: Without the learner's activations, which one can lower: below it nothing works.
        token_budget: By which one lowers them.
    """

    trainer: float
    server: float
    least: float
    token_budget: int

    def __str__(self) -> str:
        """For example ``about 8.7 GiB of memory (trainer 3.4, vLLM 5.3)``."""
        server = f", vLLM {self.server:.1f}" if self.server else ""
        return f"about {self.trainer + self.server:.1f} GiB of memory (trainer {self.trainer:.1f}{server})"

    def check(self, available: float | None) -> str:
        """What is free, where the system tells it, and what the run needs, in a line; a warning where that is more.

        Raises:
            ConfigError: Not even the least is free.
        """
        if available is None:
            return f"the run needs {self}"
        if available >= self.trainer + self.server:
            return f"{available:.1f} GiB of memory are free, and the run needs {self}"
        short = (
            f"only {available:.1f} GiB of memory are free, and the run needs {self}; the system may end it without a "
            f"word. End other programs, lower learner.token_budget ({self.token_budget}) or server.kv_cache_gib, or "
            "take a smaller model"
        )
        if available < self.least:
            raise ConfigError(short)
        return f"Warning: {short}"


def cpu_needs(config: TrainConfig, shape: ModelShape) -> CpuNeeds:
    """What a run with these settings needs, whose ``dtype`` is measured."""
    learner = learner_memory(
        shape,
        config.lora.rank,
        planned_dtype(config),
        tokens=config.learner.token_budget,
        rows_per_token=1.0,
        gradient_checkpointing=config.learner.gradient_checkpointing is True,
        logit_chunk_tokens=CPU_LOGIT_CHUNK_TOKENS,
    )
    kv_cache = int((config.server.kv_cache_gib or CPU_KV_CACHE_GIB) * GIB)
    server = server_memory(config, shape, kv_cache=kv_cache, guessed_tokens=MOST_DRAFT_LOGITS // shape.vocab)
    here = torchrun_rank()
    learners = here.local_size if here else 1  # each reads the whole model, also where they share its layers later
    servers = 0 if config.server.urls else config.server.replicas
    fixed = learners * (learner.total - learner.activations) / GIB
    served = servers * server.total / GIB
    activations = learners * CPU_SLACK * learner.activations / GIB
    return CpuNeeds(fixed + activations, served, fixed + served, config.learner.token_budget)

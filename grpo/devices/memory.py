"""How much memory of a GPU a learner and a vLLM server take, computed from the model's shape and the run's settings.

What autograd keeps of a token in a block is counted tensor by tensor (``saved_bytes``), and a test compares it with
what torch keeps. What lives only while a block or a chunk of the vocabulary is computed is counted by its largest
moment. The runtime (CUDA's context, workspaces of libraries, vLLM's CUDA graphs) is an allowance, not a measurement.

All figures are bytes.
"""

from __future__ import annotations

from dataclasses import dataclass, fields

from grpo.devices.shape import DTYPE_BYTES, ModelShape
from grpo.machine.dtype import Dtype

GIB = 1024**3

ROWS_BUDGET = 3
"""Attention works on whole rows: this many times the token budget bounds its memory where rows share much."""

LEARNER_RUNTIME = GIB
SERVER_RUNTIME = int(2.5 * GIB)

SERVER_TOKENS = 8192
"""Tokens that vLLM computes at once (``--max-num-batched-tokens``); longer prompts are cut in chunks."""

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
        """For example ``5.0 GiB (weights 0.9, adapter 0.1, activations 3.0, runtime 1.0)``."""
        parts = [(field.name.replace("_", " "), getattr(self, field.name)) for field in fields(self)]
        shown = ", ".join(f"{name} {size / GIB:.1f}" for name, size in parts if size)
        return f"{self.total / GIB:.1f} GiB ({shown})"


def saved_bytes(
    shape: ModelShape, rank: int, dtype: Dtype, *, rows_per_token: float = 1.0, repeated_keys: bool = False
) -> float:
    """What autograd keeps of a token in one block, in the learner's form of it.

    Args:
        shape: Of the model.
        rank: Of the adapter.
        dtype: Of the base model.
        rows_per_token: Places in whole rows for each token, above 1 where rows share tokens or are padded.
        repeated_keys: Whether attention takes keys and values once for every query head: in float32 on a GPU.

    Returns:
        Bytes: the float32 inputs of two norms; the inputs of q, k, v, of o, and of gate and up; each adapter's r
        values; queries, keys, values and output of attention with its float32 normaliser; gate, its activation, up,
        and their product.
    """
    d, i, q = shape.hidden, shape.intermediate, shape.query_width
    k = q if repeated_keys else shape.kv_width
    kept_in_dtype = 2 * d + q + 7 * rank + 4 * i + rows_per_token * (2 * q + 2 * k)
    return 2 * _FLOAT * (d + 1) + DTYPE_BYTES[dtype] * kept_in_dtype + rows_per_token * _FLOAT * shape.heads


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
    repeated_keys: bool = False,
    gradient_checkpointing: bool,
    logit_chunk_tokens: int,
    processes: int = 1,
) -> Memory:
    """What the learner takes at its highest.

    Args:
        shape: Of the model.
        rank: Of the adapter.
        dtype: Of the base model; the adapter, its gradient and Adam's two moments are float32.
        tokens: Of a forward pass, shared ones once.
        rows_per_token: See ``saved_bytes``.
        repeated_keys: See ``saved_bytes``.
        gradient_checkpointing: Whether blocks keep their input alone.
        logit_chunk_tokens: Action tokens that are projected to the vocabulary at once.
        processes: That share the weights of the blocks; each has ``_GATHERED`` blocks whole for a while.
    """
    width = DTYPE_BYTES[dtype]
    elsewhere = shape.layers - shape.layers / processes - _GATHERED if processes > 1 else 0
    block = tokens * saved_bytes(shape, rank, dtype, rows_per_token=rows_per_token, repeated_keys=repeated_keys)
    # Behind the blocks: the last norm, hidden states, those of action tokens and their gradient, a chunk of logits.
    behind = tokens * shape.hidden * (_FLOAT + 3 * width) + logit_chunk_tokens * vocabulary_bytes(shape, dtype)
    if gradient_checkpointing:
        kept, again = shape.layers * tokens * shape.hidden * width, block
    else:
        kept, again = shape.layers * block, 0
    # The largest moment of a block's backward is in its MLP: three gradients of width I, where one activation is gone.
    gradients = tokens * width * 2 * (shape.intermediate + shape.hidden)
    return Memory(
        weights=int((shape.parameters - max(0, elsewhere) * shape.block_parameters) * width),
        adapter=shape.adapter_parameters(rank) * 4 * _FLOAT,
        activations=int(_SLACK * (kept + max(again + gradients, behind))),
        runtime=LEARNER_RUNTIME,
    )


def server_memory(
    shape: ModelShape,
    rank: int,
    dtype: Dtype,
    *,
    adapters: int,
    sampled_tokens: int,
    kv_cache: int,
    tensor_parallel: int = 1,
) -> Memory:
    """What vLLM takes of each of its GPUs.

    Args:
        shape: Of the model.
        rank: Highest rank that is served.
        dtype: Of the model, its adapters and the KV cache.
        adapters: Slots for adapters; embedding and vocabulary have slots, too.
        sampled_tokens: At once: one of each sequence, and guessed ones.
        kv_cache: Bytes of the KV cache on each GPU.
        tensor_parallel: GPUs that share the model.
    """
    width = DTYPE_BYTES[dtype]
    slots = adapters * (shape.adapter_parameters(rank) + 2 * rank * (shape.vocab + shape.hidden)) * width
    computed = SERVER_TOKENS * width * (3 * shape.intermediate + 8 * shape.hidden)
    sampled = sampled_tokens * shape.vocab * 5 * _FLOAT  # logits, probabilities, logprobs, noise and a copy
    return Memory(
        weights=shape.parameters * width // tensor_parallel,
        adapter=slots // tensor_parallel,
        activations=computed + sampled,
        runtime=SERVER_RUNTIME,
        kv_cache=kv_cache,
    )

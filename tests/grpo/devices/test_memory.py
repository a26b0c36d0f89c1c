"""The memory estimate against what torch keeps: models of the recipes' real shapes on the meta device, without weights."""

import re
import weakref
from dataclasses import replace

import pytest

torch = pytest.importorskip("torch", reason="the learner needs torch (install the extra 'train')")

from peft import LoraConfig, get_peft_model  # noqa: E402
from torch.utils._python_dispatch import TorchDispatchMode  # noqa: E402
from torch.utils._pytree import tree_leaves  # noqa: E402
from transformers import AutoModelForCausalLM, LlamaConfig, Qwen2Config  # noqa: E402

from grpo.config import load_config  # noqa: E402
from grpo.devices.memory import CPU_SLACK, GIB, cpu_needs, learner_memory, server_memory  # noqa: E402
from grpo.devices.plan import plan_gpus  # noqa: E402
from grpo.devices.shape import LINEAR_LAYERS, RECIPES_MODELS, ModelShape  # noqa: E402
from grpo.errors import ConfigError, ModelError  # noqa: E402
from grpo.learner.cpu import attention, fused_lora, shared_rows  # noqa: E402
from grpo.learner.loss import SelectedLogprobs  # noqa: E402
from grpo.learner.segments import Segment  # noqa: E402
from grpo.machine.hardware import Gpu  # noqa: E402
from tests.support.processes import under_torchrun  # noqa: E402

pytestmark = pytest.mark.torch

RANK = 16
SIZES = ("0.5B", "7B", "14B")


def shape_of(size):
    return RECIPES_MODELS[f"Qwen/Qwen2.5-{size}-Instruct"]


def meta_model(shape, *, gradient_checkpointing=False, rank=RANK):
    """The learner's model as ``LocalEngine`` makes it, without memory."""
    config = Qwen2Config(**shape.to_config())
    with torch.device("meta"):
        base = AutoModelForCausalLM.from_config(config, dtype=torch.bfloat16, attn_implementation=attention.register())
        lora = LoraConfig(r=rank, target_modules=LINEAR_LAYERS, lora_dropout=0.0, task_type="CAUSAL_LM")
        model = get_peft_model(base, lora)
    for parameter in model.parameters():
        if parameter.requires_grad:
            parameter.data = parameter.data.float()
    fused_lora.fuse_lora(model)
    if gradient_checkpointing:
        model.gradient_checkpointing_enable({"use_reentrant": False, "preserve_rng_state": False})
    return model.train()


def flash_attention(q, k, v, is_causal, scale, enable_gqa):
    """What ``scaled_dot_product_attention`` is on a GPU; on the meta device it would be its plain form."""
    return torch.ops.aten._scaled_dot_product_flash_attention(q, k, v, 0.0, is_causal, scale=scale)[0]


def some_rows(count, length, shared):
    """Rows of which each begins with the same ``shared`` tokens."""
    mask = [False] * (length - 1) + [True]
    return [
        Segment([*range(shared), *range(1000 * (row + 1), 1000 * (row + 1) + length - shared)], mask, [0.0] * length, 1)
        for row in range(count)
    ]


class LiveMemory(TorchDispatchMode):
    """The bytes of tensors that operations inside have made and that are alive, and the most there were at once."""

    def __init__(self, model):
        super().__init__()
        self.now = self.most = 0
        self.known = {tensor.untyped_storage()._cdata for tensor in [*model.parameters(), *model.buffers()]}

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        made = function(*args, **(kwargs or {}))
        for tensor in tree_leaves(made):
            if isinstance(tensor, torch.Tensor) and tensor.untyped_storage()._cdata not in self.known:
                storage = tensor.untyped_storage()
                self.known.add(storage._cdata)
                self.now += storage.nbytes()
                weakref.finalize(storage, self.freed, storage._cdata, storage.nbytes())
        self.most = max(self.most, self.now)
        return made

    def freed(self, storage, size):
        self.known.discard(storage)
        self.now -= size


def most_bytes(model, rows, chunk):
    """The most memory that a step of the learner takes besides weights and their gradients; a quarter are actions."""
    layout = shared_rows.lay_out(rows)
    ids, actions = (
        torch.zeros(size, dtype=torch.long, device="meta") for size in (len(layout.ids), len(layout.ids) // 4)
    )
    maps = shared_rows.RowMaps.of(layout, torch.device("meta"))
    base = model.get_base_model()
    with LiveMemory(model) as live:
        places = {"input_ids": ids[None], "position_ids": ids[None], "attention_mask": {"full_attention": None}}
        hidden = base.model(**places, use_cache=False, maps=maps).last_hidden_state[0]
        logprobs, _ = SelectedLogprobs.apply(hidden[actions], base.lm_head.weight, actions, chunk)
        del hidden
        logprobs.sum().backward()
    return live.most - sum(parameter.grad.nbytes for parameter in model.parameters() if parameter.grad is not None)


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("gradient_checkpointing", [False, True])
@pytest.mark.parametrize("shared", [0, 384])
def test_the_estimate_holds_all_that_is_alive_at_once_and_at_most_a_third_more(
    size, gradient_checkpointing, shared, monkeypatch
):
    """It has a tenth for memory that is free and fits nothing."""
    monkeypatch.setattr(torch.nn.functional, "scaled_dot_product_attention", flash_attention)
    rows, tokens = some_rows(16, 512, shared), shared + 16 * (512 - shared)
    shape = replace(shape_of(size), layers=4)
    most = most_bytes(meta_model(shape, gradient_checkpointing=gradient_checkpointing), rows, chunk=256)
    estimate = learner_memory(
        shape,
        RANK,
        "bfloat16",
        tokens=tokens,
        rows_per_token=16 * 512 / tokens,
        gradient_checkpointing=gradient_checkpointing,
        logit_chunk_tokens=256,
    )
    assert most <= estimate.activations <= 1.3 * most


@pytest.mark.parametrize("gib", [22.5, 79.1])
@pytest.mark.parametrize("recipe", ["email-gpu", "email-gpu-80gb", "art-e"])
def test_a_recipes_plan_has_room_for_its_fullest_batch_at_full_depth(recipe, gib, monkeypatch):
    """Whole rows of the most tokens that a forward pass takes, with the plan's own choices for a card. The plan has room
    for rows that share a beginning, too, which these do not."""
    monkeypatch.setattr(torch.nn.functional, "scaled_dot_product_attention", flash_attention)
    config = load_config(recipe, {"env": "EmailSearch-v0"})
    shape, longest = RECIPES_MODELS[config.model], config.rollout.max_tokens
    if gib < 24 and recipe != "email-gpu":
        with pytest.raises(ConfigError, match="does not fit"):
            plan_gpus(config, shape, [Gpu("card", gib)])
        return
    plan = plan_gpus(config, shape, [Gpu("card", gib)])
    model = meta_model(shape, gradient_checkpointing=plan.gradient_checkpointing, rank=config.lora.rank)
    rows = some_rows(config.learner.token_budget // longest, longest, 0)
    most = most_bytes(model, rows, plan.logit_chunk_tokens)
    assert most <= plan.learner.activations <= 1.4 * most


@pytest.mark.parametrize("size", SIZES)
def test_weights_and_adapter_are_counted_to_a_thousandth(size):
    shape = shape_of(size)
    model = meta_model(shape)
    adapter = sum(parameter.numel() for parameter in model.parameters() if parameter.requires_grad)
    weights = sum(parameter.numel() for parameter in set(model.parameters())) - adapter
    assert shape.adapter_parameters(RANK) == adapter
    assert shape.parameters == pytest.approx(weights, rel=1e-3)


def test_the_figures_of_the_smallest_model_by_hand():
    """Qwen2.5-0.5B: D 896, I 4,864, Q 896, K 128, V 151,936, 24 blocks."""
    shape = shape_of("0.5B")
    learner = learner_memory(shape, 16, "bfloat16", tokens=1000, gradient_checkpointing=False, logit_chunk_tokens=1)
    block = 1000 * 2 * ((5 + 4 * 3) * 896 + 4 * 4864)
    assert learner.activations == int(1.1 * (24 * block + 1000 * 2 * 2 * (896 + 4864)))
    again = learner_memory(shape, 16, "bfloat16", tokens=1000, gradient_checkpointing=True, logit_chunk_tokens=8192)
    assert again.activations == int(1.1 * (24 * 1000 * 2 * 896 + 8192 * 151936 * (2 + 4 + 4)))
    assert shape.kv_bytes("bfloat16") == 2 * 24 * 128 * 2
    # r x (in + out) of q, k, v, o, and of gate, up and down
    assert shape.adapter_parameters(16) == 24 * 16 * (1792 + 1024 + 1024 + 1792 + 3 * 5760)
    assert shape.parameters == 24 * (2 * 896 * 896 + 2 * 896 * 128 + 3 * 896 * 4864 + 2 * 896) + 896 + 151936 * 896


def test_each_part_grows_with_what_it_is_for():
    shape = shape_of("7B")
    sizes = {"tokens": 8192, "gradient_checkpointing": True, "logit_chunk_tokens": 512}
    usual = learner_memory(shape, 16, "bfloat16", **sizes)
    assert learner_memory(shape, 32, "bfloat16", **sizes).adapter == 2 * usual.adapter
    assert learner_memory(shape, 16, "float32", **sizes).weights == 2 * usual.weights
    without = learner_memory(shape, 16, "bfloat16", **sizes | {"gradient_checkpointing": False})
    assert without.activations > 5 * usual.activations
    many_logits = learner_memory(shape, 16, "bfloat16", **sizes | {"logit_chunk_tokens": 16384})
    assert many_logits.activations > usual.activations
    one, two = (
        server_memory(load_config(None, {"env": "X-v0", "device": "cuda", **gpus}), shape, kv_cache=8 * GIB)
        for gpus in ({}, {"server.tensor_parallel": 2})
    )
    assert two.weights == one.weights // 2
    assert one.total == one.weights + one.adapter + one.activations + one.runtime + 8 * GIB


def test_a_shape_is_read_from_any_llamas_config():
    config = LlamaConfig(hidden_size=64, num_attention_heads=8, num_key_value_heads=2, vocab_size=100).to_dict()
    shape = ModelShape.of(config)
    assert ModelShape.of(shape.to_config()) == shape
    assert (shape.kv_width, shape.query_width, shape.tied) == (16, 64, False)
    assert ModelShape.of(config | {"head_dim": 16}) == replace(shape, head_dim=16)
    with pytest.raises(ModelError, match=r"config.json has no hidden_size, intermediate_size, num_attention_heads"):
        ModelShape.of({"num_hidden_layers": 2, "vocab_size": 10})


SMOLLM2 = ModelShape(30, 576, 1536, 9, 3, 64, 49152, tied=True)


def on_a_cpu(**settings):
    sizes = {"dtype": "float32", "learner.token_budget": 2048, "rollout.concurrency": 48}
    return load_config(None, {"env": "X-v0", **sizes, **settings})


def test_trainer_and_servers_of_ours_are_added_on_a_cpu():
    needs = cpu_needs(on_a_cpu(), SMOLLM2)
    one_row = {"tokens": 2048, "rows_per_token": 1.0, "gradient_checkpointing": False, "logit_chunk_tokens": 512}
    learner = learner_memory(SMOLLM2, 16, "float32", **one_row)
    server = server_memory(on_a_cpu(), SMOLLM2, kv_cache=2 * GIB, guessed_tokens=341)
    assert needs.trainer == pytest.approx((learner.total + (CPU_SLACK - 1) * learner.activations) / GIB)
    assert needs.trainer == pytest.approx(5.4, abs=0.05), "GiB"
    assert needs.server == pytest.approx(server.total / GIB), "48 sampled tokens, and 64 MiB of guessed ones: 341"
    assert needs.least == pytest.approx((learner.total - learner.activations + server.total) / GIB)
    assert cpu_needs(on_a_cpu(**{"server.urls": ["http://127.0.0.1:8000"]}), SMOLLM2).server == 0.0
    two = {"server.replicas": 2, "server.kv_cache_gib": 0.5}
    smaller = server_memory(on_a_cpu(), SMOLLM2, kv_cache=GIB // 2, guessed_tokens=341)
    assert cpu_needs(on_a_cpu(**two), SMOLLM2).server == pytest.approx(2 * smaller.total / GIB)


def test_every_learner_of_this_machine_needs_its_own(monkeypatch):
    alone = cpu_needs(on_a_cpu(), SMOLLM2)
    under_torchrun(monkeypatch, 0, 6, here=3)
    needs = cpu_needs(on_a_cpu(), SMOLLM2)
    assert (needs.trainer, needs.server) == (pytest.approx(3 * alone.trainer), alone.server)
    assert needs.least - needs.server == pytest.approx(3 * (alone.least - alone.server))


def test_enough_memory_is_said_and_a_shortage_names_what_to_lower_and_is_refused_where_nothing_works():
    needs = cpu_needs(on_a_cpu(), SMOLLM2)
    total = needs.trainer + needs.server
    assert needs.least < total
    assert needs.check(None).startswith("the run needs about ")
    assert needs.check(64.0).startswith("64.0 GiB of memory are free, and the run needs about ")
    short = r"only \d+\.\d GiB .* needs about .*vLLM.* without a word. End .* lower learner.token_budget \(2048\)"
    assert re.match(f"Warning: {short}", needs.check((needs.least + total) / 2))
    with pytest.raises(ConfigError, match=f"^{short}"):
        needs.check(needs.least - 0.1)

"""The learner's fast paths against the plain ones, in float32: same values, same gradients."""

from dataclasses import replace

import pytest

torch = pytest.importorskip("torch", reason="the learner needs torch (install the extra 'train')")

from torch.utils._python_dispatch import TorchDispatchMode  # noqa: E402

from grpo.learner.cpu import attention, shared_rows  # noqa: E402
from grpo.learner.cpu.fused_lora import fuse_lora  # noqa: E402
from grpo.learner.cpu.gated_activation import fuse_gates  # noqa: E402
from grpo.learner.cpu.norm import RmsNorm, fuse_norms  # noqa: E402
from grpo.learner.engine import LossSpec  # noqa: E402
from grpo.learner.local_engine import KERNELS  # noqa: E402
from grpo.learner.segments import Segment  # noqa: E402
from tests.support.tiny_model import tiny_engine, tiny_model_folder  # noqa: E402

pytestmark = pytest.mark.torch


def relative(a, b):
    return float(torch.linalg.norm((a - b).detach()) / torch.linalg.norm(b.detach()))


@pytest.mark.parametrize(("heads", "kv_heads"), [(6, 2), (4, 4), (9, 3)])
@pytest.mark.parametrize("block_tokens", [5, 256])
def test_attention_over_a_list_of_tokens_equals_torchs_over_whole_rows(heads, kv_heads, block_tokens, monkeypatch):
    monkeypatch.setattr(attention, "BLOCK_TOKENS", block_tokens)
    rows = four_rows()
    rows.append(replace(rows[0], ids=rows[0].ids[:20]))  # the beginning of another: it has no token of its own
    layout = shared_rows.lay_out(sorted(rows, key=lambda row: row.ids))
    tokens = len(layout.ids)
    blocks = attention.blocks_of(layout)
    assert max(block.stop - block.start for block in blocks) == min(block_tokens, 30)
    torch.manual_seed(0)
    q = torch.randn(heads, tokens, 8, requires_grad=True)
    k, v = (torch.randn(kv_heads, tokens, 8, requires_grad=True) for _ in range(2))
    upstream = torch.randn(tokens, heads, 8)
    mine, *found, kept = used(lambda *x: attention.block_attention(*x, blocks, 0.3), [q, k, v], upstream)
    assert kept == 4 * 8 * tokens * (heads + 2 * kv_heads), "q, k and v; no probability"
    plain = torch.zeros(tokens, heads, 8)
    for pieces, own in zip(layout.rows, layout.own, strict=True):
        if own is None:
            continue
        at = torch.cat([torch.arange(piece.start, piece.start + piece.length) for piece in pieces])
        whole = (x[:, at].repeat_interleave(heads // len(x), 0) for x in (q, k, v))
        row = torch.nn.functional.scaled_dot_product_attention(*whole, is_causal=True, scale=0.3)
        plain = plain.index_copy(0, at[-own.length :], row.transpose(0, 1)[-own.length :])
    expected = torch.autograd.grad(plain, (q, k, v), upstream)
    assert relative(mine, plain) < 1e-6
    assert all(relative(a, b) < 1e-5 for a, b in zip(found, expected, strict=True))


def adapted(folder):
    from peft import LoraConfig, get_peft_model
    from transformers import AutoModelForCausalLM

    base = AutoModelForCausalLM.from_pretrained(str(folder))
    config = LoraConfig(r=4, lora_alpha=10, target_modules="all-linear", lora_dropout=0.0, task_type="CAUSAL_LM")
    model = get_peft_model(base, config)
    generator = torch.Generator().manual_seed(5)
    for name, parameter in model.named_parameters():
        if "lora_" in name:
            parameter.data = torch.randn(parameter.shape, generator=generator) * 0.1
    return model


def own_forwards(model):
    return sum("forward" in vars(module) for module in model.modules())


def tiny_qwen_folder(folder):
    """Qwen2.5's layers, with random biases at q, k and v."""
    from transformers import Qwen2Config, Qwen2ForCausalLM

    torch.manual_seed(1)
    sizes = {"vocab_size": 264, "hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 2}
    model = Qwen2ForCausalLM(Qwen2Config(**sizes, num_attention_heads=4, num_key_value_heads=2))
    for name, parameter in model.named_parameters():
        if name.endswith("bias"):
            torch.nn.init.normal_(parameter)
    model.save_pretrained(str(folder))


@pytest.mark.parametrize("make_folder", [tiny_model_folder, tiny_qwen_folder])
def test_fused_lora_equals_peft_in_value_and_gradient(tmp_path, make_folder):
    make_folder(tmp_path / "model")
    plain, fused = adapted(tmp_path / "model"), adapted(tmp_path / "model")
    fuse_lora(fused)
    assert own_forwards(fused) == 14, "seven linear layers in each of two blocks"
    ids = torch.randint(0, 260, (2, 23), generator=torch.Generator().manual_seed(6))
    results = []
    for model in (plain, fused):
        logits = model(input_ids=ids).logits
        logits.square().mean().backward()
        results.append((logits.detach(), [p.grad for p in model.parameters() if p.requires_grad]))
    (plain_logits, plain_grads), (fused_logits, fused_grads) = results
    assert relative(fused_logits, plain_logits) < 1e-6
    assert max(relative(a, b) for a, b in zip(fused_grads, plain_grads, strict=True)) < 5e-5


def used(function, values, upstream):
    """What it makes of the values, the gradient of each, and how many bytes autograd kept of it."""
    inputs, kept = [value.clone().requires_grad_() for value in values], {}

    def keep(x):
        kept[x.data_ptr()] = x.numel() * x.element_size()
        return x

    with torch.autograd.graph.saved_tensors_hooks(keep, lambda x: x):
        out = function(*inputs)
    return out, *torch.autograd.grad(out, inputs, upstream), sum(kept.values())


def test_every_mlp_gets_the_gated_activation_and_keeps_no_product_before_a_fused_projection(tmp_path):
    tiny_model_folder(tmp_path / "model")
    model = adapted(tmp_path / "model")
    ids = torch.arange(12)[None]
    plain = model(input_ids=ids).logits
    fuse_gates(model)
    assert own_forwards(model) == 2
    assert torch.equal(model(input_ids=ids).logits, plain)

    mlp = model.get_base_model().model.layers[0].mlp
    x = torch.randn(1, 12, mlp.hidden_size, generator=torch.Generator().manual_seed(9))
    parameters = [p for p in mlp.parameters() if p.requires_grad]

    def run(x):
        *found, kept = used(mlp, [x], torch.ones_like(x))
        mlp(x).sum().backward()
        return [*found, *[p.grad.clone() for p in parameters]], kept

    fuse_lora(model)
    mine, my_kept = run(x)
    model.zero_grad()
    del mlp.forward  # transformers' own: the product is kept by the projection, silu(gate) too
    plain, plain_kept = run(x)
    assert len(parameters) == 6
    assert max(relative(one, other) for one, other in zip(mine, plain, strict=True)) < 1e-6
    assert plain_kept - my_kept == 2 * 4 * 12 * mlp.intermediate_size


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_the_norm_keeps_its_input_as_it_came_and_has_the_same_gradient(dtype):
    from transformers.models.llama.modeling_llama import LlamaRMSNorm

    generator = torch.Generator().manual_seed(8)
    x, upstream = (torch.randn(7, 64, generator=generator).to(dtype) for _ in range(2))
    norm = LlamaRMSNorm(64, eps=1e-3).to(dtype).requires_grad_(False)
    norm.weight += torch.randn(64, generator=generator)
    value, grad, plain_kept = used(norm, [x], upstream)
    mine, my_grad, kept = used(lambda x: RmsNorm.apply(x, norm.weight, 1e-3), [x], upstream)
    assert torch.equal(mine, value)
    by_hand = x.double().requires_grad_()
    exact = norm.weight.double() * by_hand / (by_hand.square().mean(-1, keepdim=True) + 1e-3).sqrt()
    (exact_grad,) = torch.autograd.grad(exact, by_hand, upstream.double())
    rounding = torch.finfo(dtype).eps
    assert relative(my_grad, exact_grad) <= relative(grad, exact_grad) + rounding / 10 < 2 * rounding
    size = x.element_size()
    assert kept == size * (7 * 64 + 64) + 4 * 7, "x, w and a number a token"
    assert plain_kept - kept == (4 - size) * 7 * 64, "transformers keeps a float32 copy of x"


def test_norms_that_compute_something_else_stay_as_they_are(tmp_path):
    tiny_model_folder(tmp_path / "model")
    model = adapted(tmp_path / "model")
    layers = model.get_base_model().model.layers
    layers[0].input_layernorm.forward = lambda x: x * 2.0
    layers[1].input_layernorm.weight.requires_grad_(True)
    fuse_norms(model)
    assert own_forwards(model) == 4, "with the one above; two in each of two blocks, and one behind them"


ALONE = [(one,) for one in KERNELS]
ALL_BUT_ONE = [tuple(other for other in KERNELS if other != one) for one in KERNELS]


@pytest.mark.parametrize("kernels", [(), *ALONE, *ALL_BUT_ONE], ids="+".join)
def test_each_kernel_can_be_turned_off_without_changing_values_or_gradients(tmp_path, kernels):
    folder = tiny_model_folder(tmp_path / "model")
    rows = four_rows()
    results = []
    for chosen in (KERNELS, kernels):
        made = tiny_engine(folder, kernels=chosen, token_budget=100)
        statistics = made.forward_backward(rows, LossSpec(normalizer=50, kl_coef=0.1))
        results.append((statistics, torch.cat([p.grad.flatten() for p in made.parameters])))
    (with_all, gradient), (with_some, other_gradient) = results
    for one, other in zip(with_all, with_some, strict=True):
        assert one.logprobs == pytest.approx(other.logprobs, abs=1e-5)
        assert one.reference_logprobs == pytest.approx(other.reference_logprobs, abs=1e-5)
        assert one.loss == pytest.approx(other.loss, abs=1e-6)
    assert relative(gradient, other_gradient) < 1e-5


def row_of(shared, seed):
    """A row of 30 tokens, the first ``shared`` of them those of every other row."""
    own = torch.randint(0, 260, (30 - shared,), generator=torch.Generator().manual_seed(seed))
    ids = [*range(shared), *own.tolist()]
    mask = [at > 20 for at in range(30)]
    return Segment(ids, mask, [-5.5 * acts for acts in mask], seed - 2.5)


def four_rows():
    return [row_of(shared, seed) for shared, seed in ((17, 1), (17, 2), (9, 3), (0, 4))]


class Operations(TorchDispatchMode):
    """Counts the operations of torch that run inside."""

    def __init__(self):
        super().__init__()
        self.count = 0

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        self.count += 1
        return function(*args, **(kwargs or {}))


def test_a_layers_operations_are_bounded_and_do_not_grow_with_the_rows(tmp_path):
    """On a GPU each operation is a launch. Rows of a group have a piece each, so copies piece by piece grew with them."""
    counts = {}
    for layers in (2, 4):
        folder = tiny_model_folder(tmp_path / str(layers), layers=layers)
        made = tiny_engine(folder, kernels=("shared_rows", "fused_lora"))
        for number in (4, 16):
            rows = [row_of(17 - row % 3, row) for row in range(number)]
            with Operations() as forward:
                made._forward(rows)
            counts[layers, number] = forward.count
    per_layer = (counts[4, 4] - counts[2, 4]) / 2
    assert (counts[4, 16] - counts[2, 16]) / 2 == per_layer
    assert per_layer <= 140


@pytest.mark.parametrize("kernels", [KERNELS, ()], ids=["all kernels", "none"])
def test_gradient_checkpointing_changes_no_bit_of_the_gradient_and_keeps_less(tmp_path, kernels):
    folder = tiny_model_folder(tmp_path / "model")
    rows = four_rows()
    found = {}
    for checkpointing in (False, True):
        made = tiny_engine(folder, kernels=kernels, gradient_checkpointing=checkpointing)
        kept: dict[int, int] = {}

        def keep(tensor, kept=kept):
            kept[tensor.untyped_storage().data_ptr()] = tensor.untyped_storage().nbytes()
            return tensor

        with torch.autograd.graph.saved_tensors_hooks(keep, lambda tensor: tensor):
            tokens, _ = made._forward(rows)
        made.forward_backward(rows, LossSpec(normalizer=50))
        gradient = torch.cat([parameter.grad.flatten() for parameter in made.parameters])
        found[checkpointing] = (tokens.logprobs_T.detach(), gradient, sum(kept.values()))
    (plain, gradient, saved), (again, same_gradient, saved_less) = found[False], found[True]
    assert torch.equal(plain, again)
    assert torch.equal(gradient, same_gradient)
    assert gradient.norm() > 0
    assert saved_less < saved / 3

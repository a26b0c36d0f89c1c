"""Merged adapters for vLLM on the CPU: against the unmerged form, with stand-ins for vLLM's classes."""

from types import SimpleNamespace
from typing import Any

import pytest

torch = pytest.importorskip("torch")

from grpo.serving.cpu import merge  # noqa: E402
from grpo.serving.cpu.lora import plan_rows  # noqa: E402
from grpo.serving.cpu.merge import (  # noqa: E402
    MERGE_AFTER_TOKENS,
    Tally,
    compact,
    install_merge,
    merged_weight,
)

SLOTS, RANK, IN, WIDTHS = 3, 4, 6, (5, 2, 2)


def layer_classes() -> tuple[Any, Any]:
    class Layer:
        """What the plugin needs of vLLM's linear layer with LoRA; its unmerged form is marked by a nine."""

        def __init__(self, weight: torch.Tensor):
            self.base_layer = SimpleNamespace(weight=torch.nn.Parameter(weight, requires_grad=False))
            self.punica_wrapper = SimpleNamespace(grpo_merged_slot=None)
            self.lora_a_stacked = tuple(torch.zeros(SLOTS, 1, RANK, IN) for _ in WIDTHS)
            self.lora_b_stacked = tuple(torch.zeros(SLOTS, 1, width, RANK) for width in WIDTHS)

        def _apply_sync(self, x, bias=None):
            return torch.full((len(x), sum(WIDTHS)), 9.0)

        def reset_lora(self, index):
            for stacked in (*self.lora_a_stacked, *self.lora_b_stacked):
                stacked[index] = 0

        def set_lora(self, index, seed):
            self.reset_lora(index)
            generator = torch.Generator().manual_seed(seed)
            for stacked in (*self.lora_a_stacked, *self.lora_b_stacked):
                stacked[index].normal_(generator=generator)

    class Method:
        def process_weights_after_loading(self, layer):
            layer.weight = torch.nn.Parameter(torch.empty(0), requires_grad=False)  # as vLLM: packed elsewhere

    return Layer, Method


@pytest.fixture
def layer(monkeypatch: pytest.MonkeyPatch) -> Any:
    """A layer whose weight vLLM has packed and dropped, with an adapter in slot 1."""

    def multiply_with(weight):
        return lambda x, bias: torch.nn.functional.linear(x, weight, bias)

    monkeypatch.setattr(merge, "packed", multiply_with)
    monkeypatch.setattr(merge, "_has_lora", lambda: True)
    layer_class, method_class = layer_classes()
    install_merge(layer_class, method_class)
    made = layer_class(torch.randn(sum(WIDTHS), IN, generator=torch.Generator().manual_seed(0)))
    made.whole_weight = made.base_layer.weight.data.clone()
    method_class().process_weights_after_loading(made.base_layer)
    assert made.base_layer.weight.numel() == 0
    made.set_lora(1, seed=1)
    return made


def expected(layer: Any, x: torch.Tensor, slot: int) -> torch.Tensor:
    """LoRA, arXiv 2106.09685, eq. 3, slice by slice in float64."""
    base = x.double() @ layer.whole_weight.double().T
    added = [
        x.double() @ a[slot, 0].double().T @ b[slot, 0].double().T
        for a, b in zip(layer.lora_a_stacked, layer.lora_b_stacked, strict=True)
    ]
    return base + torch.cat(added, dim=1)


X = torch.linspace(-1, 1, 2 * IN).view(2, IN)
BIAS = torch.arange(9.0)


def test_a_merged_layer_gives_what_the_base_and_the_adapter_give(layer: Any):
    layer.punica_wrapper.grpo_merged_slot = 1
    torch.testing.assert_close(layer._apply_sync(X, None).double(), expected(layer, X, 1), rtol=1e-5, atol=1e-5)
    torch.testing.assert_close(layer._apply_sync(X, BIAS).double(), expected(layer, X, 1) + BIAS, rtol=1e-5, atol=1e-5)


def test_mixed_batches_and_layers_whose_weight_is_not_known_stay_unmerged(layer: Any):
    assert (layer._apply_sync(X) == 9.0).all()
    layer.punica_wrapper.grpo_merged_slot = 1
    del layer.base_layer.grpo_weight  # as in a quantised layer
    assert (layer._apply_sync(X) == 9.0).all()


def test_another_adapter_in_the_slot_is_merged_anew_and_another_slot_leaves_the_copy(layer: Any):
    layer.punica_wrapper.grpo_merged_slot = 1
    layer._apply_sync(X)
    copy = layer.grpo_merged
    layer.set_lora(2, seed=2)
    layer._apply_sync(X)
    assert layer.grpo_merged is copy
    layer.set_lora(1, seed=3)
    assert layer.grpo_merged is None
    torch.testing.assert_close(layer._apply_sync(X).double(), expected(layer, X, 1), rtol=1e-5, atol=1e-5)
    layer.punica_wrapper.grpo_merged_slot = 2
    torch.testing.assert_close(layer._apply_sync(X).double(), expected(layer, X, 2), rtol=1e-5, atol=1e-5)


def test_in_bfloat16_the_sum_is_made_in_float32_and_rounded_once(layer: Any):
    layer.lora_a_stacked = tuple(stacked.bfloat16() for stacked in layer.lora_a_stacked)
    layer.lora_b_stacked = tuple(stacked.bfloat16() for stacked in layer.lora_b_stacked)
    layer.punica_wrapper.grpo_merged_slot = 1
    weight = merged_weight(layer.base_layer.grpo_weight, layer.lora_a_stacked, layer.lora_b_stacked, 1)
    assert weight.dtype == torch.float32
    half = layer._apply_sync(X.bfloat16(), None)
    assert half.dtype == torch.bfloat16
    assert torch.equal(half, torch.nn.functional.linear(X.bfloat16(), weight.bfloat16()))


def test_weights_are_kept_with_lora_alone(layer: Any, monkeypatch: pytest.MonkeyPatch):
    assert torch.equal(layer.base_layer.grpo_weight, layer.whole_weight)
    _, method = layer_classes()
    install_merge(layer_classes()[0], method)
    half = SimpleNamespace(weight=torch.nn.Parameter(layer.whole_weight.bfloat16(), requires_grad=False))
    method().process_weights_after_loading(half)
    assert torch.equal(half.grpo_weight, layer.whole_weight.bfloat16())
    other = SimpleNamespace(weight=torch.nn.Parameter(layer.whole_weight.to(torch.float16), requires_grad=False))
    method().process_weights_after_loading(other)
    assert not hasattr(other, "grpo_weight")
    monkeypatch.setattr(merge, "_has_lora", lambda: False)
    whole = SimpleNamespace(weight=torch.nn.Parameter(layer.whole_weight.clone(), requires_grad=False))
    method().process_weights_after_loading(whole)
    assert not hasattr(whole, "grpo_weight")


def test_weights_that_bfloat16_holds_are_kept_in_it_and_others_as_they_are():
    exact = torch.tensor([[1.0, -0.5], [3.140625, 2.0**-20]])
    assert compact(exact).dtype == torch.bfloat16
    assert torch.equal(compact(exact).float(), exact)
    rounded = torch.tensor([[1.0, 3.1416]])
    assert compact(rounded) is rounded


def test_merging_leaves_the_kept_weight_alone():
    weight = torch.ones(3, 2)
    a, b = torch.full((1, 1, 1, 2), 2.0), torch.tensor([1.0, 2.0, 3.0]).view(1, 1, 3, 1)
    assert merged_weight(weight, (a,), (b,), 0).tolist() == [[3.0, 3.0], [5.0, 5.0], [7.0, 7.0]]
    assert weight.tolist() == [[1.0, 1.0]] * 3


def test_an_adapter_is_merged_after_enough_tokens_of_its_own_and_never_in_a_mixed_batch():
    tally = Tally()
    alone, mixed = plan_rows(torch.tensor([1, 1])), plan_rows(torch.tensor([1, 0]))
    assert tally.slot(alone, MERGE_AFTER_TOKENS - 1) is None
    assert tally.slot(mixed, MERGE_AFTER_TOKENS) is None
    assert tally.slot(alone, 1) == 1
    assert tally.slot(mixed, 2) is None
    assert tally.slot(alone, 1) == 1
    assert tally.slot(plan_rows(torch.tensor([-1, -1])), 2) is None
    assert tally.slot(plan_rows(torch.tensor([-1, 1])), 2) is None
    assert tally.slot(plan_rows(torch.tensor([0])), MERGE_AFTER_TOKENS - 1) is None
    assert tally.slot(alone, 1) is None, "another adapter was alone meanwhile"

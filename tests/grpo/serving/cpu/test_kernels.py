"""vLLM's kernels for norms and rotary embeddings: chosen where they fit, and right against float64 in a real vLLM."""

import json
import subprocess
import sys
from types import SimpleNamespace
from typing import Any

import pytest

torch = pytest.importorskip("torch")

from grpo.serving.cpu.kernels import PROVIDER, install_kernels  # noqa: E402

NAMES = ("rms_norm", "fused_add_rms_norm", "rotary_embedding")


class StandIn:
    """What the plugin needs of vLLM's table of implementations for one operation."""

    def __init__(self) -> None:
        self.impls: dict[str, Any] = {}

    def register_impl(self, provider: str, **settings: Any) -> Any:
        def keep(function: Any) -> Any:
            self.impls[provider] = SimpleNamespace(function=function, **settings)
            return function

        return keep


def stand_ins() -> tuple[Any, Any, Any]:
    class Platform:
        @classmethod
        def get_default_ir_op_priority(cls, vllm_config: Any) -> Any:
            return SimpleNamespace(rms_norm=["native"], fused_add_rms_norm=["native"], gelu=["native"])

        @classmethod
        def check_and_update_config(cls, vllm_config: Any) -> None:
            vllm_config.checked = True

    ops = SimpleNamespace(rms_norm=StandIn(), fused_add_rms_norm=StandIn())
    return ops, Platform, SimpleNamespace(**dict.fromkeys(NAMES))


def test_the_kernels_come_before_the_native_forms_and_other_operations_stay():
    ops, platform, kernels = stand_ins()
    install_kernels(ops, platform, kernels)
    assert vars(platform.get_default_ir_op_priority(None)) == {
        "rms_norm": [PROVIDER, "native"],
        "fused_add_rms_norm": [PROVIDER, "native"],
        "gelu": ["native"],
    }


@pytest.mark.parametrize(
    ("asked", "then"),
    [
        ([], ["+rotary_embedding"]),
        (["none", "+gelu"], ["none", "+gelu", "+rotary_embedding"]),
        (["none", "-rotary_embedding"], ["none", "-rotary_embedding"]),
        (["all"], ["all"]),
    ],
)
def test_the_kernel_for_rotary_embeddings_is_on_unless_a_user_chose(asked: list[str], then: list[str]):
    ops, platform, kernels = stand_ins()
    install_kernels(ops, platform, kernels)
    config = SimpleNamespace(compilation_config=SimpleNamespace(custom_ops=asked))
    platform.check_and_update_config(config)
    assert (config.checked, config.compilation_config.custom_ops) == (True, then)


IN_VLLM = """
import json, sys
import torch
from grpo.serving.cpu.lora import register
register()
from vllm import ir
from vllm.config import CompilationConfig, VllmConfig, set_current_vllm_config
from vllm.platforms import current_platform
from vllm.model_executor.layers.rotary_embedding.base import RotaryEmbedding

priority = current_platform.get_default_ir_op_priority(VllmConfig())
assert "+rotary_embedding" in VllmConfig().compilation_config.custom_ops
torch.manual_seed(0)
for name in ("rms_norm", "fused_add_rms_norm"):
    getattr(ir.ops, name).set_default(getattr(priority, name))

def exact(x, weight):
    x = x.double()
    return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-5) * weight.double()

def error(seen, expected):
    return float(((seen.double() - expected).abs() / (1 + expected.abs())).max())

found = {}
for dtype in (torch.float32, torch.bfloat16):
    worst = {"norm": 0.0, "sum": 0.0, "rotary": 0.0}
    for rows, width in ((1, 64), (7, 576), (300, 48)):
        wide = torch.randn(rows, 2 * width, dtype=dtype)
        weight = torch.randn(width, dtype=dtype)
        for x in (wide[:, :width].contiguous(), wide[:, :width]):
            assert ir.ops.rms_norm.dispatch(x, weight, 1e-5).provider == (
                "grpo_cpu" if x.is_contiguous() else "native"
            )
            before = x.clone()
            worst["norm"] = max(worst["norm"], error(ir.ops.rms_norm(x, weight, 1e-5), exact(x, weight)))
            assert torch.equal(x, before)
        residual = torch.randn(rows, width, dtype=dtype)
        total = x.double() + residual.double()
        normed, summed = ir.ops.fused_add_rms_norm.maybe_inplace(x.contiguous(), residual, weight, 1e-5)
        worst["sum"] = max(worst["sum"], error(summed, total))
        worst["norm"] = max(worst["norm"], error(normed, exact(total, weight)))
    assert ir.ops.rms_norm.dispatch(x.contiguous(), weight, 1e-5, 16).provider == "native"
    assert ir.ops.rms_norm.dispatch(x.contiguous(), None, 1e-5).provider == "native"
    with set_current_vllm_config(VllmConfig()):
        rotary = RotaryEmbedding(16, 16, 128, 10000.0, True, dtype)
        assert rotary.enabled()
    positions = torch.arange(100)
    query, key = torch.randn(100, 64, dtype=dtype), torch.randn(100, 32, dtype=dtype)
    angles = positions[:, None].double() * 10000.0 ** (-torch.arange(0, 16, 2).double() / 16)
    expected = []
    for part in (query, key):
        first, second = part.double().view(100, -1, 16).chunk(2, -1)
        cos, sin = angles.cos()[:, None], angles.sin()[:, None]
        turned = torch.cat([first * cos - second * sin, second * cos + first * sin], -1)
        expected.append(turned.reshape(part.shape))
    apart = rotary(positions, *(part.clone().view(100, -1, 16) for part in (query, key)))
    for part, right in zip((*apart, *rotary(positions, query, key)), expected * 2, strict=True):
        worst["rotary"] = max(worst["rotary"], error(part.flatten(1), right))
    assert apart[0].shape == (100, 4, 16)
    found[str(dtype).removeprefix("torch.")] = worst
print(json.dumps(found))
"""


@pytest.mark.vllm
def test_in_a_real_vllm_the_kernels_are_as_exact_as_their_number_format():
    ran = subprocess.run([sys.executable, "-c", IN_VLLM], capture_output=True, text=True, timeout=300)
    assert ran.returncode == 0, ran.stderr[-2000:]
    found = json.loads(ran.stdout.splitlines()[-1])
    assert max(found["float32"].values()) < 1e-5
    assert max(found["bfloat16"].values()) < 2**-6

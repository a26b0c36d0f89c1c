"""What vLLM would be started with on GPUs, for a model of every family, is taken by its parser and configuration."""

import subprocess

import pytest

from grpo.serving.vllm_options import ServerOptions
from judges.common.files import read_json
from tests.support.families import TINY, tiny_family
from tests.support.pretended_card import configured

pytestmark = pytest.mark.vllm
CARDS = {"Ampere": (8, 0), "Ada": (8, 9), "Hopper": (9, 0)}


@pytest.mark.parametrize("of_torchvision", [False, True])
def test_every_family_is_configured_with_lora_on_every_kind_of_card(tmp_path, of_torchvision):
    kinds = [kind for kind in TINY if kind.startswith("qwen3_5") is of_torchvision]
    if of_torchvision:
        pytest.importorskip("torchvision", reason="vLLM needs it for Qwen3.5, and no CPU build of it may be here")
    options = ServerOptions(device="cuda", dtype="bfloat16", max_model_len=256, max_lora_rank=16, sleep_mode=True)
    lines, caches = [], []
    for kind in kinds:
        folder = tiny_family(tmp_path / kind, kind)
        of_kind = options.of_model(read_json(folder / "config.json"))
        lines.append(of_kind.arguments(folder, "base", 1))
        caches.append(of_kind.prefix_caching)
    found = configured(lines, list(CARDS.values()))
    assert len(found) == len(kinds) * len(CARDS)
    for number, one in enumerate(found):
        kind = number // len(CARDS)
        (name,) = read_json(tmp_path / kinds[kind] / "config.json")["architectures"]
        expected = {"architecture": name, "dtype": "torch.bfloat16", "takes_lora": True, "rank": 16, "length": 256}
        assert one == expected | {"caches": caches[kind], "sleeps": True}


def test_what_the_configuration_refuses_is_an_error_here(tmp_path, capfd):
    folder = tiny_family(tmp_path / "llama", "llama")
    too_long = ServerOptions(device="cuda", dtype="bfloat16", max_model_len=100_000)
    with pytest.raises(subprocess.CalledProcessError):
        configured([too_long.arguments(folder, "base", 1)], [CARDS["Ada"]])
    assert "User-specified max_model_len (100000) is greater than" in capfd.readouterr().err

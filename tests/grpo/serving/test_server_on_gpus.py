"""What vLLM is started with on GPUs: cards, shares of their memory, and arguments that are the user's."""

import itertools
import json
from collections.abc import Callable
from pathlib import Path

import pytest

from grpo.config import load_config
from grpo.devices.shape import RECIPES_MODELS
from grpo.errors import ConfigError, ServerStartError
from grpo.serving.vllm import VllmServer, built_for, make_servers
from grpo.serving.vllm_options import ServerOptions


def model_in(folder: Path, name: str = "Qwen/Qwen2.5-0.5B-Instruct") -> None:
    """As much of a model as its shape is read from."""
    shape = RECIPES_MODELS[name].to_config()
    (folder / "config.json").write_text(json.dumps(shape | {"max_position_embeddings": 32768}))


def test_on_a_gpu_a_server_gets_its_card_and_its_share(tmp_path: Path, nvidia_smi: Callable[..., None]):
    nvidia_smi(24564, 24564)
    model_in(tmp_path)
    settings = {"device": "cuda", "rollout.concurrency": 32, "rollout.max_tokens": 2048}
    config = load_config(None, {"env": "X-v0", **settings, "server.extra_args": ["--enforce-eager"]})
    (server,) = make_servers(config, tmp_path, tmp_path / "log")
    assert isinstance(server, VllmServer)
    arguments = server.options.arguments(tmp_path, "base", 1)
    pairs = dict(itertools.pairwise(arguments))
    assert pairs["--kv-cache-memory-bytes"] == str((32 * 2048 + 64) * 2 * 24 * 128 * 2)
    assert pairs["--dtype"] == "bfloat16"
    assert pairs["--max-num-batched-tokens"] == "8192"
    assert pairs["--tensor-parallel-size"] == "1"
    assert 0.15 < float(pairs["--gpu-memory-utilization"]) < 0.3
    assert arguments[-1] == "--enforce-eager"
    environment = server.options.environment()
    assert environment["CUDA_VISIBLE_DEVICES"] == "0"
    assert environment["CUDA_DEVICE_ORDER"] == "PCI_BUS_ID"


@pytest.mark.parametrize(("size", "sleeps"), [("0.5B", False), ("7B", True)])
def test_where_learner_and_vllm_take_turns_vllm_can_sleep(tmp_path: Path, nvidia_smi, monkeypatch, size, sleeps):
    nvidia_smi(24564)
    monkeypatch.setattr("grpo.devices.plan.memory_gib", lambda: 48.0)
    model_in(tmp_path, f"Qwen/Qwen2.5-{size}-Instruct")
    short = {"learner.token_budget": 4096, "rollout.max_tokens": 2048, "rollout.concurrency": 16}
    config = load_config(None, {"env": "X-v0", "device": "cuda", **short})
    (server,) = make_servers(config, tmp_path, tmp_path / "log")
    assert isinstance(server, VllmServer)
    variables, arguments = server.options.environment(), server.options.arguments(tmp_path, "base", 1)
    assert (variables.get("VLLM_SERVER_DEV_MODE") == "1") == ("--enable-sleep-mode" in arguments) == sleeps


@pytest.mark.parametrize(
    "argument",
    ["--max-model-len=7", "--max_model_len", "--no-enable-lora", "-tp", "--api-key", "--dtype", "--enable-sleep-mode"],
)
def test_arguments_of_ours_are_not_taken_from_the_user(tmp_path: Path, argument: str):
    settings = {"env": "X-v0", "dtype": "float32", "server.extra_args": ["--seed-oss", argument, "8"]}
    with pytest.raises(ConfigError, match=rf"server.extra_args has {argument.partition('=')[0]}, which a run sets"):
        make_servers(load_config(None, settings), tmp_path, tmp_path / "log")


GIVEN = "is of servers that are started, but server.urls names 1"


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"urls": ["http://a"], "kv_cache_gib": 1}, f"server.kv_cache_gib = 1.0 {GIVEN}"),
        ({"urls": ["http://a"], "replicas": 2}, f"server.replicas = 2 {GIVEN}"),
        ({"urls": ["http://a", "http://a/v1/"]}, "names a server twice"),
        ({"tensor_parallel": 2}, "server.tensor_parallel is for GPUs, but device = 'cpu'"),
        ({"sleep_mode": False}, "server.sleep_mode is for GPUs, but device = 'cpu'"),
    ],
)
def test_settings_of_a_server_that_contradict_each_other_are_refused(settings: dict[str, object], said: str):
    with pytest.raises(ConfigError, match=said):
        load_config(None, {"env": "X-v0", "server": settings})


def test_a_vllm_of_the_other_kind_is_refused_before_it_starts(tmp_path: Path):
    if built_for() != "cpu":
        pytest.skip("vLLM for CPUs is not installed (extra 'cpu')")
    server = VllmServer(tmp_path, tmp_path / "log", ServerOptions(device="cuda"))
    with pytest.raises(
        ServerStartError, match=r"on a GPU \(device = 'cuda'\), but .* is built for CPUs; say --cpu, or"
    ):
        server.command(tmp_path, 1)


def test_each_of_several_servers_has_a_gpu_of_its_own(
    tmp_path: Path, nvidia_smi: Callable[..., None], monkeypatch: pytest.MonkeyPatch
):
    nvidia_smi(*[24564] * 8)
    model_in(tmp_path)
    config = load_config(None, {"env": "X-v0", "device": "cuda", "server.replicas": 2})

    def seen() -> list[str]:
        servers = make_servers(config, tmp_path, tmp_path / "log")
        return [s.options.environment()["CUDA_VISIBLE_DEVICES"] for s in servers if isinstance(s, VllmServer)]

    assert seen() == ["0", "1"]
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "4, 6,7")
    assert seen() == ["4", "6"]
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "4")
    with pytest.raises(ConfigError, match=r"2 vLLM server\(s\) x server.tensor_parallel = 1 .* 1 GPU\(s\) are visible"):
        make_servers(config, tmp_path, tmp_path / "log")

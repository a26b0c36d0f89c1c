"""What a vLLM server is started with: its arguments and its environment.

Sampling must be the trainer's: ``--generation-config vllm`` keeps the model's own sampling defaults out, and
``--logprobs-mode processed_logprobs`` returns the log-probabilities of what was sampled from.

On the CPU a batch has room for every prompt, so none is cut in chunks. For a request with a seed vLLM 0.32 would rewind
the generator of a partly processed prompt. torch's CPU generator cannot do that, and the engine dies ("CPU Generator
does not use offset").
"""

import importlib.util
import json
import os
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal, Self

from grpo.config import TrainConfig
from grpo.devices.frozen_parts import has_experts
from grpo.devices.memory import CPU_KV_CACHE_GIB, GIB, SERVER_TOKENS, served_adapters
from grpo.devices.plan import CARD_ORDER, plan_gpus
from grpo.devices.shape import ModelShape, carries_state, decoder_config, is_beside_images
from grpo.errors import ConfigError
from grpo.machine.hardware import cpu_count, has_amx, spin_count, usable_cores
from grpo.machine.installed import can_compile_for_cpu, has_room
from grpo.machine.probe import Dtype, computing_dtype
from grpo.machine.processes import child_environment, kept_memory
from grpo.serving.vllm_main import CORES_VARIABLE, THREADS_VARIABLE
from judges.common.files import read_json

LORA_RANKS = (1, 8, 16, 32, 64, 128, 256, 320, 512)
"""The maximum ranks that vLLM knows."""

CPU_ROOM = "grpo.serving.cpu"
"""What vLLM on a CPU needs; a folder that can be taken out where none serves on a CPU."""
PLUGIN = "grpo_cpu_lora"
"""What ``pyproject.toml`` calls ``vllm_main.register``, by which vLLM finds that room."""
ONE_ENGINE_PROCESS = "vllm.v1.executor.uniproc_executor.UniProcExecutor"
"""The model in vLLM's engine process. On the CPU vLLM would start one more for it, to give it OpenMP's variables before
torch is loaded; ``vllm_main`` gives them to the engine process."""
PROPOSER = f"{CPU_ROOM}.drafts.Proposer"
"""What vLLM's engine process loads and asks for guesses."""
_OTHERS_OF_OURS = frozenset(
    {"-tp", "-dp", "-pp", "--data-parallel-size", "--pipeline-parallel-size", "--enable-sleep-mode", "--block-size"}
    | {"--api-key", "--lora-modules", "--ssl-certfile", "--ssl-keyfile", "--root-path", "--uds", "--headless"}
)
"""Arguments with which requests of ours would find no server, or not the one that was planned."""


@dataclass(frozen=True, slots=True)
class ServerOptions:
    """Settings of a vLLM server.

    Attributes:
        device: Where it runs.
        dtype: What the model, its adapters and the KV cache are in; a token takes twice the cache in float32.
        max_model_len: Longest sequence, prompt and answer together, in tokens.
        max_lora_rank: Highest rank of an adapter; rounded up to the next of ``LORA_RANKS``.
        max_loras: Adapters that one batch may mix, which is also the number of versions that should be alive.
        max_num_seqs: Sequences decoded at once.
        threads: CPU cores for the model (CPU only); None: all that this process may use.
        share: Which of how many servers of one run it is, from 0: (1, 2) is the second of two. It gets its share of the
            cores; which GPUs are its own, ``cards`` says.
        host: Address to listen on; adapters can be loaded over it, so it should stay a loopback address.
        port: Port to listen on; 0: any free one.
        kv_cache_gib: Memory for the KV cache, in GiB; None: 2 on the CPU, and on a GPU what is left of
            ``gpu_memory_utilization``.
        prefix_caching: Whether requests share the cache of a common beginning. Not where a model carries a state: vLLM
            would cut prompts in chunks for it, see the module.
        text_alone: Whether the model's part for images stays out of memory.
        draft_tokens: Tokens that the server guesses ahead in a step at most (speculative decoding, CPU only); 0: none.
            A server that guesses refuses requests with ``logit_bias`` or ``min_p``.
        gpu_memory_utilization: Share of the GPU's memory that vLLM may take; it does not start where less is free.
        cards: The GPUs that it sees, as ``CUDA_VISIBLE_DEVICES`` names them; empty: all.
        tensor_parallel: GPUs that share the model.
        sleep_mode: Whether it can give its GPU's memory back for a while (``VllmServer.sleep``). On the CPU it keeps
            its memory and computes nothing meanwhile.
        key: What clients must show; empty: nothing; None: what is made up for this server alone.
        seed: vLLM's own seed; requests carry theirs.
        extra_args: Further arguments of ``vllm serve``, last and therefore winning.
    """

    device: Literal["cpu", "cuda"] = "cpu"
    dtype: Dtype = "float32"
    max_model_len: int = 4096
    max_lora_rank: int = 16
    max_loras: int = 3
    max_num_seqs: int = 64
    threads: int | None = None
    share: tuple[int, int] = (0, 1)
    host: str = "127.0.0.1"
    port: int = 0
    kv_cache_gib: float | None = None
    prefix_caching: bool = True
    text_alone: bool = False
    draft_tokens: int = 15
    gpu_memory_utilization: float = 0.45
    cards: tuple[str, ...] = ()
    tensor_parallel: int = 1
    sleep_mode: bool = False
    key: str | None = None
    seed: int = 0
    extra_args: tuple[str, ...] = ()

    def arguments(self, model_path: Path, served_name: str, port: int) -> list[str]:
        """Arguments of vLLM's API server.

        Raises:
            ConfigError: The adapter's rank is above what vLLM serves; on a CPU, ``CPU_ROOM`` was taken out.
        """
        arguments = [
            *("--model", str(model_path), "--served-model-name", served_name),
            *("--host", self.host, "--port", str(port), "--disable-uvicorn-access-log"),
            *("--max-model-len", str(self.max_model_len), "--max-num-seqs", str(self.max_num_seqs)),
            *(
                "--enable-lora",
                "--max-lora-rank",
                str(served_rank(self.max_lora_rank)),
                "--max-loras",
                str(self.max_loras),
            ),
            *("--logprobs-mode", "processed_logprobs", "--generation-config", "vllm"),
            *(
                "--enable-prefix-caching" if self.prefix_caching else "--no-enable-prefix-caching",
                "--dtype",
                self.dtype,
                "--seed",
                str(self.seed),
            ),
            *(["--language-model-only"] if self.text_alone else []),
        ]
        kv_cache_gib = self.kv_cache_gib
        if self.device == "cpu":
            check_cpu_room()
            # With an explicit cache vLLM skips a warm-up that would size it. Small blocks share more of a prefix.
            kv_cache_gib = kv_cache_gib or CPU_KV_CACHE_GIB
            # No prompt is cut in chunks; see the module.
            batched_tokens = self.max_num_seqs * self.max_model_len
            arguments += ["--block-size", "32", "--max-num-batched-tokens", str(batched_tokens)]
            arguments += ["--distributed-executor-backend", ONE_ENGINE_PROCESS]
            if self.draft_tokens:
                guessing = {"method": "custom_class", "model": PROPOSER, "num_speculative_tokens": self.draft_tokens}
                arguments += ["--speculative-config", json.dumps(guessing)]
        else:
            batched_tokens = max(SERVER_TOKENS, self.max_num_seqs)
            arguments += ["--max-num-batched-tokens", str(batched_tokens)]
            arguments += ["--gpu-memory-utilization", str(self.gpu_memory_utilization)]
            arguments += ["--tensor-parallel-size", str(self.tensor_parallel)]
            arguments += ["--enable-sleep-mode"] if self.sleep_mode else []
        if kv_cache_gib is not None:
            arguments += ["--kv-cache-memory-bytes", str(int(kv_cache_gib * GIB))]
        return [*arguments, *self.extra_args]

    def of_model(self, config: Mapping[str, Any]) -> Self:
        """What the model of this ``config.json`` needs, too."""
        options = replace(self, text_alone=is_beside_images(config))
        return replace(options, prefix_caching=False, draft_tokens=0) if carries_state(config) else options

    def environment(self) -> dict[str, str]:
        """Environment of vLLM's processes."""
        variables = {
            "VLLM_ALLOW_RUNTIME_LORA_UPDATING": "1",
            "VLLM_HOST_IP": "127.0.0.1",  # what its processes tell each other stays on this machine
            "VLLM_NO_USAGE_STATS": "1",
            "VLLM_ENGINE_READY_TIMEOUT_S": os.environ.get("VLLM_ENGINE_READY_TIMEOUT_S", "1800"),  # its own is 600
            "DO_NOT_TRACK": "1",
            "HF_HUB_OFFLINE": "1",  # the model is a folder; nothing is to be fetched
            "TOKENIZERS_PARALLELISM": "false",
            "PYTHONUNBUFFERED": "1",
        }
        number, servers = self.share
        if self.device == "cpu":
            variables |= kept_memory() | spin_count()
            if (chosen := os.environ.get("VLLM_PLUGINS")) is not None:  # the user's choice would leave ours out
                variables["VLLM_PLUGINS"] = f"{chosen},{PLUGIN}".lstrip(",")
            if not can_compile_for_cpu():  # vLLM compiles two small functions, which torch also runs as they are
                variables["TORCHDYNAMO_DISABLE"] = "1"
            all_cores, threads = usable_cores(), self.threads or cpu_count()
            cores = all_cores[:threads]
            if servers == 1 and len(cores) < len(all_cores):  # which of them are idle only the system knows
                variables[THREADS_VARIABLE] = str(threads)
            else:
                own = cores[len(cores) * number // servers : len(cores) * (number + 1) // servers]
                variables[CORES_VARIABLE] = ",".join(map(str, own))
        else:  # top_p without a seed would take flashinfer's sampler, which needs a CUDA toolkit to compile
            variables["VLLM_USE_FLASHINFER_SAMPLER"] = os.environ.get("VLLM_USE_FLASHINFER_SAMPLER", "0")
        if self.sleep_mode:
            variables["VLLM_SERVER_DEV_MODE"] = "1"  # without it vLLM has no /sleep
        if self.cards:
            variables |= CARD_ORDER | {"CUDA_VISIBLE_DEVICES": ",".join(self.cards)}
        return child_environment(variables)

    def check_model(self, model_path: Path) -> None:
        """Refuse a sequence length that the model was not made for, and what vLLM does not serve on a CPU.

        Raises:
            ConfigError: ``max_model_len`` is above the model's limit; or, on a CPU, the model has experts, or linear
                attention and not what vLLM needs for it.
        """
        config = decoder_config(json.loads((model_path / "config.json").read_text(encoding="utf-8")))
        limit = config.get("max_position_embeddings")
        if isinstance(limit, int) and self.max_model_len > limit:
            raise ConfigError(
                f"max_model_len is {self.max_model_len} tokens, but the model in {model_path} was made for {limit}: "
                "choose shorter episodes or another model"
            )
        if self.device != "cpu":
            return
        elsewhere = "sample on a GPU (--cuda), or name a server that somebody else runs (server.urls)"
        if has_experts(config):
            raise ConfigError(
                f"the model in {model_path} has experts, which vLLM computes with LoRA on GPUs alone; {elsewhere}"
            )
        if "linear_num_key_heads" in config and not (self.dtype == "bfloat16" and has_amx()):
            amx = "has AMX: --set dtype=bfloat16" if has_amx() else "has no AMX"
            raise ConfigError(
                f"the model in {model_path} has linear attention, which vLLM computes on a CPU with AMX and in "
                f"bfloat16 alone; dtype is {self.dtype}, and this CPU {amx}, {elsewhere}"
            )
        if str(config.get("model_type")).startswith("qwen3_5") and importlib.util.find_spec("torchvision") is None:
            raise ConfigError(
                "vLLM needs torchvision for Qwen3.5, also for text alone; install the one of this torch (for a CPU "
                f"from PyTorch's own index), {elsewhere}"
            )


def check_cpu_room() -> None:
    """vLLM as it is gives requests for the base model an adapter where a batch on a CPU mixes them.

    Raises:
        ConfigError: What repairs that was taken out of this installation.
    """
    if not has_room(CPU_ROOM):
        raise ConfigError(
            f"vLLM on a CPU needs {CPU_ROOM}, which was taken out of this installation: without it requests for the "
            "base model are answered with an adapter. Install the whole package, sample on a GPU (--cuda), or name a "
            "server that somebody else runs (server.urls)"
        )


def server_options(
    config: TrainConfig, model_path: Path, learners: int | None, shape: ModelShape | None = None
) -> list[ServerOptions]:
    """What servers of our own are started with; see ``make_servers``. ``shape`` stands in for a model not yet here."""
    options = ServerOptions(
        device=config.device,
        dtype=computing_dtype(config.dtype, config.device, model_path).dtype,
        max_model_len=config.rollout.max_tokens,
        max_lora_rank=config.lora.rank,
        max_loras=served_adapters(config),
        max_num_seqs=config.rollout.concurrency,
        threads=config.threads,
        seed=config.seed,
        kv_cache_gib=config.server.kv_cache_gib,
    )
    if (config_file := model_path / "config.json").is_file():
        options = options.of_model(read_json(config_file))
    servers = [replace(options, share=(index, config.server.replicas)) for index in range(config.server.replicas)]
    if config.device == "cuda":
        plan = plan_gpus(config, shape or ModelShape.read(model_path), learners=learners)
        assert plan.server is not None, "a server is ours"
        servers = [
            replace(
                server,
                cards=plan.server_cards(number),
                tensor_parallel=len(plan.server_cards(number)),
                kv_cache_gib=plan.server.kv_cache / GIB,
                gpu_memory_utilization=plan.gpu_memory_utilization,
                sleep_mode=plan.in_turns,
            )
            for number, server in enumerate(servers)
        ]
    return [with_user_arguments(server, config.server.extra_args) for server in servers]


def with_user_arguments(options: ServerOptions, arguments: tuple[str, ...]) -> ServerOptions:
    """The options with further arguments of the user's.

    Raises:
        ConfigError: One of them is an argument of ours: a run sets it itself, and computes with what it set.
    """
    taken = {_flag(argument) for argument in options.arguments(Path(), "", 0)} | _OTHERS_OF_OURS
    for argument in arguments:
        if argument.startswith("-") and _flag(argument) in taken:
            raise ConfigError(
                f"server.extra_args has {argument.partition('=')[0]}, which a run sets itself; leave it out. Settings "
                "that are like it: server.kv_cache_gib, server.tensor_parallel, rollout.max_tokens, "
                "rollout.concurrency, dtype"
            )
    return replace(options, extra_args=(*options.extra_args, *arguments))


def _flag(argument: str) -> str:
    """``--no-max_model_len=3`` is ``--max-model-len``."""
    name = argument.partition("=")[0].replace("_", "-")
    return name.replace("--no-", "--", 1)


def served_rank(rank: int) -> int:
    """The lowest maximum rank of vLLM that takes an adapter of ``rank``.

    Raises:
        ConfigError: There is none.
    """
    for served in LORA_RANKS:
        if rank <= served:
            return served
    raise ConfigError(f"LoRA rank {rank} is above {LORA_RANKS[-1]}, the highest that vLLM serves")

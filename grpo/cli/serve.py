"""``grpo-serve``: what a run has learned, behind an OpenAI-compatible URL, until Ctrl-C."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import click
from pydantic import Field

from grpo.cli.common import explained
from grpo.cli.options import setting_options
from grpo.config import Dtype, TrainConfig, checked, load_config, settings_of
from grpo.machine.hardware import share_cores
from grpo.serving.server import KEY_VARIABLE
from grpo.settings import Settings
from judges.common.files import scratch_folder

if TYPE_CHECKING:
    from grpo.chat import ServedChat
    from grpo.devices.shape import ModelShape
    from grpo.runs.trained_policy import TrainedPolicy
    from grpo.serving.vllm import VllmServer
    from grpo.serving.vllm_options import ServerOptions

EXAMPLE = """Serving {name} at {url}/v1 (Ctrl-C ends it)

  curl {url}/v1/chat/completions -H 'Content-Type: application/json'{curl} \\
    -d '{{"model": "{name}", "messages": [{{"role": "user", "content": "Hello"}}], "max_tokens": 64}}'

  from openai import OpenAI
  client = OpenAI(base_url="{url}/v1", api_key={python})
  client.chat.completions.create(model="{name}", messages=[{{"role": "user", "content": "Hello"}}])
"""


class ServeConfig(Settings):
    """How a policy is served."""

    checkpoint: str = Field(default="newest", description="newest, best (by held-out score), or a step's number")
    model: str | None = Field(default=None, description="base model; without it the one it was trained on")
    host: str = Field(default="127.0.0.1", description="address to listen on")
    port: int = Field(default=8000, ge=0, le=65535, description="port to listen on; 0: any free one")
    device: Literal["cpu", "cuda"] | None = None
    dtype: Dtype | None = Field(
        default=None,
        description="what it computes in; auto: what is faster here; without it as the run was trained, else auto",
    )
    threads: int | None = Field(default=None, ge=1, description="CPU threads; without it all")
    key: bool = Field(
        default=True,
        description="whether requests must show a key: the one in VLLM_API_KEY, else one that is made up and shown",
    )
    draft_tokens: int = Field(
        default=0,
        ge=0,
        le=64,
        description="tokens that vLLM on the CPU guesses ahead in a step at most, to answer sooner; with guesses it "
        "refuses requests with logit_bias or min_p",
    )


@click.command(short_help="Serve a policy with OpenAI's protocol.", epilog="Example: grpo-serve runs/first --port 8000")
@click.argument("run", type=click.Path(exists=True, file_okay=False, path_type=Path))
@setting_options(ServeConfig, *settings_of(ServeConfig))
@click.option("--log", type=click.Path(path_type=Path), help="vLLM's log.  [default: a temporary file]")
@click.option(
    "--dry-run", is_flag=True, help="Show where, with what memory and arguments vLLM would run; start nothing."
)
@explained(lambda _options: "The server is gone.")
def serve(run: Path, given: dict[str, Any], log: Path | None, dry_run: bool) -> None:
    """Serve the policy of RUN (a run directory or an adapter folder) with vLLM."""
    from grpo.devices.plan import plan_gpus
    from grpo.devices.shape import ModelShape
    from grpo.display.terminal import Display
    from grpo.machine.adapters import check_adapter_of
    from grpo.machine.models import resolve_model
    from grpo.runs.trained_policy import find_policy, served_policy
    from grpo.serving.vllm import VllmServer

    share_cores()
    asked = checked(ServeConfig, given)
    policy = find_policy(run, asked.checkpoint, asked.model)
    config = _settings(policy, asked)
    if asked.draft_tokens and config.device == "cuda":
        raise click.UsageError("--draft-tokens is for the CPU, and this would be on a GPU; leave it out, or add --cpu")
    if dry_run:
        for line in what_would_be_served(policy, config, asked):
            click.echo(line)
        return
    base = resolve_model(policy.model)
    check_adapter_of(policy.adapter, base.path)
    served = served_policy(policy, base.path)
    options = _options(policy, config, asked, base.path)
    with scratch_folder("grpo-serve") as scratch, Display() as display:
        if served is not None:
            options = replace(options, extra_args=(*options.extra_args, *_chat_arguments(served, scratch)))
        server = VllmServer(base.path, log or scratch / "server.log", options)
        try:
            if config.device == "cuda":
                for line in plan_gpus(config, ModelShape.read(base.path), learners=0).lines():
                    display.note(line)
            server.start()
            display.note(
                f"vLLM is starting with {policy.adapter}, computing in {options.dtype}; its log: {server.log_path}"
            )
            seconds = server.wait_ready(display.note)
            display.note(f"vLLM is ready ({seconds:.0f} s after its start)")
            click.echo(EXAMPLE.format(name=policy.name, url=server.url, **_how_to_show(server.key)))
            _watch(server)
        finally:
            server.stop()


def _settings(policy: TrainedPolicy, asked: ServeConfig) -> TrainConfig:
    """Those of the run, or the defaults, for one server of ours and nothing that trains."""
    from grpo.machine.hardware import visible_gpus
    from grpo.serving.vllm import built_for

    here = "cuda" if visible_gpus() and built_for() != "cpu" else "cpu"
    config = policy.config or load_config(None, {"env": "", "device": here})
    device = asked.device or config.device
    changes = {
        "device": device,
        "dtype": asked.dtype or (config.dtype if device == config.device else "auto"),
        "threads": asked.threads,
        "lora": config.lora.model_copy(update={"rank": policy.rank}),
        "server": config.server.model_copy(update={"urls": [], "replicas": 1}),
    }
    return config.model_copy(update=changes)


def _options(
    policy: TrainedPolicy, config: TrainConfig, asked: ServeConfig, base: Path, shape: ModelShape | None = None
) -> ServerOptions:
    """As a run starts vLLM, but with this adapter alone; on a GPU it has the memory to itself."""
    from grpo.serving.vllm_options import server_options

    (options,) = server_options(config, base, 0, shape)
    adapter = ("--lora-modules", f"{policy.name}={policy.adapter.resolve()}")
    options = replace(options, host=asked.host, port=asked.port, extra_args=(*options.extra_args, *adapter))
    return replace(options, max_loras=1, key=_key() if asked.key else "", draft_tokens=asked.draft_tokens)


def _key() -> str | None:
    return os.environ.get(KEY_VARIABLE) or None


def _how_to_show(key: str) -> dict[str, str]:
    """A key in the two examples; the user's own is not written on the screen."""
    if key and key == _key():
        return {"curl": ' -H "Authorization: Bearer $VLLM_API_KEY"', "python": 'os.environ["VLLM_API_KEY"]'}
    return {"curl": f" -H 'Authorization: Bearer {key}'" if key else "", "python": json.dumps(key or "none")}


def what_would_be_served(policy: TrainedPolicy, config: TrainConfig, asked: ServeConfig) -> Iterator[str]:
    """Lines about the policy, the devices with their memory, and vLLM's arguments; nothing is fetched or started.

    Raises:
        ConfigError: It does not fit on the GPU.
        ModelError: The base model's name is none.
    """
    from grpo.cli.before_start import memory_of_gpus, model_at_hand, vllms_arguments

    model, base, shape = model_at_hand(policy.model)
    yield f"policy: {policy.adapter}, as {policy.name!r}"
    yield model
    if config.device == "cuda":
        yield from memory_of_gpus(config, shape, learners=0)
    yield vllms_arguments(config, base, shape, lambda: _options(policy, config, asked, base, shape))


def _chat_arguments(served: ServedChat, scratch: Path) -> tuple[str, ...]:
    from grpo.chat import TEMPLATE_FILE

    template = scratch / TEMPLATE_FILE
    template.write_text(served.template, encoding="utf-8")
    calls = ("--enable-auto-tool-choice", "--tool-call-parser", served.tool_parser) if served.tool_parser else ()
    return ("--chat-template", str(template), *calls)


def _watch(server: VllmServer) -> None:
    while True:
        time.sleep(1.0)
        if not server.is_alive():
            server.recover()
            click.echo(f"vLLM had ended and was started again at {server.url}")

"""``grpo-serve``: what a run has learned, behind an OpenAI-compatible URL, until Ctrl-C."""

from __future__ import annotations

import os
import shlex
import tempfile
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, get_args

import click

from grpo.cli.common import explained
from grpo.cli.options import device_options
from grpo.config import Dtype, TrainConfig, load_config
from grpo.machine.hardware import share_cores

if TYPE_CHECKING:
    from grpo.chat import ServedChat
    from grpo.devices.shape import ModelShape
    from grpo.runs.trained_policy import TrainedPolicy
    from grpo.serving.vllm import VllmServer
    from grpo.serving.vllm_options import ServerOptions

EXAMPLE = """Serving {name} at {url}/v1 (Ctrl-C ends it)

  curl {url}/v1/chat/completions -H 'Content-Type: application/json' \\
    -d '{{"model": "{name}", "messages": [{{"role": "user", "content": "Hello"}}], "max_tokens": 64}}'

  from openai import OpenAI
  client = OpenAI(base_url="{url}/v1", api_key="none")
  client.chat.completions.create(model="{name}", messages=[{{"role": "user", "content": "Hello"}}])
"""


@click.command(short_help="Serve a policy with OpenAI's protocol.", epilog="Example: grpo-serve runs/first --port 8000")
@click.argument("run", type=click.Path(exists=True, file_okay=False, path_type=Path))
@click.option(
    "--checkpoint", default="newest", show_default=True, help="newest, best (by held-out score), or a step's number."
)
@click.option("--model", help="Base model.  [default: the one it was trained on]")
@click.option("--host", default="127.0.0.1", show_default=True, help="Address to listen on.")
@click.option(
    "--port", type=click.IntRange(0, 65535), default=8000, show_default=True, help="Port to listen on; 0: any free one."
)
@device_options
@click.option(
    "--dtype",
    type=click.Choice(get_args(Dtype)),
    help="What it computes in; auto: what is faster here.  [default: as the run was trained, else auto]",
)
@click.option("--threads", type=click.IntRange(1), help="CPU threads.  [default: all]")
@click.option(
    "--draft-tokens",
    type=click.IntRange(0, 64),
    default=0,
    show_default=True,
    help="Tokens that vLLM on the CPU guesses ahead in a step at most, to answer sooner. With guesses it refuses "
    "requests with logit_bias or min_p.",
)
@click.option("--log", type=click.Path(path_type=Path), help="vLLM's log.  [default: a temporary file]")
@click.option(
    "--dry-run", is_flag=True, help="Show where, with what memory and arguments vLLM would run; start nothing."
)
@explained(lambda _options: "The server is gone.")
def serve(
    run: Path,
    checkpoint: str,
    model: str | None,
    host: str,
    port: int,
    device: str | None,
    dtype: str | None,
    threads: int | None,
    draft_tokens: int,
    log: Path | None,
    dry_run: bool,
) -> None:
    """Serve the policy of RUN (a run directory or an adapter folder) with vLLM."""
    from grpo.devices.plan import plan_gpus
    from grpo.devices.shape import ModelShape
    from grpo.display.terminal import Display
    from grpo.machine.models import resolve_model
    from grpo.runs.trained_policy import find_policy, served_policy
    from grpo.serving.vllm import VllmServer

    share_cores()
    policy = find_policy(run, checkpoint, model)
    config = _settings(policy, device, dtype, threads)
    if draft_tokens and config.device == "cuda":
        raise click.UsageError("--draft-tokens is for the CPU, and this would be on a GPU; leave it out, or add --cpu")
    if dry_run:
        for line in what_would_be_served(policy, config, host, port, draft_tokens):
            click.echo(line)
        return
    base = resolve_model(policy.model)
    served = served_policy(policy, base.path)
    options = _options(policy, config, base.path, host, port, draft_tokens)
    with tempfile.TemporaryDirectory(prefix="grpo-serve-") as scratch, Display() as display:
        if served is not None:
            options = replace(options, extra_args=(*options.extra_args, *_chat_arguments(served, Path(scratch))))
        server = VllmServer(base.path, log or Path(scratch) / "server.log", options)
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
            click.echo(EXAMPLE.format(name=policy.name, url=server.url))
            if os.environ.get("VLLM_API_KEY"):
                click.echo("Requests need the key in VLLM_API_KEY: Authorization: Bearer KEY, or api_key in the client")
            _watch(server)
        finally:
            server.stop()


def _settings(policy: TrainedPolicy, device: str | None, dtype: str | None, threads: int | None) -> TrainConfig:
    """Those of the run, or the defaults, for one server of ours and nothing that trains."""
    from grpo.machine.hardware import visible_gpus
    from grpo.serving.vllm import built_for

    here = "cuda" if visible_gpus() and built_for() != "cpu" else "cpu"
    config = policy.config or load_config(None, {"env": "", "device": here})
    device = device or config.device
    changes = {
        "device": device,
        "dtype": dtype or (config.dtype if device == config.device else "auto"),
        "threads": threads,
        "lora": config.lora.model_copy(update={"rank": policy.rank}),
        "server": config.server.model_copy(update={"urls": [], "replicas": 1}),
    }
    return config.model_copy(update=changes)


def _options(
    policy: TrainedPolicy,
    config: TrainConfig,
    base: Path,
    host: str,
    port: int,
    draft_tokens: int,
    shape: ModelShape | None = None,
) -> ServerOptions:
    """As a run starts vLLM, but with this adapter alone; on a GPU it has the memory to itself."""
    from grpo.serving.vllm_options import server_options

    (options,) = server_options(config, base, 0, shape)
    adapter = ("--lora-modules", f"{policy.name}={policy.adapter.resolve()}")
    options = replace(options, host=host, port=port, extra_args=(*options.extra_args, *adapter))
    return replace(options, max_loras=1, asks_for_key=True, draft_tokens=draft_tokens)


def what_would_be_served(
    policy: TrainedPolicy, config: TrainConfig, host: str, port: int, draft_tokens: int
) -> Iterator[str]:
    """Lines about the policy, the devices with their memory, and vLLM's arguments; nothing is fetched or started.

    Raises:
        ConfigError: It does not fit on the GPU.
        ModelError: The base model's name is none.
    """
    from grpo.devices.plan import plan_gpus
    from grpo.devices.shape import shape_at_hand
    from grpo.machine.models import check_model_name, config_at_hand
    from grpo.serving.vllm import BASE_MODEL

    check_model_name(policy.model)
    here, shape = config_at_hand(policy.model), shape_at_hand(policy.model)
    yield f"policy: {policy.adapter}, as {policy.name!r}"
    yield f"model: {policy.model}, {'not here yet; it would be fetched' if here is None else f'in {here.parent}'}"
    if config.device == "cuda" and shape is not None:
        yield from plan_gpus(config, shape, learners=0).lines()
    if config.device == "cuda" and shape is None:
        yield "memory and vLLM's arguments: not known before the model's config.json is here"
    elif config.device == "cpu" and config.dtype == "auto":
        yield "on the CPU; vLLM's arguments: not known before the dtype is measured"
    else:
        base = Path(policy.model) if here is None else here.parent
        options = _options(policy, config, base, host, port, draft_tokens, shape)
        yield f"vLLM's arguments: {shlex.join(options.arguments(base, BASE_MODEL, port))}"


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


if __name__ == "__main__":
    serve()

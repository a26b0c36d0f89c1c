"""``grpo-serve``: what a run has learned, behind an OpenAI-compatible URL, until Ctrl-C."""

from __future__ import annotations

import tempfile
import time
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import click

from grpo.cli.common import explained
from grpo.machine.hardware import share_cores

if TYPE_CHECKING:
    from grpo.chat import ServedChat
    from grpo.serving.vllm import VllmServer

EXAMPLE = """Serving {name} at {url}/v1 (Ctrl-C ends it)

  curl {url}/v1/chat/completions -H 'Content-Type: application/json' \\
    -d '{{"model": "{name}", "messages": [{{"role": "user", "content": "Hello"}}], "max_tokens": 64}}'

  from openai import OpenAI
  client = OpenAI(base_url="{url}/v1", api_key="none")
  client.chat.completions.create(model="{name}", messages=[{{"role": "user", "content": "Hello"}}])
"""


@click.command(epilog="Example: grpo-serve runs/first --port 8000")
@click.argument("run", type=click.Path(exists=True, file_okay=False, path_type=Path))
@click.option(
    "--checkpoint", default="newest", show_default=True, help="newest, best (by held-out score), or a step's number."
)
@click.option("--model", help="Base model.  [default: the one it was trained on]")
@click.option("--host", default="127.0.0.1", show_default=True, help="Address to listen on.")
@click.option("--port", default=8000, show_default=True, help="Port to listen on; 0: any free one.")
@click.option("--cpu", "device", flag_value="cpu", help="Serve on the CPU.")
@click.option(
    "--cuda",
    "device",
    flag_value="cuda",
    help="Serve on the GPU.  [default: as the run was trained]",
)
@click.option("--threads", type=int, help="CPU threads.  [default: all]")
@click.option("--log", type=click.Path(path_type=Path), help="vLLM's log.  [default: a temporary file]")
@explained(lambda _options: "The server is gone.")
def serve(
    run: Path,
    checkpoint: str,
    model: str | None,
    host: str,
    port: int,
    device: str | None,
    threads: int | None,
    log: Path | None,
) -> None:
    """Serve the policy of RUN (a run directory or an adapter folder) with vLLM."""
    from grpo.config import load_config
    from grpo.display.terminal import Display
    from grpo.machine.dtype import computing_dtype
    from grpo.machine.hardware import visible_gpus
    from grpo.machine.models import resolve_model
    from grpo.runs.trained_policy import find_policy, served_policy
    from grpo.serving.server import ServerOptions, VllmServer

    share_cores()
    policy = find_policy(run, checkpoint, model)
    config = policy.config or load_config(None, {"env": "", "device": "cuda" if visible_gpus() else "cpu"})
    base = resolve_model(policy.model)
    served = served_policy(policy, base.path)
    device = device or config.device
    computing = computing_dtype(config.dtype, device, base.path)
    options = ServerOptions(
        device=device,  # type: ignore[arg-type]
        dtype=computing.dtype,
        max_model_len=config.rollout.max_tokens,
        max_lora_rank=policy.rank,
        max_loras=1,
        max_num_seqs=config.rollout.concurrency,
        threads=threads,
        host=host,
        port=port,
        gpu_memory_utilization=0.9,
        extra_args=("--lora-modules", f"{policy.name}={policy.adapter.resolve()}"),
    )
    with tempfile.TemporaryDirectory(prefix="grpo-serve-") as scratch, Display() as display:
        if served is not None:
            options = replace(options, extra_args=(*options.extra_args, *_chat_arguments(served, Path(scratch))))
        server = VllmServer(base.path, log or Path(scratch) / "server.log", options)
        try:
            server.start()
            display.note(
                f"vLLM is starting with {policy.adapter}, computing in {computing}; its log: {server.log_path}"
            )
            seconds = server.wait_ready()
            display.note(f"vLLM is ready ({seconds:.0f} s after its start)")
            click.echo(EXAMPLE.format(name=policy.name, url=server.url))
            _watch(server)
        finally:
            server.stop()


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

"""``grpo-export``: what a run has learned, as a folder to take elsewhere."""

from pathlib import Path

import click

from grpo.cli.common import explained


@click.command(
    short_help="Write an adapter or a merged model.",
    epilog="Example: grpo-export runs/first --out exported/first --merge",
)
@click.argument("run", type=click.Path(exists=True, file_okay=False, path_type=Path))
@click.option("--out", type=click.Path(path_type=Path), required=True, help="New folder to write.")
@click.option("--merge", is_flag=True, help="Write a whole model: the adapter merged into its base.")
@click.option(
    "--checkpoint", default="newest", show_default=True, help="newest, best (by held-out score), or a step's number."
)
@click.option("--model", help="Base model.  [default: the one it was trained on]")
@explained(lambda _options: "Nothing was written.")
def export(run: Path, out: Path, merge: bool, checkpoint: str, model: str | None) -> None:
    """Write the adapter of RUN (a run directory or an adapter folder) with a model card, or the merged model."""
    from grpo.machine.models import resolve_model
    from grpo.runs.export import export_policy
    from grpo.runs.trained_policy import find_policy

    policy = find_policy(run, checkpoint, model)
    export_policy(policy, resolve_model(policy.model), out, merge=merge)
    click.echo(f"{policy.adapter} -> {out}")

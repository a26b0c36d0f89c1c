"""``grpo-eval``: one policy on one env, with intervals."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from grpo.cli.common import explained, json_object, share_cores
from grpo.errors import ConfigError

if TYPE_CHECKING:
    from grpo.display import Display
    from grpo.evaluate import EvalSpec


@click.command(epilog="Example: grpo-eval --env EmailSearch-v0 --policy oracle --split test --scenarios 100")
@click.option("--env", required=True, help="Registered env id, or module:id.")
@click.option(
    "--policy",
    required=True,
    help="A policy the env brings (EmailSearch-v0: oracle, tutor, keyword, random), a run directory (its newest "
    "checkpoint), an adapter folder, or 'base'.",
)
@click.option("--split", default="test", show_default=True, help="Split, where the env has splits.")
@click.option("--scenarios", default=64, show_default=True, help="Number of tasks.")
@click.option("--samples", default=1, show_default=True, help="Episodes of each task.")
@click.option("--temperature", default=1.0, show_default=True, help="0 is greedy.")
@click.option("--seed", default=1234, show_default=True, help="Of the choice of tasks and of sampling.")
@click.option("--recipe", help="Recipe for model and limits; a run directory brings its own.")
@click.option("--env-kwargs", callback=json_object, help="JSON object of arguments for the env.")
@click.option("--out", type=click.Path(path_type=Path), help="Write summary (.json) and transcripts (.jsonl) here.")
@click.option("--json", "as_json", is_flag=True, help="Print the summary as JSON.")
@explained()
def evaluate(**options: Any) -> None:
    """Evaluate a policy on a registered env, with 95 % intervals."""
    run_evaluation(**options)


def run_evaluation(
    *,
    env: str,
    policy: str,
    split: str,
    scenarios: int,
    samples: int,
    temperature: float,
    seed: int,
    recipe: str | None,
    env_kwargs: dict[str, Any],
    out: Path | None,
    as_json: bool,
) -> None:
    """Evaluate a scripted policy, a trained adapter or the base model; prints a table or JSON."""
    from grpo.display import Display
    from grpo.envs import Episode, takes_split
    from grpo.evaluate import EvalSpec, evaluate_scripted, save_evaluation
    from grpo.groups import evaluation_tasks

    with Display(quiet=as_json) as display:
        spec = EvalSpec(policy if out is None else out.stem, split, temperature, samples, seed)
        if policy == "base" or Path(policy).is_dir():
            trajectories, summary = _evaluate_trained(env, policy, spec, scenarios, recipe, env_kwargs, display)
        else:
            chosen = {"split": split} if takes_split(env) else {}
            episode = Episode(env, {**env_kwargs, **chosen})
            tasks = evaluation_tasks(episode.scenario_ids(), scenarios, seed)
            with display.progress(policy, len(tasks) * samples) as bar:
                trajectories, summary = evaluate_scripted(
                    spec, tasks, episode=episode, name=policy, on_done=lambda t: bar.update(1, reward=t.reward)
                )
            episode.close()
        if out is not None:
            save_evaluation(out.with_suffix(".json"), summary, trajectories)
        if as_json:
            click.echo(json.dumps(summary, indent=2))
        else:
            display.eval_table([summary])


def _evaluate_trained(
    env: str,
    policy: str,
    spec: EvalSpec,
    scenarios: int,
    recipe: str | None,
    env_kwargs: dict[str, Any],
    display: Display,
) -> tuple[list[Any], dict[str, Any]]:
    import tempfile

    from grpo.config import load_config
    from grpo.heldout import evaluate_adapter
    from grpo.models import resolve_model
    from grpo.server import make_server

    share_cores()
    folder = None if policy == "base" else Path(policy)
    overrides: dict[str, Any] = {"env": env, "env_kwargs": env_kwargs}
    if folder is not None and (folder / "config.json").exists() and not (folder / "adapter_config.json").exists():
        saved = json.loads((folder / "config.json").read_text(encoding="utf-8"))
        overrides = {**saved, "env": env, "env_kwargs": {**saved["env_kwargs"], **env_kwargs}}
        recipe = None
        from grpo.checkpoint import newest_checkpoint

        found = newest_checkpoint(folder / "checkpoints")
        if found is None:
            raise ConfigError(f"{folder} is a run without a checkpoint; let it finish its warm start first")
        folder = found[0]
    elif folder is not None and not (folder / "adapter_config.json").exists():
        raise ConfigError(f"{folder} is neither a run directory (config.json) nor an adapter (adapter_config.json)")
    config = load_config(recipe, overrides)
    model = resolve_model(config.model)
    with tempfile.TemporaryDirectory(prefix="grpo-eval-") as scratch:
        server = make_server(config, model.path, Path(scratch) / "server.log")
        try:
            server.start()
            display.note("vLLM is starting")
            server.wait_ready()
            return evaluate_adapter(config, model.path, server, folder, spec, scenarios, Path(scratch), display)
        finally:
            server.stop()

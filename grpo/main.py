"""What the commands do between the command line and the trainer: join the parts and show the result."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import click

from grpo.config import TrainConfig, load_config
from grpo.display import Display
from grpo.envs import Episode, make_env, takes_split
from grpo.errors import ConfigError
from grpo.evaluate import EvalSpec, evaluate_scripted, save_evaluation
from grpo.groups import evaluation_tasks
from grpo.models import resolve_model
from grpo.report import write_report
from grpo.report_data import load_run, verdict
from grpo.rundir import RunDirectory
from grpo.server import make_server


def run_training(config: TrainConfig, directory: Path, *, resume: bool, quiet: bool) -> None:
    """Train, evaluate and report; prints the closing table and the report's path."""
    _share_cores()
    display = Display(quiet=quiet)
    make_env(config.env, **config.env_kwargs).close()  # a wrong id or argument is found before anything is written
    run = RunDirectory.open(directory, config, resume=resume)
    try:
        if not _is_finished(run, config):
            _train(config, run, display)
        else:
            display.note(
                f"{directory} is finished: nothing to train. Raise --steps to go on, or choose another --run-dir"
            )
        summaries = [
            json.loads(path.read_text(encoding="utf-8"))
            for label in ("before-sampled", "before-greedy", "after-sampled", "after-greedy")
            if (path := run.evaluation(label)).exists()
        ]
        display.eval_table(summaries)
        report = write_report(run.root)
        click.echo(verdict(load_run(run.root)))
        click.echo(f"Report: {report}")
    finally:
        run.close()


def _train(config: TrainConfig, run: RunDirectory, display: Display) -> None:
    display.phase(f"Model {config.model}")
    model = resolve_model(config.model)
    display.note(f"model: {model.path}")
    server = make_server(config, model.path, run.server_log)
    server.start()
    try:
        display.note(f"vLLM is starting at {server.url}; its log: {run.server_log}")
        from grpo.trainer import Trainer

        trainer = Trainer(config, run, model.path, server, display)
        try:
            trainer.train()
        finally:
            trainer.close()
    finally:
        server.stop()


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
    display = Display(quiet=as_json)
    spec = EvalSpec(policy if out is None else out.stem, split, temperature, samples, seed)
    trained = policy == "base" or Path(policy).is_dir()
    if trained:
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
    display.close()


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

    from grpo.heldout import evaluate_adapter

    _share_cores()
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


def _share_cores() -> None:
    """Let OpenMP threads sleep soon after their work, here and in vLLM, before either loads OpenMP.

    By default they spin at barriers, and a thread that waits for its turn on a busy core holds up all others.
    """
    os.environ.setdefault("GOMP_SPINCOUNT", "2000")


def _is_finished(run: RunDirectory, config: TrainConfig) -> bool:
    from grpo.checkpoint import newest_checkpoint

    found = newest_checkpoint(run.checkpoints)
    if found is None or found[1].step < config.steps:
        return False
    if config.eval_scenarios == 0:
        return True
    labels = ["after-sampled", "after-greedy"] if config.eval_greedy else ["after-sampled"]
    return all(
        run.evaluation(label).exists()
        and json.loads(run.evaluation(label).read_text(encoding="utf-8"))["policy"] == found[1].step
        for label in labels
    )

"""``grpo-train``: join config, run directory, policy server and trainer, and show the result."""

from __future__ import annotations

import json
import re
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from grpo.cli.common import explained, json_object, parse_settings, share_cores
from grpo.tracking import TRACKERS, Tracking, check_tracker

if TYPE_CHECKING:
    from grpo.config import TrainConfig
    from grpo.display import Display
    from grpo.rundir import RunDirectory

DEFAULT_RUN_DIR = "runs/{env}"


@click.command(epilog="Example: grpo-train --env EmailSearch-v0 --recipe email-cpu --run-dir runs/first --resume")
@click.option("--env", required=True, help="Registered Gymnasium env id, or module:id.")
@click.option("--recipe", help="email-cpu, email-gpu, a TOML file, or a run's config.json; flags override it.")
@click.option("--run-dir", type=click.Path(path_type=Path), help="Where everything is kept.  [default: runs/ENV]")
@click.option("--resume", is_flag=True, help="Continue the run in --run-dir; begins one where there is none.")
@click.option("--model", help="smollm2-135m (embedded), a folder, or a model hub id.")
@click.option("--cpu", "device", flag_value="cpu", help="Train and serve on the CPU.")
@click.option("--cuda", "device", flag_value="cuda", help="Train and serve on the GPU.")
@click.option("--steps", type=int, help="GRPO steps.")
@click.option("--groups-per-step", type=int, help="Groups (tasks) in a step.")
@click.option("--group-size", type=int, help="Episodes in a group.")
@click.option("--learning-rate", type=float, help="Of GRPO.")
@click.option("--warm-start-steps", type=int, help="Supervised steps on the env's own demonstrations before GRPO.")
@click.option(
    "--init-adapter",
    type=click.Path(exists=True, file_okay=False),
    help="Adapter to start from (of grpo-sft, or a run's newest); no warm start then, unless --warm-start-steps.",
)
@click.option(
    "--reward", help="env, ruler, env+ruler, or your own function of a group: pkg.mod:function.  [default: env]"
)
@click.option("--judge-model", help="litellm name of RULER's judge, for example openai/o4-mini.")
@click.option("--judge-api-base", help="OpenAI-compatible URL of the judge; its key comes from the environment.")
@click.option("--rubric", type=click.Path(exists=True, dir_okay=False), help="A text file with RULER's rubric.")
@click.option("--env-import", help="Module or .py file that registers the env; imported first.")
@click.option(
    "--env-kwargs",
    callback=json_object,
    help="JSON object of arguments for the env (gymnasium.make).",
)
@click.option("--eval-scenarios", type=int, help="Held-out tasks before and after; 0 for none.")
@click.option("--eval-split", help="Split of the evaluation, where the env has splits.")
@click.option("--eval-every", type=int, help="Evaluate every so many steps too; the best checkpoint is kept.")
@click.option("--seed", type=int, help="Seed of the whole run.")
@click.option("--track", type=click.Choice(TRACKERS), help="Metrics go there too (an extra of the same name).")
@click.option("--threads", type=int, help="CPU threads.  [default: all]")
@click.option("--set", "settings", multiple=True, metavar="KEY=VALUE", help="Any other setting (JSON value).")
@click.option("--show-every", type=int, help="Show the best and the worst episode of every so many steps.")
@click.option("--quiet", is_flag=True, help="Only errors and the closing table.")
@explained(
    lambda options: (
        "Finished work is kept; "
        + ("the same command" if options["resume"] else "the same command with --resume")
        + " goes on from it."
    )
)
def train(
    env: str,
    recipe: str | None,
    run_dir: Path | None,
    resume: bool,
    settings: tuple[str, ...],
    quiet: bool,
    **options: Any,
) -> None:
    """Train a LoRA policy with GRPO on a registered Gymnasium env, served by vLLM."""
    from grpo.config import load_config

    overrides = {key: value for key, value in options.items() if value is not None}
    overrides["env"] = env
    if "init_adapter" in overrides:
        overrides.setdefault("warm_start_steps", 0)
    config = load_config(recipe, overrides | parse_settings(settings))
    directory = run_dir or Path(DEFAULT_RUN_DIR.format(env=re.sub("[:/]+", "-", env)))
    run_training(config, directory, resume=resume, quiet=quiet)


def run_training(config: TrainConfig, directory: Path, *, resume: bool, quiet: bool) -> None:
    """Train, evaluate and report; prints the closing table and the report's path."""
    from grpo.checkpoint import newest_checkpoint
    from grpo.display import Display
    from grpo.handover import init_adapter
    from grpo.report import write_report
    from grpo.report.run import load_run, verdict
    from grpo.rundir import RunDirectory

    share_cores()
    _check_user_code(config)
    check_tracker(config.track)
    init_adapter(config)
    display = Display(quiet=quiet)
    with RunDirectory.open(directory, config, resume=resume) as run, ExitStack() as at_the_end, display:
        found = newest_checkpoint(run.checkpoints)
        steps_done = found[1].step if found else None
        if not _is_finished(run, config, steps_done):
            tracking = Tracking(
                config.track,
                run.root,
                project=config.env.rpartition(":")[2],
                config=config.model_dump(mode="json"),
                note=display.note,
                steps_done=steps_done or 0,
            )
            _train(config, run, display, at_the_end.enter_context(tracking))
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


def _check_user_code(config: TrainConfig) -> None:
    """Say what is wrong with the user's env or reward before anything is written or started."""
    from grpo.config import REWARDS
    from grpo.envs import check_env, takes_split
    from grpo.errors import ConfigError
    from grpo.user_code import import_user_module, load_function

    if config.env_import is not None:
        import_user_module(config.env_import)
    offered = check_env(config.env, config.env_kwargs)
    for name in ("train_split", "eval_split"):
        if getattr(config, name) != type(config).model_fields[name].default and not takes_split(config.env):
            raise ConfigError(
                f"{name} = {getattr(config, name)!r}, but {config.env} has no splits (no argument 'split'); leave it "
                "out"
            )
    if config.warm_start_steps > 0 and config.warm_start_policy not in offered:
        raise ConfigError(
            f"warm_start_policy = {config.warm_start_policy!r}, but {config.env} brings along: "
            f"{', '.join(offered) or 'none'}; choose one (--set warm_start_policy=NAME) or --warm-start-steps 0"
        )
    if config.reward not in REWARDS:
        load_function(config.reward)


def _train(config: TrainConfig, run: RunDirectory, display: Display, tracking: Tracking) -> None:
    from grpo.models import resolve_model
    from grpo.server import make_server

    if config.device != "cpu":  # torch is loaded while vLLM starts, but where a GPU is said to be
        from grpo.engine.local import usable_device

        usable_device(config.device)
    display.phase(f"Model {config.model}")
    model = resolve_model(config.model)
    display.note(f"model: {model.path}")
    server = make_server(config, model.path, run.server_log)
    server.start()
    try:
        if config.server_urls:
            display.note(f"sampling from the server at {server.url}")
        else:
            display.note(f"vLLM is starting at {server.url}; its log: {run.server_log}")
        from grpo.trainer import Trainer

        trainer = Trainer(config, run, model, server, display, tracking)
        try:
            trainer.train()
        finally:
            trainer.close()
    finally:
        server.stop()


def _is_finished(run: RunDirectory, config: TrainConfig, steps_done: int | None) -> bool:
    if steps_done is None or steps_done < config.steps:
        return False
    if config.eval_scenarios == 0:
        return True
    labels = ["after-sampled", "after-greedy"] if config.eval_greedy else ["after-sampled"]
    return all(
        run.evaluation(label).exists()
        and json.loads(run.evaluation(label).read_text(encoding="utf-8"))["policy"] == steps_done
        for label in labels
    )

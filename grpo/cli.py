"""Command lines: ``grpo-train``, ``grpo-eval`` and ``grpo-report``.

Thin on purpose: options become a config, errors become one clear line and an exit status, Ctrl-C becomes a note on how
to go on. Heavy imports wait until a command runs, so ``--help`` is instant.

Exit status: 0 done, 1 an error that was explained, 2 wrong usage, 130 stopped by the user.
"""

from __future__ import annotations

import json
import signal
import sys
from collections.abc import Callable
from functools import wraps
from pathlib import Path
from typing import Any

import click

from grpo.errors import GrpoError

DEFAULT_RUN_DIR = "runs/{env}"


def _explained(command: Callable[..., None]) -> Callable[..., None]:
    """One boundary for every command: our errors are printed without a traceback, signals end the run in order."""

    @wraps(command)
    def wrapper(*args: Any, **kwargs: Any) -> None:
        signal.signal(signal.SIGTERM, _raise_interrupt)
        try:
            command(*args, **kwargs)
        except GrpoError as error:
            click.echo(f"Error: {error}", err=True)
            sys.exit(1)
        except KeyboardInterrupt:
            click.echo("\nStopped. Finished work is kept; the same command with --resume goes on from it.", err=True)
            sys.exit(130)

    return wrapper


def _raise_interrupt(_signal: int, _frame: Any) -> None:
    raise KeyboardInterrupt


def _json_object(_ctx: click.Context, parameter: click.Parameter, value: str | None) -> dict[str, Any]:
    if value is None:
        return {}
    try:
        parsed = json.loads(value)
    except ValueError as error:
        raise click.BadParameter(f"{value!r} is not JSON ({error}); for example '{{\"max_turns\": 6}}'") from error
    if not isinstance(parsed, dict):
        raise click.BadParameter(f"{value!r} is not a JSON object; for example '{{\"max_turns\": 6}}'")
    return parsed


@click.command(epilog="Example: grpo-train --env EmailSearch-v0 --recipe email-cpu --run-dir runs/first --resume")
@click.option("--env", required=True, help="Registered env id, or module:id.")
@click.option("--recipe", help="Bundled recipe (email-cpu, email-gpu) or a TOML file; flags override it.")
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
@click.option("--reward", type=click.Choice(["env", "ruler", "env+ruler"]), help="What a group is rewarded with.")
@click.option("--judge-model", help="litellm name of RULER's judge, for example openai/o4-mini.")
@click.option("--judge-api-base", help="OpenAI-compatible URL of the judge; its key comes from the environment.")
@click.option("--rubric", type=click.Path(exists=True, dir_okay=False), help="A text file with RULER's rubric.")
@click.option("--env-kwargs", callback=_json_object, help="JSON object of arguments for the env.")
@click.option("--eval-scenarios", type=int, help="Held-out tasks before and after; 0 for none.")
@click.option("--eval-split", help="Split of the evaluation, where the env has splits.")
@click.option("--seed", type=int, help="Seed of the whole run.")
@click.option("--threads", type=int, help="CPU threads.  [default: all]")
@click.option("--set", "settings", multiple=True, metavar="KEY=VALUE", help="Any other setting (JSON value).")
@click.option("--quiet", is_flag=True, help="Only errors and the closing table.")
@_explained
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
    for setting in settings:
        key, found, value = setting.partition("=")
        if not found:
            raise click.BadParameter(f"--set takes KEY=VALUE, not {setting!r}")
        overrides[key.replace("-", "_")] = _value(value)
    config = load_config(recipe, overrides)
    directory = run_dir or Path(DEFAULT_RUN_DIR.format(env=env.replace(":", "-")))
    from grpo.main import run_training

    run_training(config, directory, resume=resume, quiet=quiet)


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
@click.option("--env-kwargs", callback=_json_object, help="JSON object of arguments for the env.")
@click.option("--out", type=click.Path(path_type=Path), help="Write summary (.json) and transcripts (.jsonl) here.")
@click.option("--json", "as_json", is_flag=True, help="Print the summary as JSON.")
@_explained
def evaluate(**options: Any) -> None:
    """Evaluate a policy on a registered env, with 95 % intervals."""
    from grpo.main import run_evaluation

    run_evaluation(**options)


@click.command(epilog="Example: grpo-report runs/first")
@click.argument("run_dir", type=click.Path(exists=True, file_okay=False, path_type=Path))
@_explained
def report(run_dir: Path) -> None:
    """Write RUN_DIR/report.html from what the run has left so far."""
    from grpo.report import write_report

    click.echo(write_report(run_dir))


def _value(text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError:
        return text


if __name__ == "__main__":
    click.Group("grpo", commands={"train": train, "eval": evaluate, "report": report})()

"""``grpo-doctor``: is everything there that a run needs?"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from contextlib import nullcontext
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from grpo.cli.common import explained
from grpo.cli.options import finite, recipe_option, setting_options
from grpo.config import TrainConfig, load_config
from grpo.display.streams import stdout_aside
from grpo.machine.hardware import share_cores

if TYPE_CHECKING:
    from grpo.doctor.checks import Result

SIGNS = {"ok": "ok     ", "failed": "FAILED ", "skipped": "skipped"}


@click.command(epilog="Example: grpo-doctor --env EmailSearch-v0 --recipe email-cpu --quick")
@click.argument("run", required=False, type=click.Path(exists=True, file_okay=False, path_type=Path))
@setting_options(
    TrainConfig,
    *("env", "env_kwargs", "env_import", "agent", "agent_python", "model", "device", "reward", "judge.model"),
    *("judge.api_base", "answer_judge.model", "answer_judge.api_base", "warm_start.model"),
    tasks=True,
)
@recipe_option
@click.option("--run-dir", type=click.Path(path_type=Path), default=Path("runs"), help="Where runs are to be kept.")
@click.option("--disk-gib", default=5.0, callback=finite, show_default=True, help="Free disk space that there must be.")
@click.option(
    "--rollouts",
    type=click.Path(path_type=Path),
    help="Check nothing but this file of rollouts of any trainer (docs/your-agent.md), sampled by --model.",
)
@click.option(
    "--max-gap", default=1.0, callback=finite, show_default=True, help="Largest difference of a logprob there, in nats."
)
@click.option("--quick", is_flag=True, help="Neither load the model nor start vLLM.")
@click.option("--json", "as_json", is_flag=True, help="Print a list of objects: name, status, found.")
@explained()
def doctor(
    run: Path | None,
    given: dict[str, Any],
    recipe: str | None,
    run_dir: Path,
    disk_gib: float,
    rollouts: Path | None,
    max_gap: float,
    quick: bool,
    as_json: bool,
) -> None:
    """Check what a run needs. Every failure says what to do, and makes the exit status 1.

    With RUN, the folder of a run that goes on or is over, that run alone is looked at: what it does now, and which of
    the known ways in which training goes nowhere its metrics show.

    Without --env no env is checked. With --agent two episodes of a task are played with who would show it how, and what
    was captured is drawn. With --rollouts ids, masks, log-probabilities and transcript are held against each other.
    """
    from grpo.machine.user_code import import_user_module

    share_cores()
    config = load_config(recipe, {"env": ""} | given)
    results: list[Result] = []
    training_meant = recipe is not None or bool({"model", "device"} & given.keys())
    with stdout_aside() if as_json else nullcontext():
        if config.env_import is not None:
            import_user_module(config.env_import)
        checks = _results(config, run_dir, disk_gib, training_meant=training_meant, quick=quick)
        if rollouts is not None:
            from grpo.doctor.checks import examine
            from grpo.doctor.rollouts import check_file

            checks = examine([("rollouts", lambda: check_file(rollouts, config, max_gap, computes=not quick))])
        if run is not None:
            from grpo.doctor.run_check import check_run

            checks = check_run(run)
        for result in checks:
            results.append(result)
            if not as_json:
                click.echo(f"{SIGNS[result.status]}  {result.name}: {result.found}")
    ran = [result for result in results if result.status != "skipped"]
    failed = sum(result.status == "failed" for result in ran)
    if as_json:
        click.echo(json.dumps([asdict(result) for result in results], indent=2))
    else:
        click.echo(f"{failed} of {len(ran)} checks failed" if failed else f"All {len(ran)} checks passed")
    if failed:
        sys.exit(1)


def _results(
    config: TrainConfig, run_dir: Path, disk_gib: float, *, training_meant: bool, quick: bool
) -> Iterator[Result]:
    from grpo.doctor.checks import Check, Result, examine, quick_checks
    from grpo.training.engines import backend_of

    engine: Check = ("engine", lambda: backend_of(config).described() or "this process")
    checks = quick_checks(config, run_dir, disk_gib, training_meant=training_meant)
    failed = set[str]()
    for result in examine([engine, *checks] if training_meant else checks):
        yield result
        if result.status != "ok":
            failed.add(result.name)
    if quick:
        return
    if stopped := [name for name in ("engine", "versions", "CUDA driver", "C compiler") if name in failed]:
        yield Result("model and vLLM", "skipped", f"needs the check of the {stopped[0]}")
    elif not backend_of(config).computes_here:
        yield Result("model and server", "skipped", "a run probes its server itself before it trains")
    else:
        from grpo.doctor.model_checks import ModelDoctor

        yield from ModelDoctor(config).examine()

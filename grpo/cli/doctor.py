"""``grpo-doctor``: is everything there that a run needs?"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from contextlib import nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from grpo.cli.common import explained
from grpo.cli.options import finite, recipe_option, setting_options
from grpo.config import TrainConfig, load_config
from grpo.display.streams import stdout_aside
from grpo.machine.hardware import share_cores

if TYPE_CHECKING:
    from grpo.doctor.checks import Needs, Result

SIGNS = {"ok": "ok     ", "failed": "FAILED ", "skipped": "skipped"}


@click.command(epilog="Example: grpo-doctor --env EmailSearch-v0 --recipe email-cpu --quick")
@setting_options(
    TrainConfig,
    *("env", "env_kwargs", "env_import", "model", "device", "reward", "judge.model", "judge.api_base"),
    *("answer_judge.model", "answer_judge.api_base"),
)
@recipe_option
@click.option("--run-dir", type=click.Path(path_type=Path), default=Path("runs"), help="Where runs are to be kept.")
@click.option("--port", type=click.IntRange(0, 65535), default=0, help="Port for vLLM; 0: any free one.")
@click.option("--disk-gib", default=5.0, callback=finite, show_default=True, help="Free disk space that there must be.")
@click.option("--quick", is_flag=True, help="Neither load the model nor start vLLM.")
@click.option("--json", "as_json", is_flag=True, help="Print a list of objects: name, status, found, fix.")
@explained()
def doctor(
    given: dict[str, Any],
    recipe: str | None,
    run_dir: Path,
    port: int,
    disk_gib: float,
    quick: bool,
    as_json: bool,
) -> None:
    """Check what a run needs. Every failure is shown with what to do, and makes the exit status 1.

    Without --env no env is checked.
    """
    from grpo.doctor.checks import Needs
    from grpo.machine.user_code import import_user_module

    share_cores()
    config = load_config(recipe, {"env": ""} | given)
    results: list[Result] = []
    training_meant = recipe is not None or bool({"model", "device"} & given.keys())
    with stdout_aside() if as_json else nullcontext():
        if config.env_import is not None:
            import_user_module(config.env_import)
        for result in _results(config, Needs(run_dir, port, disk_gib, training_meant), quick=quick):
            results.append(result)
            if not as_json:
                click.echo(f"{SIGNS[result.status]}  {result.name}: {result.found}")
                if result.fix:
                    click.echo(f"         -> {result.fix}")
    failed = sum(result.status == "failed" for result in results)
    if as_json:
        click.echo(json.dumps([result.to_dict() for result in results], indent=2))
    else:
        click.echo(f"{failed} of {len(results)} checks failed" if failed else f"All {len(results)} checks passed")
    if failed:
        sys.exit(1)


def _results(config: TrainConfig, needs: Needs, *, quick: bool) -> Iterator[Result]:
    from grpo.doctor.checks import Result, examine, quick_checks

    results = list[Result]()
    for result in examine(quick_checks(config, needs)):
        results.append(result)
        yield result
    if quick:
        return
    if config.engine == "tinker":
        yield Result("model and server", "skipped", "a run probes its Tinker server itself before it trains")
        return
    for result in results:
        if result.name in ("versions", "CUDA driver", "C compiler") and result.status != "ok":
            yield Result("model and vLLM", "skipped", f"needs the check of the {result.name}")
            return
    from grpo.doctor.model_checks import ModelDoctor

    yield from ModelDoctor(config).examine()


if __name__ == "__main__":
    doctor()

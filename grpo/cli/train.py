"""``grpo-train``: join config, run directory, policy server and trainer, and show the result.

The command owns the whole run: warm start, evaluation before and after, report. ``scripts/quickstart`` is set-up and
this one command, so there is one path to maintain.
"""

from __future__ import annotations

import re
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from grpo.cli.common import explained, has_learner
from grpo.cli.options import recipe_option, setting_options
from grpo.config import TrainConfig, load_config
from grpo.machine.hardware import cpu_count, share_cores
from grpo.runs.trackers import Tracking, check_tracker

if TYPE_CHECKING:
    from grpo.display.terminal import Display
    from grpo.machine.models import ResolvedModel
    from grpo.runs.directory import RunDirectory
    from grpo.training.trainer import Trainer

DEFAULT_RUN_DIR = "runs/{env}"


@click.command(
    short_help="Train a LoRA policy with GRPO.",
    epilog="Example: grpo-train --env EmailSearch-v0 --recipe email-cpu --run-dir runs/first --resume",
)
@setting_options(
    TrainConfig,
    *("env", "env_kwargs", "env_import", "agent", "agent_python", "model", "device", "steps", "minutes", "seed"),
    *(
        "reward",
        "judge.model",
        "judge.api_base",
        "judge.rubric",
        "answer_judge.model",
        "answer_judge.api_base",
        "init_adapter",
    ),
    *("warm_start.model", "server.urls", "engine", "tinker.url", "track", "keep_trajectories"),
    needs=["env"],
    tasks=True,
)
@recipe_option
@click.option("--run-dir", type=click.Path(path_type=Path), help="Folder of the run.  [default: runs/ENV]")
@click.option("--resume", is_flag=True, help="Continue the run in --run-dir, or begin one where there is none.")
@click.option(
    "--dry-run",
    is_flag=True,
    help="Try env and model, and show what would run, where, and its memory; start no server, write no run.",
)
@click.option("--quiet", is_flag=True, help="Show nothing but errors and the table at the end.")
@explained(
    lambda options: (
        "Finished work is kept; "
        + ("the same command" if options["resume"] else "the same command with --resume")
        + " goes on from it."
    )
)
@has_learner
def train(
    given: dict[str, Any],
    recipe: str | None,
    run_dir: Path | None,
    resume: bool,
    dry_run: bool,
    quiet: bool,
) -> None:
    """Train a LoRA policy with GRPO on a registered Gymnasium env, served by vLLM or by a Tinker server."""
    if "steps" in given and "minutes" in given:
        raise click.UsageError("--minutes chooses the steps: give --minutes or --steps, not both")
    implied: dict[str, Any] = {"minutes": None} if "steps" in given else {}
    if "init_adapter" in given:
        implied["warm_start.steps"] = 0
    config = load_config(recipe, implied | given)
    directory = run_dir or Path(DEFAULT_RUN_DIR.format(env=re.sub(r"[^\w.-]+", "-", config.env)))
    if dry_run:
        from grpo.cli.before_start import what_would_run

        for line in what_would_run(config, directory, resume=resume):
            click.echo(line)
        return
    run_training(config, directory, resume=resume, quiet=quiet)


def run_training(
    config: TrainConfig, directory: Path, *, resume: bool, quiet: bool, trainer: type[Trainer] | None = None
) -> None:
    """Train, evaluate and report; prints the table of evaluations and the report's path. By default GRPO trains."""
    from grpo.cli.before_start import check_user_code
    from grpo.config import dotted
    from grpo.display.metrics import standings
    from grpo.display.terminal import Display
    from grpo.episodes.judges import check_judges
    from grpo.episodes.references import check_references
    from grpo.machine.installed import LEARNER, require
    from grpo.report import write_report
    from grpo.report.run import better_scripts, conclusion, load_run
    from grpo.runs.checkpoint import newest_checkpoint
    from grpo.runs.directory import RunDirectory
    from grpo.runs.evaluations import AFTER, BEFORE, beside_baselines, is_finished, summaries
    from grpo.runs.trained_policy import init_adapter
    from grpo.training.engines import backend_of
    from grpo.watch import Watchdog

    share_cores()
    require(*LEARNER)
    backend_of(config)
    display = Display(quiet=quiet)
    check_user_code(config, display.note)
    check_tracker(config.track)
    init_adapter(config)
    with (
        RunDirectory.open(directory, config, resume=resume) as run,
        ExitStack() as at_the_end,
        display,
        Watchdog(display.note, run.root, display.doing),
    ):
        config = run.config
        found = newest_checkpoint(run.checkpoints)
        steps_done = found[1].step if found else None
        same_time = config.minutes in (None, run.earlier_minutes)
        if steps_done is None or steps_done < config.steps or not is_finished(run, config, steps_done) or not same_time:
            for line in (*check_judges(config), *check_references(config)):
                display.note(line)
            config, model, gflops = _find_model(config, run, display)
            backend = backend_of(config)
            if config.device == "cpu" and backend.computes_here:
                _check_memory(config, model, display)
            if learner := backend.described():
                display.note(learner)
            tracking = Tracking(
                config.track,
                run.root,
                project=config.env.rpartition(":")[2],
                config=dotted(config.model_dump(mode="json")),
                note=display.note,
                steps_done=steps_done or 0,
            )
            _train(config, run, model, display, at_the_end.enter_context(tracking), gflops, trainer)
        else:
            display.note(
                f"{directory} is finished: nothing to train. Raise --steps to go on, or choose another --run-dir"
            )
        display.eval_table(summaries(run, config, BEFORE, AFTER))
        report, found = write_report(run.root), load_run(run.root)
        if beside := beside_baselines(found.summaries):
            head, *rows = standings(beside.values())
            display.table("Who else played these tasks, mean ± half of the 95 % interval", head, rows)
        for warning in (*better_scripts(found), *(f"left out: {what}" for what in found.damaged)):
            display.note(f"Warning: {warning}")
        click.echo(f"{conclusion(found)}\nReport: {report}")


def _find_model(
    config: TrainConfig, run: RunDirectory, display: Display
) -> tuple[TrainConfig, ResolvedModel, float | None]:
    """The settings with dtype and threads, which the run keeps; the model; this machine's GFLOP/s where measured."""
    from grpo.cli.before_start import adapter_line
    from grpo.devices.plan import plan_gpus
    from grpo.devices.shape import ModelShape
    from grpo.machine.models import resolve_model
    from grpo.machine.probe import computing_dtype, probe
    from grpo.training.engines import backend_of
    from grpo.training.first_look import check_before_start

    if config.device != "cpu":  # before anything is fetched
        from grpo.learner.lora_model import usable_device

        usable_device(config.device)
    display.phase(f"Model {config.model}")
    model = resolve_model(config.model)
    display.note(f"model: {model.path}")
    if not backend_of(config).computes_here:
        return config, model, None
    check_before_start(config, model.path)
    shape = ModelShape.read(model.path)
    display.note(adapter_line(config, shape))
    if config.device != "cpu" or (config.dtype != "auto" and config.threads is not None):
        computing = computing_dtype(config.dtype, config.device, model.path)
        display.note(f"computing in {computing}")
        if config.device == "cpu" and (config.threads or 0) < (most := cpu_count()):
            display.note(f"threads: {config.threads} of {most}, as set or begun (--set threads={most} uses all)")
        if config.device == "cuda":
            for line in plan_gpus(config, shape).lines():
                display.note(line)
        return run.write_config(config.model_copy(update={"dtype": computing.dtype})), model, None
    machine = probe(model.path, config.threads)
    computing = computing_dtype(config.dtype, config.device, model.path, config.threads)
    display.note(f"computing in {computing}")
    if note := machine.note(config.threads):
        display.note(note)
    threads = machine.threads if config.server.replicas == 1 else max(machine.gflops)  # servers share the cores
    measured = {"dtype": computing.dtype, "threads": config.threads or threads}
    gflops = machine.speed(computing.dtype, measured["threads"])
    return run.write_config(config.model_copy(update=measured)), model, gflops


def _check_memory(config: TrainConfig, model: ResolvedModel, display: Display) -> None:
    """Say whether the memory is enough, before anything is started; refuse where it cannot be."""
    from grpo.devices.memory import cpu_needs
    from grpo.devices.shape import ModelShape
    from grpo.machine.hardware import available_gib

    display.note(cpu_needs(config, ModelShape.read(model.path)).check(available_gib()))


def _train(
    config: TrainConfig,
    run: RunDirectory,
    model: ResolvedModel,
    display: Display,
    tracking: Tracking,
    gflops: float | None,
    trainer: type[Trainer] | None,
) -> None:
    from grpo.training.engines import backend_of

    backend = backend_of(config)
    servers = backend.servers(model.path, run.server_log, display.note)
    servers.start()
    try:
        starting = f"vLLM is starting at {servers.url}; its log: {run.server_log}"
        display.note(f"sampling from {servers.url}" if config.server.urls or not backend.computes_here else starting)
        from grpo.training.trainer import Trainer

        if config.device != "cpu" or config.server.urls:  # vLLM measures free memory at its start, so no learner yet
            servers.wait_ready(display.note)
        training = (trainer or Trainer)(config, run, model, servers, display, tracking, gflops)
        try:
            if config.server.urls:
                training.look_at_servers()
            training.train()
        except OSError:
            run.check_in_place()  # where the folder is gone, that is what is to be said
            raise
        finally:
            training.close()
    finally:
        servers.stop()

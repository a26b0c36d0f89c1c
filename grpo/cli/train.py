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

from grpo.cli.common import explained, has_learner, json_object, parse_settings
from grpo.machine.hardware import cpu_count, share_cores
from grpo.runs.trackers import TRACKERS, Tracking, check_tracker
from grpo.settings import ENGINES

if TYPE_CHECKING:
    from grpo.config import TrainConfig
    from grpo.display.terminal import Display
    from grpo.machine.models import ResolvedModel
    from grpo.runs.directory import RunDirectory
    from grpo.training.trainer import Trainer

DEFAULT_RUN_DIR = "runs/{env}"


@click.command(
    short_help="Train a LoRA policy with GRPO.",
    epilog="Example: grpo-train --env EmailSearch-v0 --recipe email-cpu --run-dir runs/first --resume",
)
@click.option("--env", required=True, help="Registered Gymnasium env id, or module:id.")
@click.option(
    "--recipe",
    help="email-cpu, email-gpu, email-gpu-80gb, art-e, a TOML file, or a run's config.json; flags override it.",
)
@click.option("--run-dir", type=click.Path(path_type=Path), help="Folder of the run.  [default: runs/ENV]")
@click.option("--resume", is_flag=True, help="Continue the run in --run-dir, or begin one where there is none.")
@click.option("--model", help="smollm2-135m (embedded), a folder, or a model hub id.")
@click.option("--cpu", "device", flag_value="cpu", help="Train and serve on the CPU.")
@click.option("--cuda", "device", flag_value="cuda", help="Train and serve on the GPU.")
@click.option("--steps", type=int, help="Number of GRPO steps.")
@click.option("--minutes", type=float, help="Time for the whole run: as many GRPO steps as fit, at least one.")
@click.option("--groups-per-step", "rollout__groups_per_step", type=int, help="Groups (tasks) in a step.")
@click.option("--group-size", "rollout__group_size", type=int, help="Episodes in a group.")
@click.option(
    "--max-staleness",
    "rollout__max_staleness",
    type=int,
    help="Play the next steps' episodes while this one is learned, with a policy so many steps old.  [default: 0]",
)
@click.option("--learning-rate", "optimizer__learning_rate", type=float, help="Learning rate of GRPO.")
@click.option(
    "--warm-start-steps",
    "warm_start__steps",
    type=int,
    help="Supervised steps on the env's own demonstrations before GRPO.",
)
@click.option(
    "--init-adapter",
    type=click.Path(exists=True, file_okay=False),
    help="Adapter to start from (of grpo-sft, or a run's newest); no warm start then, unless --warm-start-steps.",
)
@click.option(
    "--reward", help="env, ruler, env+ruler, or your own function of a group: pkg.mod:function.  [default: env]"
)
@click.option(
    "--answer-judge",
    "answer_judge__model",
    metavar="MODEL",
    help="litellm name of a judge that marks answers which the rule leaves undecided.",
)
@click.option(
    "--answer-judge-api-base",
    "answer_judge__api_base",
    metavar="URL",
    help="OpenAI-compatible URL of the answer judge; its key comes from the environment.",
)
@click.option("--judge-model", "judge__model", help="litellm name of RULER's judge, for example openai/o4-mini.")
@click.option(
    "--judge-api-base",
    "judge__api_base",
    help="OpenAI-compatible URL of the judge; its key comes from the environment.",
)
@click.option(
    "--rubric",
    "judge__rubric",
    type=click.Path(exists=True, dir_okay=False),
    help="A text file with RULER's rubric.",
)
@click.option("--env-import", help="Module or .py file that registers the env; imported first.")
@click.option("--env-kwargs", callback=json_object, help="JSON object of arguments for the env (gymnasium.make).")
@click.option("--eval-scenarios", "eval__scenarios", type=int, help="Held-out tasks before and after; 0 for none.")
@click.option("--eval-split", "eval__split", help="Split of the evaluation, where the env has splits.")
@click.option(
    "--eval-every",
    "eval__every",
    type=int,
    help="Evaluate every so many steps too, on the validation split; the best checkpoint is kept.",
)
@click.option("--seed", type=int, help="Seed of the whole run.")
@click.option(
    "--track", type=click.Choice(TRACKERS), help="Send the metrics there too; needs the extra of the same name."
)
@click.option(
    "--server",
    "server__urls",
    multiple=True,
    metavar="URL",
    callback=lambda _context, _parameter, urls: urls or None,
    help="A vLLM server of your own that samples; several times for several.",
)
@click.option("--replicas", "server__replicas", type=int, help="vLLM servers to start.  [default: 1]")
@click.option(
    "--engine",
    type=click.Choice(ENGINES),
    help="What trains: local, torchrun (all that it started) or tinker (experimental).  [default: as it was started]",
)
@click.option("--tinker-url", "tinker__url", metavar="URL", help="With --engine tinker: its server, that samples, too.")
@click.option(
    "--threads", type=int, help="CPU threads.  [default: all, or one where it is faster because others use the cores]"
)
@click.option(
    "--set", "settings", multiple=True, metavar="KEY=VALUE", help="Any other setting: loss.type=gspo (JSON value)."
)
@click.option("--show-every", type=int, help="Show the best and the worst episode every so many steps.")
@click.option(
    "--dry-run",
    is_flag=True,
    help="Try the env, and show what would run, where, and its memory; start no server, write no run.",
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
    env: str,
    recipe: str | None,
    run_dir: Path | None,
    resume: bool,
    settings: tuple[str, ...],
    dry_run: bool,
    quiet: bool,
    **options: Any,
) -> None:
    """Train a LoRA policy with GRPO on a registered Gymnasium env, served by vLLM or by a Tinker server."""
    from grpo.config import load_config

    if options["init_adapter"] is not None and options["warm_start__steps"] is None:
        options["warm_start__steps"] = 0
    if options["steps"] is not None and options["minutes"] is not None:
        raise click.UsageError("--minutes chooses the steps: give --minutes or --steps, not both")
    overrides = parse_settings(settings, options | {"env": env})
    config = load_config(recipe, overrides if options["steps"] is None else {"minutes": None} | overrides)
    directory = run_dir or Path(DEFAULT_RUN_DIR.format(env=re.sub("[:/]+", "-", env)))
    if dry_run:
        from grpo.cli.dry_run import what_would_run

        for line in what_would_run(config, directory, resume=resume):
            click.echo(line)
        return
    run_training(config, directory, resume=resume, quiet=quiet)


def run_training(
    config: TrainConfig, directory: Path, *, resume: bool, quiet: bool, trainer: type[Trainer] | None = None
) -> None:
    """Train, evaluate and report; prints the table of evaluations and the report's path. By default GRPO trains."""
    from grpo.cli.user_code import check_user_code
    from grpo.config import dotted
    from grpo.display.terminal import Display
    from grpo.episodes.judges import check_judges
    from grpo.episodes.references import check_references
    from grpo.learner.engines import described
    from grpo.machine.packages import LEARNER, TINKER, require
    from grpo.report import write_report
    from grpo.report.run import conclusion, load_run
    from grpo.runs.checkpoint import newest_checkpoint
    from grpo.runs.directory import RunDirectory
    from grpo.runs.evaluations import AFTER, BEFORE, is_finished, summaries
    from grpo.runs.trained_policy import init_adapter

    share_cores()
    require(*LEARNER, *(TINKER if config.engine == "tinker" else ()))
    learner = described(config)
    check_user_code(config)
    check_tracker(config.track)
    init_adapter(config)
    display = Display(quiet=quiet)
    with RunDirectory.open(directory, config, resume=resume) as run, ExitStack() as at_the_end, display:
        config = run.config
        found = newest_checkpoint(run.checkpoints)
        steps_done = found[1].step if found else None
        same_time = config.minutes in (None, run.earlier_minutes)
        if steps_done is None or steps_done < config.steps or not is_finished(run, config, steps_done) or not same_time:
            for line in (*check_judges(config), *check_references(config)):
                display.note(line)
            config, model, gflops = _find_model(config, run, display)
            _check_memory(config, model, display)
            if learner:
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
        report = write_report(run.root)
        click.echo(f"{conclusion(load_run(run.root))}\nReport: {report}")


def _find_model(
    config: TrainConfig, run: RunDirectory, display: Display
) -> tuple[TrainConfig, ResolvedModel, float | None]:
    """The settings with dtype and threads, which the run keeps; the model; this machine's GFLOP/s where measured."""
    from grpo.cli.dry_run import adapter_line
    from grpo.devices.plan import plan_gpus
    from grpo.devices.shape import ModelShape
    from grpo.machine.dtype import computing_dtype
    from grpo.machine.models import resolve_model
    from grpo.machine.probe import probe

    if config.device != "cpu":  # torch is loaded while vLLM starts, but where a GPU is said to be
        from grpo.learner.lora_model import usable_device

        usable_device(config.device)
    display.phase(f"Model {config.model}")
    model = resolve_model(config.model)
    display.note(f"model: {model.path}")
    if config.engine == "tinker":
        return config, model, None
    shape = ModelShape.read(model.path)
    display.note(adapter_line(config, shape))
    if config.device != "cpu" or (config.dtype != "auto" and config.threads is not None):
        computing = computing_dtype(config.dtype, config.device, model.path)
        display.note(f"computing in {computing}")
        if config.device == "cpu" and (config.threads or 0) < (most := cpu_count()):
            display.note(f"threads: {config.threads} of {most}, as set or begun (--threads {most} uses all)")
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
    from grpo.doctor.checks import Trouble
    from grpo.doctor.memory import check_memory, memory_needs
    from grpo.errors import ConfigError
    from grpo.machine.memory import available_gib

    available = available_gib()
    try:
        if found := check_memory(config, model.path, available):
            display.note(found)
    except Trouble as trouble:
        needs = memory_needs(config, model.path)
        if needs is not None and available is not None and available < needs.least:
            raise ConfigError(
                f"{trouble}, of which {needs.least:.1f} cannot be lowered; end other programs"
            ) from trouble
        display.note(f"Warning: {trouble}. The system may end it without a word: {trouble.fix}")


def _train(
    config: TrainConfig,
    run: RunDirectory,
    model: ResolvedModel,
    display: Display,
    tracking: Tracking,
    gflops: float | None,
    trainer: type[Trainer] | None,
) -> None:
    from grpo.serving.samplers import servers_of
    from grpo.serving.startable import said_if_long

    servers = servers_of(config, model.path, run.server_log, display.note)
    servers.start()
    try:
        starting = f"vLLM is starting at {servers.url}; its log: {run.server_log}"
        display.note(f"sampling from {servers.url}" if config.server.urls or config.tinker.url else starting)
        from grpo.training.first_look import look_at_servers
        from grpo.training.trainer import Trainer

        if config.device != "cpu" or config.server.urls:  # vLLM measures free memory at its start, so no learner yet
            servers.wait_ready(said_if_long(display.note))
        training = (trainer or Trainer)(config, run, model, servers, display, tracking, gflops)
        try:
            if config.server.urls:
                look_at_servers(training)
            training.train()
        finally:
            training.close()
    finally:
        servers.stop()


if __name__ == "__main__":
    train()

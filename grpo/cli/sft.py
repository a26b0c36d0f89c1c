"""``grpo-sft``: a LoRA warm start from demonstrations, as an adapter that ``grpo-train --init-adapter`` starts from."""

from __future__ import annotations

import json
import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from grpo.cli.common import explained, finite, has_learner, json_object, parse_settings
from grpo.machine.hardware import share_cores
from grpo.settings import ENGINES, ServerSettings

if TYPE_CHECKING:
    from grpo.config import TrainConfig


USED_SETTINGS = frozenset(
    {"rollout.chat_template_kwargs", "rollout.history", "lora.alpha", "lora.rank"}
    | {"learner.gradient_checkpointing", "learner.kernels", "learner.shard", "learner.token_budget"}
    | {"dtype", "optimizer.max_grad_norm", "rollout.max_tokens", "train_split"}
)
"""Settings of ``grpo-train`` that imitation depends on, and that have no option of their own here or that the errors
about a GPU's memory name."""


@click.command(epilog="Example: grpo-sft --env EmailSearch-v0 --policy oracle --recipe email-cpu --out adapters/warm")
@click.option("--env", help="Registered env id, or module:id; --policy needs it.")
@click.option(
    "--policy", help="Imitate a policy that the env brings (EmailSearch-v0: oracle, tutor, keyword, bm25, random)."
)
@click.option(
    "--demonstrations", type=click.IntRange(1), default=256, show_default=True, help="Episodes that --policy plays."
)
@click.option(
    "--from-run", type=click.Path(exists=True, file_okay=False, path_type=Path), help="Imitate a run's best episodes."
)
@click.option("--min-reward", type=float, callback=finite, help="With --from-run: leave out episodes of less reward.")
@click.option(
    "--best-per-scenario",
    type=click.IntRange(1),
    help="With --from-run: so many episodes of each scenario, the best.  [default: 1, or all above --min-reward]",
)
@click.option(
    "--data",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help='Imitate chats of a JSONL file: {"messages": [...], "tools": [...]} a line.',
)
@click.option("--out", type=click.Path(path_type=Path), required=True, help="New folder for the adapter.")
@click.option("--recipe", help="Recipe, as for grpo-train, with model, limits and LoRA; --from-run brings its own.")
@click.option("--model", help="smollm2-135m (embedded), a folder, or a model hub id.")
@click.option(
    "--init-adapter",
    type=click.Path(exists=True, file_okay=False),
    help="Start from this adapter, or from a run's newest.",
)
@click.option("--cpu", "device", flag_value="cpu", help="Train on the CPU.")
@click.option("--cuda", "device", flag_value="cuda", help="Train on the GPU.")
@click.option("--epochs", default=1.0, callback=finite, show_default=True, help="Passes over the demonstrations.")
@click.option("--steps", type=click.IntRange(1), help="Optimizer steps, instead of --epochs.")
@click.option("--batch-size", "warm_start__batch", type=int, help="Demonstrations in a step.")
@click.option("--learning-rate", "warm_start__learning_rate", type=float, help="Peak learning rate.")
@click.option("--validation", default=0.1, show_default=True, help="Share of the tasks held out for validation.")
@click.option("--max-tokens", "rollout__max_tokens", type=int, help="Leave out demonstrations of more tokens.")
@click.option("--env-import", help="Module or .py file that registers the env; imported first.")
@click.option("--env-kwargs", callback=json_object, help="JSON object of arguments for the env.")
@click.option("--seed", type=int, help="Seed of all that is random.")
@click.option(
    "--engine",
    type=click.Choice(ENGINES),
    help="What trains: local, torchrun (all that it started) or tinker (experimental).  [default: as it was started]",
)
@click.option("--tinker-url", "tinker__url", metavar="URL", help="With --engine tinker: its server, that samples, too.")
@click.option("--threads", type=int, help="CPU threads.  [default: all]")
@click.option("--set", "settings", multiple=True, metavar="KEY=VALUE", help="Another setting, for example lora.rank=8.")
@click.option("--quiet", is_flag=True, help="Show nothing but errors and the table at the end.")
@explained(lambda _options: "Nothing was written.")
@has_learner
def sft(
    policy: str | None,
    demonstrations: int,
    from_run: Path | None,
    min_reward: float | None,
    best_per_scenario: int | None,
    data: Path | None,
    out: Path,
    epochs: float,
    steps: int | None,
    validation: float,
    quiet: bool,
    **options: Any,
) -> None:
    """Train a LoRA adapter to imitate demonstrations."""
    if sum(source is not None for source in (policy, from_run, data)) != 1:
        raise click.UsageError("name one source of demonstrations: --policy, --from-run or --data")
    if policy is not None and not options["env"]:
        raise click.UsageError("--policy needs --env")
    if from_run is None and (min_reward is not None or best_per_scenario is not None):
        raise click.UsageError("--min-reward and --best-per-scenario go with --from-run")
    if not 0 <= validation < 1 or epochs <= 0:
        raise click.UsageError("--validation is a share from 0 to below 1, and --epochs is above 0")
    from grpo.display.terminal import Display
    from grpo.learner.engines import engine_name
    from grpo.machine.user_code import import_user_module
    from grpo.runs.export import new_folder
    from grpo.training.sft import SupervisedFineTuning

    share_cores()
    recipe = str(from_run / "config.json") if from_run is not None else options["recipe"]
    config = _config(from_run, options)
    engine_name(config)
    if config.env_import is not None:
        import_user_module(config.env_import)
    with Display(quiet=quiet) as display, new_folder(out) as folder:
        tuning = SupervisedFineTuning(config, display)
        if policy is not None:
            tuning.play_policy(policy, demonstrations)
        elif from_run is not None:
            tuning.read_run(from_run, min_reward, best_per_scenario)
        elif data is not None:
            tuning.read_chats(data)
        source = policy or str(from_run or data)
        total, losses = tuning.train(
            folder, out.resolve().name, source, steps=steps, epochs=epochs, validation=validation
        )
    rows = [["demonstrations", str(len(tuning.found.kept))]]
    rows += [[f"left out: {reason}", str(count)] for reason, count in sorted(tuning.found.left_out.items())]
    rows += [["steps", str(total)]]
    if losses:
        rows += [["validation loss before", f"{losses[0]:.4f}"], ["and after", f"{losses[-1]:.4f}"]]
    display.table("Warm start", ["", "value"], rows)
    click.echo(
        f"Adapter: {out}; go on with: grpo-train {_train_arguments(config, recipe, options)} --init-adapter {out}"
    )


def _config(run: Path | None, options: dict[str, Any]) -> TrainConfig:
    from grpo.config import load_config
    from grpo.runs.trained_policy import init_adapter, saved_config

    recipe = options.pop("recipe")
    settings = options["settings"]
    if unused := sorted(parse_settings(settings, {}).keys() - USED_SETTINGS):
        raise click.UsageError(
            f"grpo-sft has no use for {', '.join(unused)}; --set takes {', '.join(sorted(USED_SETTINGS))}"
        )
    given = {key: value for key, value in options.items() if key != "settings"}
    nothing_is_sampled = ServerSettings().model_dump()  # what a recipe says of its server may be of another device
    overrides: dict[str, Any] = {"env": "", "server": nothing_is_sampled} | parse_settings(settings, given)
    if run is not None:
        saved = saved_config(run)
        overrides["env"] = overrides["env"] or saved.env
        overrides["env_kwargs"] = {**saved.env_kwargs, **overrides["env_kwargs"]}
        config = saved_config(run, {"init_adapter": None, **overrides})
    else:
        config = load_config(recipe, overrides)
    init_adapter(config)
    return config


def _train_arguments(config: TrainConfig, recipe: str | None, options: dict[str, Any]) -> str:
    """What a run needs to go on from the adapter in the env and with the LoRA that it was made for, as it was given."""
    shown = ["--env", config.env or "ENV"]
    env_kwargs = json.dumps(options["env_kwargs"]) if options["env_kwargs"] else None
    given = {"--recipe": recipe, "--model": options["model"], "--env-import": options["env_import"]}
    for name, value in (given | {"--env-kwargs": env_kwargs}).items():
        if value is not None:
            shown += [name, value]
    for setting in options["settings"]:
        shown += ["--set", setting]
    return shlex.join(shown)


if __name__ == "__main__":
    sft()

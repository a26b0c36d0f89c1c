"""``grpo-sft``: a LoRA warm start from demonstrations, as an adapter that ``grpo-train --init-adapter`` starts from."""

import json
import shlex
from pathlib import Path
from typing import Any

import click

from grpo.cli.common import explained, has_learner
from grpo.cli.options import finite, recipe_option, setting_options
from grpo.config import TrainConfig, load_config
from grpo.machine.hardware import share_cores
from grpo.settings import JudgeSettings, ServerSettings

SETTINGS_OF_BOTH = frozenset(
    {"rollout.chat_template_kwargs", "rollout.history", "rollout.max_tokens", "lora.alpha", "lora.rank", "dtype"}
    | {"learner.gradient_checkpointing", "learner.shard", "learner.token_budget"}
    | {"optimizer.max_grad_norm", "train_split"}
)
"""Settings of ``grpo-train`` that have no option here and that imitation depends on, too."""

SETTINGS = SETTINGS_OF_BOTH | {"threads", "warm_start.batch", "warm_start.keep", "warm_start.learning_rate"}
SETTINGS |= {f"judge.{name}" for name in JudgeSettings.model_fields}
"""What ``--set`` takes."""

OPTIONS = ("env", "env_kwargs", "env_import", "model", "init_adapter", "device", "seed", "engine", "tinker.url")
OPTIONS += ("reward", "judge.model", "judge.api_base", "judge.rubric")
"""Settings with an option of their own."""


@click.command(epilog="Example: grpo-sft --env EmailSearch-v0 --policy oracle --recipe email-cpu --out adapters/warm")
@setting_options(TrainConfig, *OPTIONS)
@recipe_option
@click.option(
    "--policy",
    help="Imitate a policy that the env brings (EmailSearch-v0: oracle, tutor, keyword, verbatim, bm25, random).",
)
@click.option(
    "--demonstrations", type=click.IntRange(1), default=256, show_default=True, help="Episodes that --policy plays."
)
@click.option(
    "--from-run",
    type=click.Path(exists=True, file_okay=False, path_type=Path),
    help="Imitate the best episodes of a run or of an evaluation.",
)
@click.option("--min-reward", type=float, callback=finite, help="Leave out what has less reward, or none.")
@click.option("--best-share", type=click.FloatRange(0, 1, min_open=True), help="Only this share, of the most reward.")
@click.option(
    "--best-per-scenario",
    type=click.IntRange(1),
    help="So many of each scenario, or prompt: the best.  [default: of --from-run, without another limit, 1 (all with "
    "warm_start.keep=all)]",
)
@click.option(
    "--data",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="Imitate a log: JSONL of chats (messages, tools), of requests with their responses, or of episodes.",
)
@click.option("--out", type=click.Path(path_type=Path), required=True, help="New folder for the adapter.")
@click.option("--epochs", default=1.0, callback=finite, show_default=True, help="Passes over the demonstrations.")
@click.option("--steps", type=click.IntRange(1), help="Optimizer steps, instead of --epochs.")
@click.option("--validation", default=0.1, show_default=True, help="Share of the tasks held out for validation.")
@click.option("--quiet", is_flag=True, help="Show nothing but errors and the table at the end.")
@explained(lambda _options: "Nothing was written.")
@has_learner
def sft(
    given: dict[str, Any],
    recipe: str | None,
    policy: str | None,
    demonstrations: int,
    from_run: Path | None,
    min_reward: float | None,
    best_share: float | None,
    best_per_scenario: int | None,
    data: Path | None,
    out: Path,
    epochs: float,
    steps: int | None,
    validation: float,
    quiet: bool,
) -> None:
    """Train a LoRA adapter to imitate demonstrations.

    --from-run brings a run's own recipe, and an evaluation's env.
    """
    if sum(source is not None for source in (policy, from_run, data)) != 1:
        raise click.UsageError("name one source of demonstrations: --policy, --from-run or --data")
    if policy is not None and not given.get("env"):
        raise click.UsageError("--policy needs --env")
    limits = (min_reward, best_share, best_per_scenario)
    is_chosen = any(limit is not None for limit in limits)
    if policy is not None and (is_chosen or "reward" in given):
        raise click.UsageError("--reward, --min-reward, --best-share, --best-per-scenario go with --from-run or --data")
    if data is not None and "reward" in given and not is_chosen:
        raise click.UsageError("give --reward a limit to choose by: --min-reward, --best-share or --best-per-scenario")
    if not 0 <= validation < 1 or epochs <= 0:
        raise click.UsageError("--validation is a share from 0 to below 1, and --epochs is above 0")
    from grpo.display.terminal import Display
    from grpo.episodes.judges import check_judges
    from grpo.episodes.store import FILE_NAME
    from grpo.machine.user_code import import_user_module
    from grpo.runs.export import new_folder
    from grpo.training.demonstrations import Choice, from_log
    from grpo.training.engines import backend_of
    from grpo.training.rewards import group_reward
    from grpo.training.sft import SupervisedFineTuning, without_servers

    share_cores()
    config = _config(from_run, recipe, given)
    if from_run is not None and not (from_run / FILE_NAME).exists():
        recipe = str(from_run / "config.json")
    backend_of(without_servers(config))
    if config.env_import is not None:
        import_user_module(config.env_import)
    with Display(quiet=quiet) as display, new_folder(out) as folder:
        for line in check_judges(config) if config.reward != "env" else ():
            display.note(line)
        tuning = SupervisedFineTuning(config, display)
        choice = Choice(*limits, reward=None if config.reward == "env" else group_reward(config, folder))
        if policy is not None:
            tuning.play_policy(policy, demonstrations)
        elif from_run is not None:
            tuning.read_run(from_run, choice)
        elif data is not None:
            from_log(tuning.found, data, tuning.chat, choice)
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
    click.echo(f"Adapter: {out}; go on with: grpo-train {_arguments(config, recipe, given)} --init-adapter {out}")


def _config(run: Path | None, recipe: str | None, given: dict[str, Any]) -> TrainConfig:
    from grpo.episodes.store import FILE_NAME, read_config
    from grpo.runs.trained_policy import init_adapter, saved_config

    if unused := sorted(given.keys() - SETTINGS - set(OPTIONS)):
        taken = ", ".join(sorted(SETTINGS.difference(OPTIONS)))
        raise click.UsageError(f"grpo-sft has no use for {', '.join(unused)}; --set takes {taken}")
    nothing_is_sampled = ServerSettings().model_dump()  # what a recipe says of its server may be of another device
    overrides: dict[str, Any] = {"env": "", "server": nothing_is_sampled, "reward": "env"}
    if run is not None:  # what a recipe keeps of a policy's demonstrations says nothing of episodes that were played
        overrides["warm_start.keep"] = "rewarded"
    if run is not None and (run / FILE_NAME).exists():  # an evaluation: its agent had no recipe, or another
        evaluation = read_config(run)
        config = load_config(recipe, overrides | {name: evaluation[name] for name in ("env", "env_kwargs")} | given)
    elif run is not None:
        saved = saved_config(run)
        config = saved_config(run, overrides | {"env": saved.env, "init_adapter": None} | given)
    else:
        config = load_config(recipe, overrides | given)
    init_adapter(config)
    return config


def _arguments(config: TrainConfig, recipe: str | None, given: dict[str, Any]) -> str:
    """What a run needs to go on from the adapter in the env and with the LoRA that it was made for, as it was given."""
    shown = ["--env", config.env or "ENV", *(("--recipe", recipe) if recipe else ())]
    for name, value in given.items():
        text = value if isinstance(value, str) else json.dumps(value)
        if name in ("model", "env_import", "env_kwargs"):
            shown += [f"--{name.replace('_', '-')}", text]
        elif name in SETTINGS_OF_BOTH:
            shown += ["--set", f"{name}={text}"]
    return shlex.join(shown)

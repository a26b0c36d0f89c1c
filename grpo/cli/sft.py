"""``grpo-sft``: a LoRA warm start from demonstrations, as an adapter that ``grpo-train --init-adapter`` starts from."""

from __future__ import annotations

import json
import math
import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from grpo.cli.common import explained, json_object, parse_settings, share_cores

if TYPE_CHECKING:
    from grpo.chat import Chat, ServedChat
    from grpo.config import TrainConfig
    from grpo.demonstrations import Demonstrations
    from grpo.display import Display


USED_SETTINGS = frozenset(
    {"chat_template_kwargs", "history", "lora_alpha", "lora_rank", "max_grad_norm", "token_budget", "train_split"}
)
"""Settings of ``grpo-train`` that have no option of their own here, and that imitation depends on."""


@click.command(epilog="Example: grpo-sft --env EmailSearch-v0 --policy oracle --recipe email-cpu --out adapters/warm")
@click.option("--env", help="Registered env id, or module:id; with --policy.")
@click.option("--policy", help="Imitate a policy that the env brings (EmailSearch-v0: oracle, tutor, keyword).")
@click.option(
    "--demonstrations", type=click.IntRange(1), default=256, show_default=True, help="Episodes that --policy plays."
)
@click.option(
    "--from-run", type=click.Path(exists=True, file_okay=False, path_type=Path), help="Imitate a run's best episodes."
)
@click.option("--min-reward", type=float, help="With --from-run: leave episodes of less reward out.")
@click.option(
    "--best-per-scenario",
    type=click.IntRange(1),
    help="With --from-run: only so many of each, the best.  [default: 1, or all above --min-reward]",
)
@click.option(
    "--data",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help='Imitate chats of a JSONL file: {"messages": [...], "tools": [...]} a line.',
)
@click.option("--out", type=click.Path(path_type=Path), required=True, help="New folder for the adapter.")
@click.option("--recipe", help="Recipe as of grpo-train: model, limits and LoRA; --from-run brings its own.")
@click.option("--model", help="smollm2-135m (embedded), a folder, or a model hub id.")
@click.option(
    "--init-adapter", type=click.Path(exists=True, file_okay=False), help="Go on from an adapter, or a run's newest."
)
@click.option("--cpu", "device", flag_value="cpu", help="Train on the CPU.")
@click.option("--cuda", "device", flag_value="cuda", help="Train on the GPU.")
@click.option("--epochs", default=1.0, show_default=True, help="Passes over the demonstrations.")
@click.option("--steps", type=click.IntRange(1), help="Optimizer steps, instead of --epochs.")
@click.option("--batch-size", "warm_start_batch", type=int, help="Demonstrations a step.")
@click.option("--learning-rate", "warm_start_learning_rate", type=float, help="At its peak.")
@click.option("--validation", default=0.1, show_default=True, help="Share of the tasks held out for validation.")
@click.option("--max-tokens", type=int, help="Longer demonstrations are left out.")
@click.option("--env-import", help="Module or .py file that registers the env; imported first.")
@click.option("--env-kwargs", callback=json_object, help="JSON object of arguments for the env.")
@click.option("--seed", type=int, help="Seed of everything.")
@click.option("--threads", type=int, help="CPU threads.  [default: all]")
@click.option("--set", "settings", multiple=True, metavar="KEY=VALUE", help="Another setting, for example lora_rank.")
@click.option("--quiet", is_flag=True, help="Only errors and the closing table.")
@explained(lambda _options: "Nothing was written.")
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
    if policy and not options["env"]:
        raise click.UsageError("--policy needs --env")
    if from_run is None and (min_reward is not None or best_per_scenario is not None):
        raise click.UsageError("--min-reward and --best-per-scenario go with --from-run")
    if not 0 <= validation < 1 or epochs <= 0:
        raise click.UsageError("--validation is a share from 0 to below 1, and --epochs is above 0")
    from grpo.demonstrations import Demonstrations
    from grpo.display import Display
    from grpo.export import new_folder
    from grpo.models import resolve_model
    from grpo.sft import imitate
    from grpo.user_code import import_user_module

    share_cores()
    recipe = str(from_run / "config.json") if from_run is not None else options["recipe"]
    config = _config(from_run, options)
    if config.env_import is not None:
        import_user_module(config.env_import)
    with Display(quiet=quiet) as display, new_folder(out) as folder:
        from grpo.chat import chat_for, load_tokenizer, served_chat

        model = resolve_model(config.model)
        chat = chat_for(load_tokenizer(model.path), config.history, config.chat_template_kwargs)
        found = Demonstrations(config.max_tokens)
        if policy:
            _play(found, config, chat, policy, demonstrations, display)
        elif from_run is not None:
            if min_reward is None and best_per_scenario is None:
                best_per_scenario = 1
            _read_run(found, from_run, config, chat, min_reward, best_per_scenario)
        elif data is not None:
            from grpo.demonstrations import from_jsonl

            from_jsonl(found, data, chat)
        train, held_out = found.split(validation, config.seed)
        total = steps or max(1, math.ceil(epochs * len(train) / config.warm_start_batch))
        losses = imitate(config, model.path, train, held_out, total, folder, display)
        source = policy or str(from_run or data)
        _describe(folder, config, model.public_name, out, source, total, served_chat(chat))
        rows = [["demonstrations", str(len(found.kept))]]
        rows += [[f"left out: {reason}", str(count)] for reason, count in sorted(found.left_out.items())]
        rows += [["steps", str(total)]]
        if held_out:
            rows += [["validation loss before", f"{losses[0]:.4f}"], ["and after", f"{losses[-1]:.4f}"]]
    display.table("Warm start", ["", "value"], rows)
    click.echo(
        f"Adapter: {out}; go on with: grpo-train {_train_arguments(config, recipe, options)} --init-adapter {out}"
    )


def _config(run: Path | None, options: dict[str, Any]) -> TrainConfig:
    from grpo.config import load_config
    from grpo.handover import init_adapter, saved_config

    recipe = options.pop("recipe")
    overrides = {key: value for key, value in options.items() if value is not None and key != "settings"}
    settings = parse_settings(options["settings"])
    if unused := sorted(settings.keys() - USED_SETTINGS):
        raise click.UsageError(
            f"grpo-sft has no use for {', '.join(unused)}; --set takes {', '.join(sorted(USED_SETTINGS))}"
        )
    overrides |= settings
    overrides.setdefault("env", "")
    if run is not None:
        saved = saved_config(run)
        overrides["env"] = overrides["env"] or saved.env
        overrides["env_kwargs"] = {**saved.env_kwargs, **overrides["env_kwargs"]}
        config = saved_config(run, {"init_adapter": None, **overrides})
    else:
        config = load_config(recipe, overrides)
    init_adapter(config)
    return config


def _play(found: Demonstrations, config: TrainConfig, chat: Chat, policy: str, count: int, display: Display) -> None:
    from grpo.demonstrations import from_policy
    from grpo.envs import Episode, takes_split
    from grpo.groups import TaskStream
    from grpo.seeds import derive_seed

    split = {"split": config.train_split} if takes_split(config.env) else {}
    episode = Episode(config.env, {**split, **config.env_kwargs})
    stream = TaskStream(episode.scenario_ids(), derive_seed(config.seed, "demonstrations"))
    display.phase(f"{count} demonstrations of {policy}")
    with display.progress("demonstrations", count) as bar:
        from_policy(found, episode, stream.take(count), chat, policy, bar.update)
    episode.close()


def _read_run(
    found: Demonstrations,
    run: Path,
    config: TrainConfig,
    chat: Chat,
    min_reward: float | None,
    best_per_scenario: int | None,
) -> None:
    from grpo.demonstrations import from_run
    from grpo.handover import saved_config

    from_run(
        found,
        sorted((run / "trajectories").glob("*.jsonl")),
        chat,
        same_model=saved_config(run).model == config.model,
        min_reward=min_reward,
        best_per_scenario=best_per_scenario,
    )


def _describe(
    folder: Path, config: TrainConfig, base: str, out: Path, source: str, steps: int, served: ServedChat
) -> None:
    from grpo.card import Card, name_base_model, write_card

    name_base_model(folder, base)
    keys = {"env", "env_kwargs", "max_tokens", "lora_rank", "lora_alpha", "seed", "model"}
    settings = json.loads(config.model_dump_json(include=keys)) | {
        "batch_size": config.warm_start_batch,
        "learning_rate": config.warm_start_learning_rate,
    }
    task = f"{config.env}, {source}" if config.env else source
    write_card(folder, Card(out.resolve().name, base, config.model, "SFT", task, steps, settings=settings), served)


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

"""From what training left to a policy that can be served, exported or evaluated: its adapter, its base, its settings.

A path that a user gives is a run directory (``config.json``) or a folder with a PEFT adapter (``adapter_config.json``).
"""

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from grpo.chat import TEMPLATE_FILE, ServedChat, chat_for, load_tokenizer, served_chat
from grpo.config import TrainConfig, dotted, load_config
from grpo.errors import ConfigError, ModelError
from grpo.machine.adapters import ADAPTER_CONFIG, read_adapter
from grpo.machine.models import EMBEDDED_HUB_ID, EMBEDDED_MODEL
from grpo.runs.directory import RunDirectory
from grpo.runs.evaluations import AFTER, BEFORE, summaries
from grpo.runs.model_card import Card
from grpo.runs.retention import checkpoint_name, checkpoints, find_checkpoint, step_of
from judges.common.files import read_json

PRIVATE_SETTINGS = {"judge": {"api_base"}, "answer_judge": {"api_base"}, "server": {"urls"}, "tinker": {"url"}}
"""Addresses, which a model card leaves out."""


@dataclass(frozen=True, slots=True)
class TrainedPolicy:
    """An adapter and where it comes from.

    Attributes:
        adapter: Folder with a PEFT adapter.
        model: Its base model, as ``resolve_model`` takes it.
        name: What to call it.
        rank: LoRA rank.
        config: Settings of its run; None for an adapter on its own.
        run: Its run directory; None for an adapter on its own.
        step: GRPO steps; None for an adapter on its own.
    """

    adapter: Path
    model: str
    name: str
    rank: int
    config: TrainConfig | None = None
    run: RunDirectory | None = None
    step: int | None = None


def find_policy(path: Path, checkpoint: str = "newest", model: str | None = None) -> TrainedPolicy:
    """The policy that a run directory or an adapter folder holds; a checkpoint's folder has the settings of its run.

    Args:
        path: The folder.
        checkpoint: Of a run: ``newest``, ``best``, or the number of a step.
        model: Base model to use instead of the one that is noted.

    Raises:
        ConfigError: The folder is neither, or an adapter is broken.
        ModelError: The adapter has more than LoRA on linear layers.
        CheckpointError: The run has no such checkpoint.
    """
    is_adapter = (path / ADAPTER_CONFIG).exists()
    if is_adapter and checkpoint != "newest":
        raise ConfigError(f"{path} is one adapter, not a run: it has no checkpoint {checkpoint!r} to choose")
    root = _run_of(path.resolve()) if is_adapter else path
    if root is None:
        return _adapter(path, model)
    if not (root / "config.json").exists():
        raise ConfigError(f"{path} is neither a run directory (config.json) nor an adapter ({ADAPTER_CONFIG})")
    run, config = RunDirectory(root), saved_config(root)
    found = path.resolve() if is_adapter else find_checkpoint(run.checkpoints, checkpoint)
    name, rank = f"{run.root.name}-{found.name}", int(read_adapter(found)["r"])
    return TrainedPolicy(found, model or config.model, name, rank, config, run, step_of(found.name))


def saved_config(run: Path, overrides: dict[str, Any] | None = None) -> TrainConfig:
    """The settings of a run directory, with ``overrides`` on top.

    Raises:
        ConfigError: It is no run directory, or its settings cannot be used.
    """
    try:
        saved = read_json(run / "config.json", "env")
    except (OSError, ValueError) as error:
        raise ConfigError(f"{run} is no run directory: {error}") from error
    return load_config(None, saved | (overrides or {}))


def run_card(run: RunDirectory, config: TrainConfig, base_model: str, step: int) -> Card:
    """The model card of a run's checkpoint: its held-out score, and that before GRPO."""
    before = summaries(run, config, BEFORE)
    own = [s for s in summaries(run, config, checkpoint_name(step), AFTER) if s["policy"] == step]
    return Card(
        name=f"{run.root.name}-step-{step:04d}",
        base_model=base_model,
        model=config.model,
        method="GRPO",
        task=config.env,
        steps=step,
        scores=[*before, *own],
        settings=dotted(config.model_dump(mode="json", exclude=PRIVATE_SETTINGS)),
    )


def served_policy(policy: TrainedPolicy, model_path: Path) -> ServedChat | None:
    """How a server is to prompt a policy; None where no chat format fits its model.

    An adapter on its own is prompted by the template that lies beside it.
    """
    try:
        tokenizer = load_tokenizer(model_path)
        if policy.config is not None:
            rollout = policy.config.rollout
            return served_chat(chat_for(tokenizer, rollout.history, rollout.chat_template_kwargs))
        served = served_chat(chat_for(tokenizer))
    except ModelError:
        return None
    own = policy.adapter / TEMPLATE_FILE
    return replace(served, template=own.read_text(encoding="utf-8")) if own.exists() else served


def init_adapter(config: TrainConfig) -> Path | None:
    """The adapter that ``config.init_adapter`` names: a folder with one, or a run, whose newest checkpoint it is.

    Raises:
        ConfigError: It is no adapter, or its rank or scale is not the run's.
        CheckpointError: The run that it names has no checkpoint.
    """
    if config.init_adapter is None:
        return None
    folder = find_policy(Path(config.init_adapter)).adapter
    saved = read_adapter(folder)
    rank, alpha = saved["r"], saved.get("lora_alpha")
    if (rank, alpha) != (config.lora.rank, config.lora.alpha):
        raise ConfigError(
            f"the adapter {config.init_adapter} has rank {rank} and alpha {alpha}, this run {config.lora.rank} and "
            f"{config.lora.alpha}; add --set lora.rank={rank} --set lora.alpha={alpha}"
        )
    return folder


def _run_of(adapter: Path) -> Path | None:
    """The run whose checkpoint an adapter is; None for one on its own."""
    run = adapter.parent.parent
    is_checkpoint = adapter in checkpoints(run / "checkpoints")
    return run if is_checkpoint and (run / "config.json").exists() else None


def _adapter(path: Path, model: str | None) -> TrainedPolicy:
    config = read_adapter(path)
    base = model or str(config.get("base_model_name_or_path") or "")
    if not base:
        raise ConfigError(f"{path / ADAPTER_CONFIG} names no base model; name it with --model")
    # The hub model of that name and the embedded one have the same weights but for their rounding.
    named = EMBEDDED_MODEL if base == EMBEDDED_HUB_ID else base
    return TrainedPolicy(path, named, path.resolve().name, int(config["r"]))

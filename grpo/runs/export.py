"""A trained policy as a folder of its own: the adapter, or the base model with the adapter merged into it.

The folder appears whole or not at all, and never replaces another. Merging adds ``alpha / r * B A`` to each weight in
float32 and rounds once, to the dtype of the base model; what was written is read again and compared.
"""

import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

from grpo.errors import ConfigError, ModelError
from grpo.machine.adapters import ADAPTER_FILES
from grpo.machine.models import ResolvedModel
from grpo.runs.model_card import Card, name_base_model, write_card
from grpo.runs.trained_policy import TrainedPolicy, run_card, served_policy
from judges.common.files import fsync_tree, usual_mode

GENERATION_CONFIG = "generation_config.json"
PROBE_IDS = range(100, 164)


def export_policy(policy: TrainedPolicy, model: ResolvedModel, out: Path, *, merge: bool) -> None:
    """Write the adapter, or with ``merge`` the whole model and its tokenizer, with a card and the template of training.

    Raises:
        ConfigError: ``out`` exists.
        ModelError: The base model or the adapter cannot be loaded, or the merged model computes something else.
    """
    card = Card(policy.name, model.public_name, policy.model, method="", task="", steps=0)
    if policy.run is not None and policy.config is not None and policy.step is not None:
        card = run_card(policy.run, policy.config, model.public_name, policy.step)
    with new_folder(out) as folder:
        served = served_policy(policy, model.path)
        if merge:
            _merge(policy.adapter, model.path, folder, served.template if served else None)
        else:
            for name in ADAPTER_FILES:
                shutil.copyfile(policy.adapter / name, folder / name)
            name_base_model(folder, model.public_name)
        write_card(folder, replace(card, name=out.resolve().name, is_merged=merge), served)


@contextmanager
def new_folder(out: Path) -> Iterator[Path]:
    """A scratch folder beside ``out`` that becomes ``out`` when all has gone well.

    Raises:
        ConfigError: ``out`` exists, or nothing can be written there.
    """
    out = out.absolute()
    refusal = ConfigError(f"{out} exists; choose another --out, or remove it first")
    try:
        if out.exists():
            raise refusal
        out.parent.mkdir(parents=True, exist_ok=True)
        beside = tempfile.TemporaryDirectory(dir=out.parent, prefix=f".{out.name}-")
    except OSError as error:
        raise ConfigError(f"{out} cannot be written: {error}; choose another --out") from error
    with beside as scratch:
        folder = Path(scratch) / "whole"
        folder.mkdir()
        yield folder
        for path in folder.rglob("*"):
            path.chmod(usual_mode(is_folder=path.is_dir()))  # some files begin as temporary ones, for their owner alone
        fsync_tree(folder)
        if out.exists():  # somebody else was faster; rename would replace an empty folder
            raise refusal
        folder.rename(out)


def _merge(adapter: Path, base: Path, folder: Path, chat_template: str | None) -> None:
    import torch
    from safetensors import SafetensorError
    from transformers import AutoTokenizer, GenerationConfig

    from grpo.learner.load_check import gap_above_rounding, plain_logprobs
    from grpo.learner.lora_model import load_adapter, load_base

    dtype: Any = load_base(base, device_map="meta").dtype
    model = load_adapter(load_base(base, dtype=torch.float32), adapter).eval()
    expected = plain_logprobs(model, PROBE_IDS)
    model = model.merge_and_unload().to(dtype)
    model.generation_config = GenerationConfig()  # one that transformers reads it may refuse to write
    try:
        model.save_pretrained(folder)
    except SafetensorError as error:
        raise ModelError(f"the merged model cannot be written ({error}); make room, or check the disk") from error
    (folder / GENERATION_CONFIG).unlink()
    if (own := base / GENERATION_CONFIG).is_file():
        shutil.copyfile(own, folder / GENERATION_CONFIG)
    del model  # there is room for one
    if gap := gap_above_rounding(plain_logprobs(load_base(folder), PROBE_IDS), expected, dtype):
        raise ModelError(
            f"the merged model does not compute what {base} with {adapter} does: log-probabilities differ by {gap:.3g} "
            "nats a token; export the adapter without --merge"
        )
    tokenizer = AutoTokenizer.from_pretrained(base)
    tokenizer.chat_template = chat_template or tokenizer.chat_template
    tokenizer.save_pretrained(folder)

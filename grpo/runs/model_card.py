"""What is written beside an adapter so that it can be used elsewhere: a model card, and the name of its base model.

The embedded model is named by its hub id, because a path of this machine is of no use elsewhere. The embedded weights
are that model's, quantised to 4 bits: the card says so, and ``grpo-serve`` takes the embedded ones.
"""

import json
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import jinja2

from grpo.chat.served import TEMPLATE_FILE, ServedChat
from grpo.machine.adapters import ADAPTER_CONFIG
from grpo.machine.models import EMBEDDED_MODEL
from grpo.serving.vllm_options import served_rank
from judges.common.files import write_text

CARD_FILE = "README.md"
_TEMPLATE = Path(__file__).with_name("model_card.md.j2")


@dataclass(frozen=True, slots=True)
class Card:
    """What a model card says.

    Attributes:
        name: Of the adapter; what a server is told to call it.
        base_model: Hub id, or a folder where there is none.
        model: The base model as the run's settings name it.
        method: How it was trained: ``GRPO`` or ``SFT``; empty where that is not known.
        task: The env, or the file of demonstrations.
        steps: Optimizer steps of GRPO or of the warm start.
        scores: Held-out evaluations, as they lie in a run's ``eval``; the first is the comparison.
        settings: The settings of the run.
        is_merged: Whether it lies beside a whole model instead of an adapter.
    """

    name: str
    base_model: str
    model: str
    method: str
    task: str
    steps: int
    scores: Sequence[Mapping[str, Any]] = ()
    settings: Mapping[str, Any] = field(default_factory=dict)
    is_merged: bool = False


def write_card(folder: Path, card: Card, served: ServedChat | None) -> None:
    """Write ``README.md`` of an adapter or a merged model, and beside an adapter the chat template to serve it with.

    Args:
        folder: With the adapter or the model.
        card: What the page says.
        served: How the policy was prompted; None where that is not known.
    """
    if served is not None and not card.is_merged:
        write_text(folder / TEMPLATE_FILE, served.template)
    environment = jinja2.Environment(
        undefined=jinja2.StrictUndefined,
        keep_trailing_newline=True,
        trim_blocks=True,
        autoescape=False,  # Markdown, from the run's own settings
    )
    environment.filters["quoted"] = shlex.quote
    text = environment.from_string(_TEMPLATE.read_text(encoding="utf-8")).render(
        card=card,
        is_embedded=card.model == EMBEDDED_MODEL,
        is_folder=Path(card.base_model).is_absolute(),
        served=served,
        max_lora_rank=None if card.is_merged else served_rank(json.loads((folder / ADAPTER_CONFIG).read_text())["r"]),
        settings=json.dumps(dict(card.settings), indent=2),
    )
    write_text(folder / CARD_FILE, text)


def name_base_model(folder: Path, base_model: str) -> None:
    """Put ``base_model`` where an adapter of peft keeps the folder that its base was loaded from.

    The adapter is one that is being made: nobody reads it yet, and its files are not yet flushed to disk.
    """
    path = folder / ADAPTER_CONFIG
    config = json.loads(path.read_text(encoding="utf-8"))
    config["base_model_name_or_path"] = base_model
    path.write_text(json.dumps(config, indent=2) + "\n", encoding="utf-8")

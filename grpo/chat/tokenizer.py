"""The tokenizer of a model folder."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from grpo.errors import ModelError


def load_tokenizer(model_path: Path) -> Any:
    """The model folder's tokenizer (transformers, no torch needed)."""
    os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")
    from transformers import AutoTokenizer

    try:
        return AutoTokenizer.from_pretrained(str(model_path))
    except (OSError, ValueError) as error:
        raise ModelError(f"no tokenizer could be loaded from {model_path}: {error}") from error

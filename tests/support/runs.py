"""Runs and adapters on disk, as far as their files matter: no model can be loaded with them."""

import json
from pathlib import Path

from grpo.config import load_config
from judges.common.files import write_json


def weights_file(value: bytes = b"weights", name: str = "model.layers.0.mlp.up_proj.lora_A.weight") -> bytes:
    """A safetensors file with one tensor."""
    tensor = {"dtype": "U8", "shape": [len(value)], "data_offsets": [0, len(value)]}
    header = json.dumps({name: tensor}).encode()
    return len(header).to_bytes(8, "little") + header + value


def write_adapter(folder: Path, rank: int = 8, base: str | None = "org/base") -> Path:
    """An adapter in PEFT's form whose weights nothing can load."""
    folder.mkdir(parents=True)
    write_json(folder / "adapter_config.json", {"r": rank, "lora_alpha": 16, "base_model_name_or_path": base})
    (folder / "adapter_model.safetensors").write_bytes(weights_file())
    return folder


def write_checkpoint(run: Path, step: int) -> Path:
    """A checkpoint of a run."""
    folder = write_adapter(run / "checkpoints" / f"step-{step:04d}")
    write_json(folder / "state.json", {"step": step})
    return folder


def write_run(root: Path, steps: tuple[int, ...] = (0, 1, 2)) -> Path:
    """A run with the checkpoints of these steps."""
    for step in steps:
        write_checkpoint(root, step)
    write_json(
        root / "config.json", json.loads(load_config(None, {"env": "Word-v0", "lora.rank": 8}).model_dump_json())
    )
    return root

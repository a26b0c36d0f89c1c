"""What is known of families of models: the one table that code, ``grpo-doctor`` and docs/models.md read.

A family is refused, or was tried: tests compute a tiny random model of it as a plain loop over transformers does, and,
where it is ``served``, train one for two steps with a real vLLM. Nothing else in the learner knows a family's name.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from grpo.errors import ModelError


@dataclass(frozen=True, slots=True)
class Family:
    """A row of the table.

    Attributes:
        name: As people say it.
        kinds: What ``model_type`` of its configs says.
        beside: What a block has besides plain attention and a dense MLP.
        calls: How it writes calls of tools, and whether this is tested with its own template.
        served: Whether a run of two steps was made with vLLM.
        windowed: Whether transformers looks back through a window where the config has one.
        why: Why it is refused, or was never served.
        is_refused: Whether a run with it ends before anything starts.
    """

    name: str
    kinds: tuple[str, ...]
    beside: str = ""
    calls: str = "JSON; tried at the start"
    served: bool = False
    windowed: bool = False
    why: str = ""
    is_refused: bool = False

    @property
    def verdict(self) -> str:
        """What a user may do with it."""
        if self.is_refused:
            return f"refused: {self.why}"
        known = "trained and served here" if self.served else "computed here, never served"
        return f"{known}: {self.why}" if self.why else known


_AMX = "on a CPU vLLM computes its linear attention with AMX and in bfloat16 alone, and needs torchvision"
_ON_GPUS = "with LoRA, vLLM computes experts on GPUs alone"

FAMILIES = (
    Family("Llama, SmolLM2", ("llama",), calls="JSON; tested", served=True),
    Family("Qwen2.5", ("qwen2",), calls="JSON in tags; tested", served=True),
    Family("Qwen3", ("qwen3",), calls="JSON in tags; tested", served=True),
    Family("SmolLM3", ("smollm3",), calls="JSON in tags; tested", served=True),
    Family("Mistral", ("mistral",), served=True, windowed=True),
    Family("Granite 3", ("granite",), served=True),
    Family("Qwen3.5", ("qwen3_5", "qwen3_5_text"), "linear attention", "XML in tags; tested", True, why=_AMX),
    Family("LFM2", ("lfm2",), "short convolutions", "Python in tags; tested", True),
    Family(
        "Granite 4",
        ("granitemoehybrid",),
        "Mamba 2; experts in some",
        "JSON in tags; tested",
        True,
        why="without experts",
    ),
    Family("Qwen3 MoE", ("qwen3_moe",), "experts", "JSON in tags; tested", why=_ON_GPUS),
    Family("Qwen3-Next", ("qwen3_next",), "linear attention, experts", why=_ON_GPUS),
    Family(
        "Qwen3.5 MoE",
        ("qwen3_5_moe", "qwen3_5_moe_text"),
        "linear attention, experts",
        "XML in tags; tested",
        why=_ON_GPUS,
    ),
    Family("LFM2 MoE", ("lfm2_moe",), "short convolutions, experts", "Python in tags; tested", why=_ON_GPUS),
    Family(
        "gpt-oss",
        ("gpt_oss",),
        "windows, sinks, experts",
        "channels",
        windowed=True,
        why="its calls in channels are not read, and its published weights are quantised",
        is_refused=True,
    ),
    Family(
        "Gemma 2 and 3",
        ("gemma2", "gemma3", "gemma3_text"),
        "windows, caps",
        "none",
        why="their templates know no tools",
        is_refused=True,
    ),
    Family(
        "Phi-3, Phi-4-mini",
        ("phi3",),
        calls="not read",
        why="projections are fused, and tools are not shown",
        is_refused=True,
    ),
)
"""What was tried, the plainest first."""


OTHERS = "docs/models.md has those that can be trained, such as Llama, Qwen2.5 or SmolLM2"
"""What an error about a model says to do."""


def family_of(config: Mapping[str, Any]) -> Family | None:
    """The family of a model by its ``config.json``; None where nobody tested it."""
    return next((family for family in FAMILIES if config.get("model_type") in family.kinds), None)


def check_family(config: Mapping[str, Any], untested: bool) -> None:
    """Refuse a model of a family that is refused, or that nobody tested where that was not asked for.

    Raises:
        ModelError: It is.
    """
    family, kind = family_of(config), config.get("model_type")
    if family is not None and family.is_refused:
        raise ModelError(f"models of {family.name} ({kind}) are refused: {family.why}; {OTHERS}")
    if family is None and kind is not None and not untested:
        raise ModelError(
            f"nobody tested models of the kind {kind!r} here; {OTHERS}, or try it with --set untested_model=true: it "
            "is compared with transformers when it is loaded"
        )

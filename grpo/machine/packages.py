"""Packages of the extras: what is said where one is not installed."""

from __future__ import annotations

import importlib.util

LEARNER = ("torch", "transformers", "peft", "safetensors")
"""What training, and serving what was trained, needs besides vLLM."""

TINKER = ("tinker",)
"""The client of a Tinker server."""

OF_TRAINING = (*LEARNER, "accelerate", "gguf", "vllm")


def require(*names: str) -> None:
    """Raise for the first package that is not installed, as importing it would.

    Raises:
        ModuleNotFoundError: A package is not installed.
    """
    for name in names:
        if importlib.util.find_spec(name) is None:
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)


def how_to_install(error: ModuleNotFoundError) -> str | None:
    """What to do about a package that is not installed; None where it is none of an extra."""
    package = (error.name or "").partition(".")[0]
    if package in TINKER:
        return (
            "this needs the package tinker, which is not installed; install the extra 'tinker' beside 'cpu' or 'gpu' "
            "(scripts/install cpu,tinker)"
        )
    if package not in OF_TRAINING:
        return None
    return (
        f"this needs the package {package}, which is not installed; scripts/install cpu (or gpu) installs all that "
        "training needs (docs/install.md)"
    )

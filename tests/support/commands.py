"""Every console script of pyproject.toml as its click command, by name."""

import importlib
import tomllib

import click

from tests import ROOT

SCRIPTS: dict[str, str] = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["scripts"]


def _command(target: str) -> click.Command:
    module, _, name = target.partition(":")
    return getattr(importlib.import_module(module), name)


COMMANDS = {name: _command(target) for name, target in SCRIPTS.items()}


def sets(*settings: str) -> list[str]:
    """``--set`` before each."""
    return [word for setting in settings for word in ("--set", setting)]

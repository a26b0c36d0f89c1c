"""``python -m grpo.cli COMMAND ...`` where the console scripts are not on the path: ``train`` is ``grpo-train``."""

import importlib
import pkgutil
import sys

import grpo.cli

if __name__ == "__main__":
    commands = sorted(m.name for m in pkgutil.iter_modules(grpo.cli.__path__) if m.name not in ("__main__", "common"))
    if len(sys.argv) < 2 or sys.argv[1] not in commands:
        sys.exit(f"usage: python -m grpo.cli COMMAND ...; commands: {', '.join(commands)}")
    name = sys.argv.pop(1)
    getattr(importlib.import_module(f"grpo.cli.{name}"), name)(prog_name=f"grpo-{name}")

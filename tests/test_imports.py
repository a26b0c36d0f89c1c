"""What a package, or the help of a command, leaves unloaded, and that no two files import each other."""

import ast
import os
import subprocess
import sys
from graphlib import TopologicalSorter

import pytest

import judges
from tests import ROOT

REFUSE_SOCKETS = """
import contextlib, io, sys

def refuse(event, args):
    assert not event.startswith("socket."), event

def show_help(command, *names):
    out = io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.suppress(SystemExit):
        command([*names, "--help"])
    assert "Usage" in out.getvalue()

sys.addaudithook(refuse)
"""
ALONE = "import types; email_env = sys.modules['email_env'] = types.ModuleType('email_env'); email_env.__path__ = ['email_env']"
"""`email_env/__init__` registers the environment; what that imports is not the matter of all its rooms."""


def run(program):
    environment = {name: value for name, value in os.environ.items() if not name.startswith("LITELLM_")}
    command = [sys.executable, "-c", REFUSE_SOCKETS + program]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, cwd=ROOT, env=environment)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


@pytest.mark.parametrize(
    ("program", "unloaded"),
    [
        ("import judges", "judges.llm judges.scoring asyncio"),
        ("import judges.cli, judges.scoring.ruler", "litellm openai httpx torch rich"),
        (
            "from judges.cli import main\nshow_help(main)\nfor name in main.commands: show_help(main, name)",
            "litellm openai httpx torch pydantic rich sqlite3",
        ),
        ("from grpo.cli.train import train\nshow_help(train)", "torch vllm transformers litellm"),
        ("import grpo.machine.models, grpo.machine.hardware, grpo.serving.server", "torch transformers vllm"),
        ("import grpo.serving.adapters", "torch transformers vllm"),
        ("import grpo.display.metrics, grpo.statistics, grpo.display.terminal, grpo.report", "torch"),
        ("import gymnasium, email_env", "email_env.env"),
        ("import email_env.env, email_env.cli, email_env.cache", "email_env.demo"),
        ("import email_env.env", "judges.llm judges.scoring judges.reliability asyncio pydantic"),
        ("from email_env.make_scenarios.cli import main\nshow_help(main)", "litellm pydantic openai"),
        (
            f"{ALONE}\nimport email_env.search.database, email_env.cache, email_env.scenarios.scenario",
            "click rich pydantic torch",
        ),
    ],
)
def test_what_is_heavy_is_loaded_where_it_is_used(program, unloaded):
    run(f"{program}\nheavy = set({unloaded!r}.split()) & set(sys.modules)\nassert not heavy, heavy")


def test_every_name_of_judges_is_loaded_at_its_first_use():
    names = dir(judges)
    assert len({getattr(judges, name) for name in names}) == len(names) > 20
    with pytest.raises(AttributeError, match="module 'judges' has no attribute 'rulers'"):
        judges.rulers  # noqa: B018


def test_loading_litellm_opens_no_socket_and_prints_nothing():
    pytest.importorskip("litellm", reason="judges need litellm (install the extra 'judge')")
    run("from judges.llm.client import load_litellm\nload_litellm()")


def test_the_refusal_of_sockets_would_notice_one():
    program = REFUSE_SOCKETS + "import socket\nsocket.socket()"
    assert subprocess.run([sys.executable, "-c", program], capture_output=True, timeout=300).returncode == 1


def imports(package):
    """The files of a package by their modules' names, each with the modules of the package that it imports."""
    files = {".".join(path.relative_to(ROOT).with_suffix("").parts): path for path in (ROOT / package).rglob("*.py")}
    files = {name.removesuffix(".__init__"): path for name, path in files.items()}
    found = {}
    for name, path in files.items():
        named = set()
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Import):
                named |= {alias.name for alias in node.names}
            elif isinstance(node, ast.ImportFrom) and node.module:
                members = {f"{node.module}.{alias.name}" for alias in node.names}
                named |= members & files.keys() or {node.module}
        found[name] = (named & files.keys()) - {name}
    return found


@pytest.mark.parametrize("package", ["grpo", "judges", "email_env"])
def test_no_file_imports_in_a_circle(package):
    order = list(TopologicalSorter(imports(package)).static_order())  # raises with the circle
    assert len(order) > 20

"""What a package, or the help of a command, leaves unloaded: it starts fast, works where the rest is missing, asks nobody."""

import subprocess
import sys

import pytest

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
    done = subprocess.run(
        [sys.executable, "-c", REFUSE_SOCKETS + program], capture_output=True, text=True, timeout=300, cwd=ROOT
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


@pytest.mark.parametrize(
    ("program", "unloaded"),
    [
        ("import judges", "litellm openai httpx torch pydantic rich"),
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
        ("from email_env.make_scenarios.cli import main\nshow_help(main)", "litellm pydantic openai"),
        (
            f"{ALONE}\nimport email_env.search.database, email_env.cache, email_env.scenarios.scenario",
            "click rich sqlite_utils pydantic torch",
        ),
    ],
)
def test_what_is_heavy_is_loaded_where_it_is_used(program, unloaded):
    run(f"{program}\nheavy = set({unloaded!r}.split()) & set(sys.modules)\nassert not heavy, heavy")


def test_loading_litellm_opens_no_socket_and_prints_nothing():
    pytest.importorskip("litellm", reason="judges need litellm (install the extra 'judge')")
    run("from judges.llm.client import load_litellm\nload_litellm()")


def test_the_refusal_of_sockets_would_notice_one():
    program = REFUSE_SOCKETS + "import socket\nsocket.socket()"
    assert subprocess.run([sys.executable, "-c", program], capture_output=True, timeout=300).returncode == 1

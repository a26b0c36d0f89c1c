"""Every code block of the README runs: Python blocks as they stand, commands as far as they can without a long training."""

import re
import shlex
import subprocess
import sys
import threading
from pathlib import Path

import click
import pytest
from click.testing import CliRunner

from tests.commands import COMMANDS

ROOT = Path(__file__).parents[1]
README = (ROOT / "README.md").read_text(encoding="utf-8")
BLOCKS = re.findall(r"^```(\w*)\n(.*?)^```$", README, re.M | re.S)
PYTHON = [body for kind, body in BLOCKS if kind == "python"]
LINES = [line[2:] for kind, body in BLOCKS if kind == "console" for line in body.splitlines() if line.startswith("$ ")]


def test_every_block_says_what_it_is():
    assert {kind for kind, _ in BLOCKS} <= {"python", "console", "text"}
    assert len(PYTHON) >= 3
    assert len(LINES) >= 8


@pytest.mark.parametrize("number", [i for i, body in enumerate(PYTHON) if "judges" not in body])
def test_python_blocks_run_one_after_another(number):
    program = "\n".join(PYTHON[: number + 1])
    subprocess.run([sys.executable, "-c", program], check=True, cwd=ROOT, capture_output=True)


def test_the_judging_block_runs_against_a_local_judge(capsys):
    pytest.importorskip("litellm", reason="judges need litellm (install the extra 'judge')")
    from tests.judge_server import JudgeServer, score_by

    (block,) = [body for body in PYTHON if "judges" in body]
    answer = score_by(lambda messages: (1.0 if messages[-1]["content"] == "4" else 0.0, "arithmetic"))
    with JudgeServer(answer) as server:
        worker = threading.Thread(target=lambda: exec(block.replace("http://127.0.0.1:8000/v1", server.url), {}))
        worker.start()
        worker.join()
    assert capsys.readouterr().out == "1.0 arithmetic\n0.0 arithmetic\nTrue match\n"


@pytest.mark.parametrize("line", [line for line in LINES if not line.startswith(("scripts/", "datasette "))])
def test_commands_parse_as_written(line):
    name, *arguments = shlex.split(line)
    reads_a_run = name in ("grpo-view", "grpo-judge", "grpo-serve", "grpo-export", "grpo-compare")
    arguments = [str(ROOT) if reads_a_run and a.startswith(("runs/", "evals/")) else a for a in arguments]
    arguments = [str(ROOT / "README.md") if name == "grpo-judge" and a.endswith(".jsonl") else a for a in arguments]
    for option, existing in (("--from-run", ROOT), ("--init-adapter", ROOT), ("--data", ROOT / "README.md")):
        if name in ("grpo-sft", "grpo-train") and option in arguments:
            arguments[arguments.index(option) + 1] = str(existing)
    command = COMMANDS[name]
    while isinstance(command, click.Group):
        with click.Context(command) as group:
            _, subcommand, arguments = command.resolve_command(group, arguments)
        assert subcommand is not None
        command = subcommand
    command.make_context(name, arguments).close()


def test_the_bundled_database_is_built_as_written(tmp_path):
    from email_env.cli import main as build_enron_db

    assert "build-enron-db demo --out data/demo.db" in LINES
    result = CliRunner().invoke(build_enron_db, ["demo", "--out", str(tmp_path / "demo.db")])
    assert result.exit_code == 0, result.output
    assert (tmp_path / "demo.db").stat().st_size > 1_000_000


@pytest.mark.parametrize("script", ["scripts/quickstart"])
def test_the_scripts_explain_themselves(script):
    shown = subprocess.run([str(ROOT / script), "--help"], capture_output=True, text=True, check=True).stdout
    assert "Example: scripts/quickstart" in shown
    assert f"$ {script}" in README

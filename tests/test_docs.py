"""Every code block of README and docs/ runs: Python as it stands, commands as far as they can without a long training."""

import asyncio
import re
import shlex
import subprocess
import sys
import threading
import tomllib
from pathlib import Path
from types import ModuleType, SimpleNamespace

import click
import pytest
from click.testing import CliRunner

from grpo.config import load_config
from tests import ROOT
from tests.support.commands import COMMANDS

FRONT = ("README.md", "CHANGELOG.md", "CONTRIBUTING.md", "SECURITY.md", "data/README.md", "AGENTS.md")
PAGES = [*(ROOT / name for name in FRONT), *sorted((ROOT / "docs").rglob("*.md"))]
NAMES = [str(page.relative_to(ROOT)) for page in PAGES]
TEXTS = {name: page.read_text(encoding="utf-8") for name, page in zip(NAMES, PAGES, strict=True)}
JUDGE_URL = "http://127.0.0.1:8000/v1"

BLOCKS = [
    (name, *block) for name, text in TEXTS.items() for block in re.findall(r"^```(\w*)\n(.*?)^```$", text, re.M | re.S)
]
PYTHON = {name: [body for page, kind, body in BLOCKS if (page, kind) == (name, "python")] for name in NAMES}
UNDER_TORCHRUN = re.compile(r"^torchrun .*-m grpo (?=\w)")
LINES = [
    (page, UNDER_TORCHRUN.sub("grpo-", line[2:]))
    for page, kind, body in BLOCKS
    if kind == "console"
    for line in body.splitlines()
]
COMMAND_LINES = [(page, line) for page, line in LINES if line.split()[0] in COMMANDS]
READS_A_RUN = ("grpo-doctor", "grpo-view", "grpo-judge", "grpo-serve", "grpo-export", "grpo-compare")


def test_every_block_says_what_it_is():
    assert {kind for _, kind, _ in BLOCKS} <= {"python", "console", "toml", "text", "mermaid"}
    assert all(line.startswith("$ ") for _, kind, body in BLOCKS if kind == "console" for line in body.splitlines())


@pytest.mark.parametrize(("name", "words"), [("README.md", 900), ("AGENTS.md", 500)])
def test_what_is_read_first_is_short(name, words):
    assert len(TEXTS[name].split()) <= words


REFERENCES = ("settings", "metrics", "formats", "performance")


@pytest.mark.parametrize("name", [name for name in NAMES if name.startswith("docs/")])
def test_a_page_is_short_unless_readers_only_look_things_up_in_it(name):
    assert Path(name).stem in REFERENCES or len(TEXTS[name].split()) <= 2000


@pytest.mark.parametrize("name", [name for name in NAMES if name not in FRONT[:2]])
def test_every_page_begins_with_what_the_reader_wants(name):
    assert re.match(r"# .+\n\nYou want ", TEXTS[name])


@pytest.mark.parametrize("name", NAMES)
def test_every_link_to_a_file_or_heading_leads_somewhere(name):
    for target in re.findall(r"\]\((?!https?:)([^)\s]+)\)", TEXTS[name]):
        file, _, heading = target.partition("#")
        page = (ROOT / name).parent / file if file else ROOT / name
        assert page.exists(), f"{name} links to {target}"
        if heading:
            assert heading in _anchors(page), f"{name} links to {target}"


def _anchors(page: Path) -> set[str]:
    """The headings of a page as GitHub names them in an address."""
    headings = re.findall(r"^#+ (.*)$", page.read_text(encoding="utf-8"), re.M)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


@pytest.mark.parametrize(
    ("name", "number"),
    [(name, n) for name, bodies in PYTHON.items() for n, body in enumerate(bodies) if JUDGE_URL not in body],
)
def test_python_blocks_of_a_page_run_one_after_another(name, number):
    """The blocks up to this one are one program; a text block right after the last one is what that one prints."""
    *before, last = PYTHON[name][: number + 1]
    program = "\n".join([*(block for block in before if JUDGE_URL not in block), "print('-- last')", last])
    ran = subprocess.run([sys.executable, "-c", program], cwd=ROOT, input="", capture_output=True, text=True)
    assert ran.returncode == 0, ran.stderr
    after = TEXTS[name].partition(f"{last}```\n")[2]
    if shown := re.match(r"\n```text\n(.*?)^```$", after, re.M | re.S):
        assert ran.stdout.partition("-- last\n")[2] == shown[1]


def test_the_judging_blocks_run_against_a_local_judge(capsys, monkeypatch):
    pytest.importorskip("litellm", reason="judges need litellm (install the extra 'judge')")
    from tests.judges.scoring.test_trainers import Trace
    from tests.support.judge_server import JudgeServer, score_by

    blocks = [body for bodies in PYTHON.values() for body in bodies if JUDGE_URL in body]
    for name in ("verifiers", "verifiers.v1", "verifiers.v1.envs", "verifiers.v1.envs.best_of_n"):
        monkeypatch.setitem(sys.modules, name, ModuleType(name))  # its dependencies exclude ours
    sys.modules["verifiers.v1.envs.best_of_n"].BestOfNEnv = object
    answer = score_by(lambda messages: (1.0 if messages[-1]["content"] == "4" else 0.0, "arithmetic"))
    page = {}
    with JudgeServer(answer) as server:
        for block in blocks:
            worker = threading.Thread(target=lambda block=block: exec(block.replace(JUDGE_URL, server.url), page))
            worker.start()
            worker.join()
        traces = [Trace("5"), Trace("4")]
        asyncio.run(page["Compared"]().finalize(None, SimpleNamespace(traces=traces)))
    assert capsys.readouterr().out == "1.0 arithmetic\n0.0 arithmetic\nTrue match\n[1.0, 0.0]\n"
    assert [trace.rewards["ruler"] for trace in traces] == [(0.0, 1.0), (1.0, 1.0)]


def test_the_evaluations_shown_say_what_the_commands_print(tmp_path):
    shown = re.findall(r"^```text\n(.*?)^```$", TEXTS["docs/evaluation.md"], re.M | re.S)
    folders = [str(tmp_path / agent) for agent in ("keyword", "bm25")]
    played = [["grpo-eval", "--env", "EmailSearch-v0", "--agent", Path(out).name, "--out", out] for out in folders]
    printed = ""
    for name, *arguments in [*played, ["grpo-compare", *folders]]:
        result = CliRunner().invoke(COMMANDS[name], arguments)
        assert result.exit_code == 0, result.output
        printed += result.output
    lines = {" ".join(line.split()) for line in printed.splitlines()}
    assert len(shown) == 2
    assert [line for block in shown for line in block.splitlines() if " ".join(line.split()) not in lines] == []


@pytest.mark.parametrize("body", [body for _, kind, body in BLOCKS if kind == "toml"])
def test_toml_blocks_are_recipes(body):
    load_config(None, {"env": "EmailSearch-v0"} | tomllib.loads(body))


@pytest.mark.parametrize("line", [line for _, line in COMMAND_LINES])
def test_commands_parse_as_written(line):
    name, *arguments = shlex.split(line)
    if name in READS_A_RUN:
        arguments = [str(ROOT) if a.startswith(("runs/", "evals/")) else a for a in arguments]
    if name == "grpo-judge":
        arguments = [str(ROOT / "README.md") if a.endswith(".jsonl") else a for a in arguments]
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


@pytest.mark.parametrize("line", [line for _, line in LINES if line.split()[0] not in COMMANDS])
def test_other_commands_are_scripts_that_are_there(line):
    script = line.removeprefix(".venv/bin/python ").split()[0]
    assert script in ("datasette", "-m", "python3", ".venv/bin/pip", "eval") or (ROOT / script).is_file()


@pytest.mark.parametrize("name", NAMES)
def test_every_file_of_ours_that_is_named_is_there(name):
    named = re.findall(r"`((?:email_env|judges|grpo|scripts|tests|examples|docs)/[\w./]*)`", TEXTS[name])
    assert [path for path in named if not (ROOT / path).exists()] == []


def test_the_bundled_database_is_built_as_written(tmp_path):
    from email_env.cli import main as build_enron_db

    assert any(line == "build-enron-db demo --out data/demo.db" for _, line in LINES)
    result = CliRunner().invoke(build_enron_db, ["demo", "--out", str(tmp_path / "demo.db")])
    assert result.exit_code == 0, result.output
    assert (tmp_path / "demo.db").stat().st_size > 1_000_000


NO_HELP = {"_setup.sh", "test"}  # sourced by the others; takes pytest's arguments
PROGRAMS = sorted({path.name for path in (ROOT / "scripts").iterdir() if path.is_file()} - NO_HELP)


@pytest.mark.parametrize("script", PROGRAMS)
def test_every_program_under_scripts_explains_itself_and_is_in_the_documents(script):
    text = (ROOT / "scripts" / script).read_text(encoding="utf-8")
    command = [sys.executable] if text.startswith("#!/usr/bin/env python3") else []
    shown = subprocess.run([*command, str(ROOT / "scripts" / script), "--help"], capture_output=True, text=True)
    assert shown.returncode == 0, shown.stderr
    assert shown.stdout.lower().startswith("usage: ")
    assert f"scripts/{script} " in shown.stdout, "an example"
    assert any(f"scripts/{script}" in text for text in TEXTS.values())

from click.testing import CliRunner

from judges.cli import main
from tests.judges.test_import import run


def test_help_opens_no_socket_and_loads_nothing_heavy():
    program = """
from judges.cli import main
commands = ["", *main.commands]
heavy = {"litellm", "openai", "httpx", "torch", "pydantic", "rich", "sqlite3"} & set(sys.modules)
assert not heavy, heavy
import contextlib, io
for command in commands:
    out = io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.suppress(SystemExit):
        main([*command.split(), "--help"])
    assert "Usage" in out.getvalue()
heavy = {"litellm", "openai", "httpx", "torch", "pydantic", "rich", "sqlite3"} & set(sys.modules)
assert not heavy, heavy
"""
    run(program)


def test_every_command_has_help_and_an_example():
    for name, command in main.commands.items():
        shown = CliRunner().invoke(main, [name, "--help"])
        assert shown.exit_code == 0
        assert f"Example: grpo-judge {name}" in shown.output, name
        assert command.help


def test_a_rubric_that_is_no_text_is_explained(tmp_path):
    rubric, labelled = tmp_path / "rubric.txt", tmp_path / "labelled.jsonl"
    rubric.write_bytes(b"\xff\xfe\x00")
    labelled.write_text('{"trajectories": [[{"role": "user", "content": "a"}]], "labels": [1]}')
    words = ["calibrate", str(labelled), "--judge-model", "openai/m", "--rubric", str(rubric)]
    shown = CliRunner().invoke(main, words)
    assert shown.exit_code == 1
    assert f"Error: the rubric {rubric} cannot be read" in shown.output

import os
import shlex
import subprocess
import sys

import pytest
from click.testing import CliRunner

import judges
from grpo.settings import JudgeSettings
from judges.cli import main
from tests.support.judge_server import JudgeServer, score_by


@pytest.fixture
def labelled(tmp_path):
    """A file with one labelled group."""
    path = tmp_path / "labelled.jsonl"
    path.write_text('{"trajectories": [[{"role": "user", "content": "a"}]], "labels": [1]}\n')
    return path


def calibrate(labelled, rubric, *arguments):
    """What the command says of these groups with a file as rubric."""
    words = ["calibrate", str(labelled), "--judge-model", "openai/m", "--rubric", str(rubric), *arguments]
    return CliRunner().invoke(main, words)


def test_every_command_has_help_and_an_example():
    for name, command in main.commands.items():
        shown = CliRunner().invoke(main, [name, "--help"])
        assert shown.exit_code == 0
        assert f"Example: grpo-judge {name}" in shown.output, name
        assert command.help


@pytest.mark.parametrize("command", ["replay", "calibrate"])
def test_the_help_tells_the_timeout_that_a_judge_has(command):
    params = main.commands[command].params
    (told,) = [parameter.default for parameter in params if "--timeout-seconds" in parameter.opts]
    assert told == judges.JudgeClient("openai/m").timeout_seconds == JudgeSettings().timeout_seconds == 120.0


@pytest.mark.parametrize(
    ("content", "problem"), [(b"\xff\xfe\x00", "cannot be read"), (b" \n", "is empty; leave it out")]
)
def test_a_rubric_that_is_no_text_is_explained(tmp_path, labelled, content, problem):
    rubric = tmp_path / "rubric.txt"
    rubric.write_bytes(content)
    shown = calibrate(labelled, rubric)
    assert shown.exit_code == 1
    assert f"Error: the rubric {rubric} {problem}" in shown.output


def test_a_rubric_that_no_prompt_has_room_for_is_told_once_and_not_for_every_group(tmp_path, labelled):
    rubric = tmp_path / "rubric.txt"
    rubric.write_text("Be good. " * 300)  # B, e, good (1.75) and a dot: 4.75 tokens by the estimate
    labelled.write_text(labelled.read_text() * 3)
    shown = calibrate(labelled, rubric, "--max-prompt-tokens", "800")
    assert shown.exit_code == 1
    assert "the rubric alone takes about 1425 tokens and max_prompt_tokens is 800; write a shorter" in shown.output
    assert shown.output.count("tokens and max_prompt_tokens is 800") == 1


def test_a_mark_of_byte_order_is_no_part_of_a_rubric(tmp_path, labelled):
    rubric = tmp_path / "rubric.txt"
    rubric.write_bytes(b"\xef\xbb\xbfPrefer {short} answers.")
    with JudgeServer(score_by(lambda messages: (0.5, "why"))) as server:
        shown = calibrate(labelled, rubric, "--judge-api-base", server.url)
    assert shown.exit_code == 0, shown.output
    assert "Grading standards:\nPrefer {short} answers.\n\n" in server.requests[0].body["messages"][0]["content"]


def test_a_reader_that_has_seen_enough_ends_the_command_quietly(labelled):
    with JudgeServer(score_by(lambda messages: (0.5, "why"))) as server:
        words = [sys.executable, "-m", "judges.cli", "calibrate", str(labelled), "--judge-api-base", server.url]
        command = f"{shlex.join([*words, '--judge-model', 'openai/m'])} | head -1"
        ended = subprocess.run(["bash", "-c", command], capture_output=True, text=True, timeout=300)
    told = ended.stderr.splitlines()
    assert all(line.endswith("without a verdict") for line in told), "a slow machine tells how far it is, no more"


def test_a_folder_that_may_not_be_searched_is_not_told_as_figures_that_cannot_be_written(tmp_path):
    """Root may search every folder, so the process that reads gives that up."""
    run = tmp_path / "judged"
    run.mkdir(mode=0o600)
    words = [sys.executable, "-m", "judges.cli", "replay", str(run), "--judge-model", "openai/m"]
    if os.geteuid() == 0:
        given_up = "-dac_override,-dac_read_search"
        words = ["setpriv", f"--bounding-set={given_up}", f"--inh-caps={given_up}", *words]
    ended = subprocess.run(words, capture_output=True, text=True, timeout=300)
    said = f"[Errno 13] Permission denied: '{run}/judgements.jsonl'"
    assert ended.stderr == f"Error: {said}; see to the disk, the permissions and the limits (ulimit -a)\n"
    assert ended.returncode == 1

"""Errors that a command explains: a full disk, a damaged file, a package that is missing, and how it is stopped."""

import asyncio
import os
import re
import resource
import signal
from pathlib import Path

import click
import pytest
from click.testing import CliRunner

from grpo.cli.common import explained
from judges.common.files import read_jsonl


def test_a_damaged_line_of_a_runs_file_is_named_with_what_to_do(capsys, tmp_path):
    path = tmp_path / "metrics.jsonl"
    path.write_text('{"step": 1}\n{"st\n{"step": 3}\n')
    with pytest.raises(SystemExit) as stopped:
        explained()(lambda: read_jsonl(path))()
    assert stopped.value.code == 1
    error = capsys.readouterr().err
    assert error.startswith(f"Error: {path} line 2 is not JSON (")
    assert error.endswith("""b'{"st\\n'; mend it, or take it out\n""")


def text_onto_a_full_disk(_folder):
    with Path("/dev/full").open("w") as file:
        file.write("a")


def more_files_than_a_process_may_open(folder):
    limits = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (3, limits[1]))
    try:
        (folder / "a").write_text("a")
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, limits)


def text_beyond_a_limit(folder):
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (40_000, limits[1]))
    try:
        (folder / "a").write_text("a" * 80_000)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)


REFUSED = r"the system refuses a file \({}\); check the disk, the permissions and the limits \(ulimit -a\)"


@pytest.mark.parametrize(
    ("save", "said"),
    [
        (text_onto_a_full_disk, r"no space is left on the disk \(.*\); make room"),
        (text_beyond_a_limit, REFUSED.format(r"\[Errno 27\] File too large")),
        (more_files_than_a_process_may_open, REFUSED.format(r"\[Errno 24\] Too many open files: .*")),
    ],
)
def test_a_disk_that_refuses_is_an_error_that_says_how_to_go_on(save, said, capsys, tmp_path):
    with pytest.raises(SystemExit) as stopped:
        explained(lambda _options: "What was finished is kept.")(lambda: save(tmp_path))()
    assert stopped.value.code == 1
    assert re.fullmatch(rf"Error: {said}\. What was finished is kept\.\n", capsys.readouterr().err)


def test_a_fault_of_ours_keeps_its_traceback():
    def broken():
        raise RuntimeError("unexpected")

    with pytest.raises(RuntimeError, match="unexpected"):
        explained()(broken)()


def test_a_package_of_training_that_is_missing_is_told_with_what_installs_it(capsys):
    def without_torch():
        raise ModuleNotFoundError("No module named 'torch.nn'", name="torch.nn")

    def broken():
        raise ModuleNotFoundError("No module named 'mine'", name="mine")

    with pytest.raises(SystemExit):
        explained()(without_torch)()
    said = "Error: this needs the package torch, which is not installed; scripts/install cpu (or gpu) installs all"
    assert capsys.readouterr().err.startswith(said)
    with pytest.raises(ModuleNotFoundError, match="mine"):
        explained()(broken)()


@pytest.fixture
def handlers():
    """Of the signals that a command takes over; they are set back."""
    before = {number: signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGHUP)}
    yield
    for number, handler in before.items():
        signal.signal(number, handler)


@pytest.mark.parametrize("sent", [signal.SIGTERM, signal.SIGHUP])
def test_sigterm_and_a_closed_terminal_let_what_runs_clean_up_as_ctrl_c_does(sent, handlers):
    cleaned = []

    async def episode():
        os.kill(os.getpid(), sent)
        try:
            await asyncio.sleep(60)
        finally:
            await asyncio.sleep(0)
            cleaned.append("connection")

    signal.signal(signal.SIGHUP, signal.SIG_DFL)
    command = explained(lambda _options: "Kept.")(lambda: asyncio.run(episode()))
    result = CliRunner().invoke(click.command()(command), [])
    assert (result.exit_code, result.output, cleaned) == (130, "\nStopped. Kept.\n", ["connection"])


def test_under_nohup_a_closed_terminal_ends_nothing(handlers):
    def episode():
        os.kill(os.getpid(), signal.SIGHUP)
        click.echo("played")

    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    result = CliRunner().invoke(click.command()(explained()(episode)), [])
    assert (result.exit_code, result.output) == (0, "played\n")

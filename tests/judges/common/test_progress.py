"""How far a command is, as a pipe and a terminal see it."""

import os
import pty
import subprocess
import sys

import pytest

from judges.common import progress


def test_a_pipe_gets_whole_lines_without_control_codes(monkeypatch: pytest.MonkeyPatch, capsys):
    monkeypatch.setattr(progress, "_LINE_SECONDS", 0.0)
    monkeypatch.setenv("FORCE_COLOR", "1")
    with progress.progress() as show:
        show("Reading [1]: 500 read, 2 left out", 5, 10)
        show("Indexing: 1,000 read, 4 left out" + "." * 100, 10, 10)
    assert capsys.readouterr() == (
        "",
        "Reading [1]: 500 read, 2 left out\nIndexing: 1,000 read, 4 left out" + "." * 100 + "\n",
    )


def test_a_pipe_gets_a_line_every_ten_seconds_at_most(capsys):
    with progress.progress() as show:
        for done in range(100):
            show(f"{done}", done, 0)
    assert capsys.readouterr().err == ""


def test_a_terminal_that_cannot_redraw_a_line_gets_whole_lines():
    code = (
        "from judges.common import progress\n"
        "progress._LINE_SECONDS = 0.0\n"
        "with progress.progress() as show:\n"
        "    show('Reading', 5, 10)\n"
    )
    leader, follower = pty.openpty()
    environment = os.environ | {"TERM": "dumb"}
    subprocess.run([sys.executable, "-c", code], stderr=follower, env=environment, check=True)
    os.close(follower)
    assert os.read(leader, 4096) == b"Reading\r\n"
    os.close(leader)

import os
import resource
import signal
import subprocess
import sys
import time

import pytest

from email_env.search.database import MailDatabase
from tests import ROOT
from tests.email_env.mails import build, mail

BUILD = """
import sys, time
from tests.email_env.mails import build_database, mail
count, out = int(sys.argv[1]), sys.argv[2]
def mails():
    for n in range(count):
        if n == 1000:
            print("begun", flush=True)
        yield mail(f"k{n}", f"S{n}", f"word{n} " * 50)
    print("read", flush=True)
build_database(mails(), out, source="test")
print("done", flush=True)
"""


def start(out, count, until=(), **options):
    """A process that builds a database of so many mails; it has printed these lines."""
    process = subprocess.Popen(
        [sys.executable, "-c", BUILD, str(count), str(out)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        cwd=ROOT,
        **options,
    )
    assert process.stdout is not None
    assert [process.stdout.readline().strip() for _ in until] == [*until]
    return process


def state(out):
    """What stands at `out`: "" for nothing, else "whole" with the number of mails; fails for anything half."""
    if not out.exists():
        return ""
    database = MailDatabase(out)
    kept = int(database.metadata["kept"])
    found = database.search(inbox="ben@x.com", keywords=["word7"], until="2002-01-01")
    assert len(found) == (1 if kept > 1000 else 0)
    database.close()
    return f"whole {kept}"


def test_a_build_killed_at_any_moment_leaves_the_old_database_or_the_new_one(tmp_path):
    out = tmp_path / "[a-z]*.db"
    build(out, mail("m1"))
    count, killed = 6000, 0
    for delay in (0.0, 0.15, 0.4):
        process = start(out, count, ["begun"])
        time.sleep(delay)
        process.send_signal(signal.SIGKILL)
        killed += process.wait() == -signal.SIGKILL
        process.communicate()
        assert state(out) in ("whole 1", f"whole {count}")
    assert killed
    build(out, mail("m1"), mail("m2", "S2"))
    assert state(out) == "whole 2"
    assert os.listdir(tmp_path) == [out.name]  # and what the killed ones left is gone


def test_a_build_killed_where_there_was_nothing_leaves_no_database(tmp_path):
    out = tmp_path / "mail.db"
    process = start(out, 50_000, ["begun"])
    process.send_signal(signal.SIGKILL)
    process.communicate()
    assert state(out) == ""


@pytest.mark.parametrize("most_bytes", [1_000, 1_000_000])
def test_a_disk_that_fills_up_is_a_clear_error_and_leaves_the_old_database(tmp_path, most_bytes):
    """A limit on the size of files stands in for the end of a disk."""
    out = tmp_path / "mail.db"
    build(out, mail("m1"))
    process = start(out, 6_000, preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (most_bytes, most_bytes)))
    _, errors = process.communicate()
    assert process.returncode == 1
    assert errors.splitlines()[-1].startswith("email_env.errors.BuildError: Cannot build")
    assert errors.endswith("Nothing was written there.\n")
    assert "SQLITE_TMPDIR" in errors
    assert state(out) == "whole 1"
    assert os.listdir(tmp_path) == ["mail.db"]


def interruptible():
    signal.signal(signal.SIGINT, signal.SIG_DFL)  # a shell's background jobs would hand on that it is ignored


def test_ctrl_c_while_mail_is_read_is_one_line_and_leaves_what_was_there(tmp_path):
    out, pipe = tmp_path / "mail.db", tmp_path / "pipe"
    build(out, mail("m1"))
    os.mkfifo(pipe)
    command = [sys.executable, "-m", "email_env", "build-enron-db", str(pipe), "--format", "mbox", "--out", str(out)]
    process = subprocess.Popen(command, stderr=subprocess.PIPE, cwd=ROOT, preexec_fn=interruptible)
    with pipe.open("wb") as slow:
        slow.write(b"From a Mon May 14 16:39:00 2001\nFrom: anna@x.com\nTo: ben@x.com\n\nText.\n\n" * 2000)
        slow.flush()
        while not list(tmp_path.glob(".mail.db.*.tmp")):
            time.sleep(0.01)
        process.send_signal(signal.SIGINT)
        _, errors = process.communicate()
    assert process.returncode == 130
    assert errors.decode().splitlines() == [f"Stopped; {out} is as it was."]
    assert state(out) == "whole 1"
    assert set(os.listdir(tmp_path)) == {"pipe", "mail.db"}


def test_ctrl_c_within_a_function_that_sqlite_calls_is_a_ctrl_c(tmp_path, monkeypatch):
    def pressed(text):
        signal.raise_signal(signal.SIGINT)
        return text

    monkeypatch.setattr("email_env.ingest.build.index_text", pressed)
    with pytest.raises(KeyboardInterrupt):
        build(tmp_path / "mail.db", mail("m1"))
    assert os.listdir(tmp_path) == []


def test_ctrl_c_while_words_are_indexed_is_no_fault_of_the_disk(tmp_path):
    out = tmp_path / "mail.db"
    process = start(out, 15_000, ["begun", "read"], preexec_fn=interruptible)
    time.sleep(0.1)
    process.send_signal(signal.SIGINT)
    output, errors = process.communicate()
    assert output == ""  # never done
    assert errors.splitlines()[-1] == "KeyboardInterrupt"
    assert os.listdir(tmp_path) == []

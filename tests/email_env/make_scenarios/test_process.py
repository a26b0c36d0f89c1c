"""`make-scenarios` as a process of its own: killed, stopped, and gone on with."""

import json
import os
import resource
import signal
import subprocess
import sys

import pytest

from email_env.scenarios.sets import load_scenarios
from tests import ROOT
from tests.email_env.mails import BEN, build, mail
from tests.email_env.make_scenarios.parts import BUDGET, GOOD, ask_for_the_code, code_of, lines, llm, make, parcels
from tests.support.judge_server import JudgeServer, Reply
from tests.support.wait import wait_until

pytest.importorskip("litellm", reason="an LLM needs litellm (install the extra 'judge')")


def start(path, out, server, *arguments, most_bytes=resource.RLIM_INFINITY):
    """The command in Ben's inbox, on its way; it may write files of ``most_bytes``."""

    def prepare():
        signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell's background jobs ignore it: so would this
        resource.setrlimit(resource.RLIMIT_FSIZE, (most_bytes, resource.RLIM_INFINITY))

    command = [sys.executable, "-m", "email_env", "make-scenarios", path, "--out", out, "--model", "w"]
    command += ["--api-base", server.url, "--min-mails", 1, "--inbox", BEN, *arguments]
    return subprocess.Popen(
        [str(word) for word in command],
        cwd=ROOT,
        env={name: value for name, value in os.environ.items() if not name.startswith("OPENAI_")},
        stderr=subprocess.PIPE,
        text=True,
        preexec_fn=prepare,
    )


def test_a_run_that_is_killed_goes_on_with_what_is_missing(tmp_path):
    path, out = parcels(tmp_path / "office.db", 12), tmp_path / "made.jsonl"
    held, asked = [True], []

    def author(data):
        asked.append(data["subject"])
        return Reply(json.dumps(ask_for_the_code(data)), delay_seconds=600 if held[0] and len(asked) > 6 else 0)

    with JudgeServer(llm(author)) as server:
        process = start(path, out, server, "--concurrency", "2")
        wait_until(out.exists, process=process, told=process.communicate)
        wait_until(
            lambda: len(asked) >= 8 and out.read_bytes().count(b"\n") >= 5, process=process, told=process.communicate
        )  # two wait for their reply
        os.kill(process.pid, signal.SIGKILL)
        process.communicate()
        finished = len(lines(out))
        with out.open("ab") as torn:
            torn.write(b'{"scenario_id": "made-')
        held[0] = False
        before = len(asked)
        result = make(path, server, "--inbox", BEN, "--resume", out=out)
    assert result.exit_code == 0, result.output
    assert {s.answer for s in load_scenarios(out)} == {code_of(shelf) for shelf in range(12)}
    assert len(asked) - before == 12 - finished


def test_ctrl_c_keeps_what_is_finished_and_says_how_to_go_on(tmp_path):
    path, out = tmp_path / "office.db", tmp_path / "made.jsonl"
    build(
        path,
        mail("m1", "Falcon", BUDGET),
        mail("m2", "Other", "This one is about nothing at all, only words and words."),
    )
    slow = lambda data: GOOD if data["subject"] == "Falcon" else Reply(delay_seconds=600)  # noqa: E731
    with JudgeServer(llm(slow)) as server:
        process = start(path, out, server)
        wait_until(lambda: out.exists() and out.read_bytes().endswith(b"\n"), process=process, told=process.communicate)
        process.send_signal(signal.SIGINT)
        _, errors = process.communicate(timeout=300)
    assert process.returncode == 130
    assert f"Stopped; {out} keeps what is finished. Go on with --resume." in errors
    assert "1 questions (1 train" in errors
    assert "Traceback" not in errors


def test_a_last_line_that_an_editor_left_without_its_line_break_is_kept(tmp_path):
    path, out = tmp_path / "office.db", tmp_path / "made.jsonl"
    build(
        path, mail("m1", "Falcon", BUDGET), mail("m2", "Parcel", "The parcel of shelf 7 has the code KX7 on its lid.")
    )
    shelf = GOOD | {"question": "Which code has the parcel of shelf 7?", "answer": "KX7", "accepted": []}
    with JudgeServer(llm(lambda data: GOOD if data["subject"] == "Falcon" else shelf)) as server:
        assert make(path, server, "--inbox", BEN, "--limit", 1).exit_code == 0
        edited = out.read_text().replace("How much", "What sum").rstrip("\n")
        out.write_text(edited)
        assert make(path, server, "--inbox", BEN, "--resume").exit_code == 0
    first, second = out.read_text().splitlines()
    assert first == edited
    assert {json.loads(line)["answer"] for line in (first, second)} == {"$48,250", "KX7"}


def test_a_disk_that_takes_no_more_is_told_with_the_files_and_how_to_go_on(office):
    out, full = office.parent / "made.jsonl", 100  # bytes; a question has more
    with JudgeServer(llm()) as server:
        process = start(office, out, server, most_bytes=full)
        shown = process.communicate()[1]
        assert process.returncode == 1
        assert f"Error: {out} or {office.parent / 'made.rejected.jsonl'} cannot be written: [Errno 27] " in shown
        assert "0 mails are finished; make room or see to the disk, and --resume goes on." in shown
        assert out.stat().st_size == full, "half a line"
        assert make(office, server, "--inbox", BEN, "--resume").exit_code == 0
    assert [s.answer for s in load_scenarios(out)] == ["$48,250"]

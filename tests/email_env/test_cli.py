import hashlib
import json
import os
import subprocess
import sys
import threading

import click
import pytest

from email_env.cli import main
from email_env.ingest.sources import FORMATS
from email_env.search.database import MailDatabase
from tests.email_env.mails import raw, run, tar_of


@pytest.fixture
def archive(tmp_path):
    members = [
        (f"maildir/keller-a/inbox/{n}.", raw(f"Message-ID: <m{n}>\nFrom: a@x.com\nTo: b@x.com\nSubject: Falcon {n}\nDate: {n} May 2001 10:00:00 +0000"))
        for n in range(1, 6)
    ]  # fmt: skip
    return tar_of(tmp_path / "mail.tar.gz", [*members, ("maildir/readme", b"no mail")])


def test_the_command_builds_a_database_and_says_what_it_did(archive, tmp_path):
    out = tmp_path / "new" / "mail.db"
    result = run(archive, "--out", out)
    assert result.exit_code == 0, result.output
    assert f"{out}: 5 mails of 2 addresses" in result.stdout
    assert "left out  1 no addresses" in result.stdout
    database = MailDatabase(out)
    assert len(database.search(inbox="b@x.com", keywords=["falcon"], until="2001-05-03")) == 3
    database.close()


def test_a_build_needs_no_stderr(archive, tmp_path):
    out = tmp_path / "mail.db"
    command = '"$0" -m email_env build-enron-db "$1" --out "$2" 2>&-'
    done = subprocess.run(
        ["sh", "-c", command, sys.executable, archive, out], capture_output=True, text=True, check=True
    )
    assert done.stdout.startswith(f"{out}: 5 mails of 2 addresses")
    MailDatabase(out).close()


def test_filters_are_options_and_every_skip_is_listed_with_its_reason(tmp_path):
    many = ", ".join(f"p{n}@x.com" for n in range(31))
    members = [
        ("maildir/a/1.", raw("Message-ID: <m1>\nFrom: a@x.com\nTo: b@x.com")),
        ("maildir/a/2.", raw("Message-ID: <m2>\nFrom: a@x.com\nTo: b@x.com")),
        ("maildir/a/3.", raw(f"Message-ID: <m3>\nFrom: a@x.com\nTo: {many}")),
        ("maildir/a/4.", raw("Message-ID: <m4>\nFrom: a@x.com\nTo: b@x.com", "x" * 5001)),
        ("maildir/ö/5.", raw("Message-ID: <m5>\nFrom: c@x.com\nTo: d@x.com")),
    ]
    path, out, skips = tar_of(tmp_path / "mail.tar.gz", members), tmp_path / "mail.db", tmp_path / "new" / "skips.jsonl"
    report = json.loads(
        run(path, "--out", out, "--inbox", "B@x.com", "--inbox", "a@x.com", "--report", skips, "--json").stdout
    )
    assert [json.loads(line) for line in skips.read_text().splitlines()] == [
        {"source": "a/2.", "reason": "duplicate_content"},
        {"source": "a/3.", "reason": "too_many_recipients"},
        {"source": "a/4.", "reason": "body_too_long"},
        {"source": "ö/5.", "reason": "other_inbox"},
    ]
    assert (report["kept"], sum(report["skipped"].values())) == (1, 4)
    assert report["source_sha256"] == hashlib.sha256(path.read_bytes()).hexdigest()
    off = ["--max-body-chars", 0, "--max-recipients", 0, "--keep-duplicates"]
    report = json.loads(run(path, "--out", out, *off, "--json").stdout)
    assert (report["kept"], report["skipped"]) == (5, {})


def test_a_failed_build_leaves_the_old_database_and_the_old_list_of_skips(archive, tmp_path):
    out, skips = tmp_path / "mail.db", tmp_path / "skips.jsonl"
    out.write_bytes(b"")
    skips.write_text(listed := '{"source": "a/1.", "reason": "unreadable"}\n')
    archive.write_bytes(archive.read_bytes()[:-50])
    result = run(archive, "--out", out, "--report", skips)
    assert (result.exit_code, out.read_text(), skips.read_text()) == (1, "", listed)
    assert "cannot be read to its end" in result.stderr
    assert sorted(path.name for path in tmp_path.iterdir()) == ["mail.db", "mail.tar.gz", "skips.jsonl"]


def test_no_file_is_written_over_another_one_of_the_command(archive, tmp_path):
    before = archive.read_bytes()
    out, questions = tmp_path / "mail.db", tmp_path / "questions.jsonl"
    questions.write_text("")
    for arguments in (
        (archive, "--out", archive),
        (archive, "--out", out, "--report", archive),
        (archive, "--out", out, "--scenarios", questions, "--report", questions),
        (archive, "--out", questions, "--scenarios", questions),
    ):
        result = run(*arguments)
        assert result.exit_code == 2
        assert "SOURCE, --scenarios, --out and --report must be different files." in result.stderr
    assert archive.read_bytes() == before


def test_the_format_may_be_named(archive, tmp_path):
    plain = archive.rename(tmp_path / "backup")
    report = json.loads(run(plain, "--format", "tar", "--out", tmp_path / "mail.db", "--json").stdout)
    assert report["kept"] == 5
    result = run(plain, "--format", "mbox", "--out", tmp_path / "mail.db")
    assert (result.exit_code, "No mail is left of 1 from" in result.stderr) == (1, True)


def questions(path, ids):
    """A file of questions by their id, each about these mails."""
    same = {"question": "?", "answer": "!", "inbox_address": "b@x.com", "query_date": "2001-05-09"}
    path.write_text("\n".join(json.dumps(same | {"id": key, "message_ids": mails}) for key, mails in ids.items()))
    return path


def test_a_question_that_needs_more_mails_than_asked_for_is_left_out(archive, tmp_path):
    asked = questions(tmp_path / "questions.jsonl", {1: ["m1", "m2"]})
    command = [archive, "--out", tmp_path / "mail.db", "--scenarios", asked, "--json"]
    assert json.loads(run(*command).stdout)["scenarios"] == 1
    assert json.loads(run(*command, "--max-evidence", 1).stdout)["scenarios"] == 0


def test_questions_are_put_in_and_misfits_shown(archive, tmp_path):
    asked = questions(tmp_path / "questions.jsonl", {1: ["<m1>"], 99: ["<m99>"]})
    result = run(archive, "--out", tmp_path / "mail.db", "--scenarios", asked)
    assert "questions 1\n" in result.stdout
    assert "99: no mail m99" in result.stdout


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["nowhere.tar.gz"], "No mail at 'nowhere.tar.gz'"),
        (
            [__file__],
            "Unknown kind of mail 'test_cli.py'. Name it with --format: tar, mbox, zip, eml, csv, jsonl, parquet, folder.",
        ),
        ([__file__, "--format", "demo"], "Format demo is the bundled mailboxes, which are not in"),
        (["demo", "--inbox", "nobody@x.com"], "No mail of nobody@x.com is left of"),
        (["demo", "--report", "/dev/null/skips"], "Cannot write the list of skipped mail '/dev/null/skips'"),
        (["demo", "--scenarios", "nowhere.jsonl"], "Cannot read scenarios from 'nowhere.jsonl'"),
    ],
)
def test_a_fault_is_one_line_without_a_traceback_and_writes_nothing(arguments, words, tmp_path):
    result = run(*arguments, "--out", tmp_path / "mail.db")
    assert result.exit_code == 1
    assert words in result.stderr
    assert "Traceback" not in result.output
    assert list(tmp_path.iterdir()) == []


def test_a_link_to_itself_is_no_mail_and_no_traceback(tmp_path):
    link = tmp_path / "loop.mbox"
    link.symlink_to("loop.mbox")
    result = run(link, "--out", tmp_path / "mail.db")
    assert (result.exit_code, result.stderr.splitlines()[0][:14]) == (1, "Error: No mail")


def test_the_format_demo_needs_no_source(tmp_path):
    report = json.loads(run("--format", "demo", "--limit", 2, "--out", tmp_path / "mail.db", "--json").stdout)
    assert (report["source"], report["read"], report["kept"]) == ("demo", 2, 2)


@pytest.mark.parametrize(
    ("members", "shown"),
    [
        ({"1.eml": "bob", "2.eml": "bob"}, ["2 mails of 2 addresses", "owner     bob@x.com: 2 mails\n"]),
        ({"1.eml": "bob"}, ["1 mail of 2 addresses", "owner     bob@x.com: 1 mail\n"]),
        (
            {"1.eml": "bob", "src/2.eml": "bob", "src/3.eml": "bob"},
            ["owner     bob@x.com: 3 mails, all mail of the top level, src\n"],
        ),
        (
            {f"{n}.eml": "bob" for n in range(3)} | {f"caro/{n}.eml": "caro" for n in range(4)},
            ["owner     caro@x.com: 4 mails, all mail of caro\n", "owner     bob@x.com: 3 mails, all mail of the top level\n"],
        ),
    ],
)  # fmt: skip
def test_the_top_level_of_a_mailbox_has_a_name_and_one_mail_is_no_mails(tmp_path, members, shown):
    for name, owner in members.items():
        (path := tmp_path / "mail" / name).parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(raw(f"Message-ID: <{name}>\nFrom: a@x.com\nTo: {owner}@x.com\nSubject: {name}"))
    result = run(tmp_path / "mail", "--out", tmp_path / "mail.db")
    assert [line for line in shown if line not in result.stdout] == [], result.stdout


def test_help_names_every_format_and_every_option_has_a_text():
    shown = run("--help").stdout
    assert "Example: build-enron-db demo --out data/demo.db" in shown
    assert all(name in shown for name in FORMATS)
    assert all(parameter.help for parameter in main.params if isinstance(parameter, click.Option))


LISTED = '{"source": "a/2.", "reason": "no_addresses"}\n'


def build_with_report(folder, report):
    archive = tar_of(folder / "mail.tar", [("a/1.", raw("From: a@x.com")), ("a/2.", b"no mail")], "w")
    return run(archive, "--out", folder / "mail.db", "--report", report)


@pytest.mark.parametrize("before", ["", '{"source": "b/1.", "reason": "unreadable"}\n', LISTED * 2])
def test_an_old_list_is_replaced(tmp_path, before):
    report = tmp_path / "skipped.jsonl"
    report.write_text(before)
    assert build_with_report(tmp_path, report).exit_code == 0
    assert report.read_text() == LISTED


@pytest.mark.parametrize("content", [b'{"id": 1, "question": "?"}\n', b"[]\n", b"\n", b"My text.", b"\x00" * 100_000])
def test_a_file_that_is_no_list_is_refused_before_anything_is_read(tmp_path, content):
    report = tmp_path / "mine.jsonl"
    report.write_bytes(content)
    result = build_with_report(tmp_path, report)
    assert result.exit_code == 1
    assert (
        f"Error: {str(report)!r} is there and is no list of skipped mail. Remove it, or name another" in result.stderr
    )
    assert report.read_bytes() == content
    assert not (tmp_path / "mail.db").exists()


def test_the_file_behind_a_link_is_replaced_and_the_link_stays(tmp_path):
    report, link = tmp_path / "lists" / "skipped.jsonl", tmp_path / "link.jsonl"
    link.symlink_to(report)
    for _ in range(2):
        assert build_with_report(tmp_path, link).exit_code == 0
        assert (link.is_symlink(), report.read_text()) == (True, LISTED)


def test_a_device_and_a_pipe_are_written_to_and_stay(tmp_path):
    null, pipe = tmp_path / "null", tmp_path / "pipe"
    null.symlink_to(os.devnull)
    assert build_with_report(tmp_path, null).exit_code == 0
    assert (null.is_symlink(), null.is_char_device()) == (True, True)
    os.mkfifo(pipe)
    read: list[str] = []
    reader = threading.Thread(target=lambda: read.append(pipe.read_text()), daemon=True)
    reader.start()
    assert build_with_report(tmp_path, pipe).exit_code == 0
    reader.join(60)
    assert (read, pipe.is_fifo()) == ([LISTED], True)

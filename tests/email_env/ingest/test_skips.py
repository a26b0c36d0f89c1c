"""`--report FILE` replaces a list of skipped mail, and nothing else."""

import os
import threading

import pytest

from tests.email_env.mails import raw, run, tar_of

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

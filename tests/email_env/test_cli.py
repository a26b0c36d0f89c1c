import json

import pytest
from click.testing import CliRunner

from email_env.cli import main
from email_env.database import MailDatabase
from tests.email_env.mails import raw, tar_of


@pytest.fixture
def archive(tmp_path):
    members = [
        (f"maildir/keller-a/inbox/{n}.", raw(f"Message-ID: <m{n}>\nFrom: a@x.com\nTo: b@x.com\nSubject: Falcon {n}\nDate: {n} May 2001 10:00:00 +0000"))
        for n in range(1, 6)
    ]  # fmt: skip
    return tar_of(tmp_path / "mail.tar.gz", [*members, ("maildir/readme", b"no mail")])


def run(*arguments):
    return CliRunner().invoke(main, [str(argument) for argument in arguments])


def test_the_command_builds_a_database_and_says_what_it_did(archive, tmp_path):
    out = tmp_path / "new" / "mail.db"
    result = run(archive, "--out", out)
    assert result.exit_code == 0, result.output
    assert f"{out}: 5 mails of 2 addresses" in result.stdout
    assert "left out  1 no addresses" in result.stdout
    database = MailDatabase(out)
    assert len(database.search(inbox="b@x.com", keywords=["falcon"], until="2001-05-03")) == 3
    database.close()


def test_json_is_the_only_thing_on_stdout(archive, tmp_path):
    report = json.loads(run(archive, "--out", tmp_path / "mail.db", "--json").stdout)
    assert (report["read"], report["kept"], report["skipped"]) == (6, 5, {"no_addresses": 1})


def test_limit_bounds_what_is_read(archive, tmp_path):
    report = json.loads(run(archive, "--out", tmp_path / "mail.db", "--limit", "2", "--json").stdout)
    assert (report["read"], report["kept"]) == (2, 2)


def test_questions_are_put_in_and_misfits_shown(archive, tmp_path):
    questions = tmp_path / "questions.jsonl"
    lines = [
        {"id": n, "question": "?", "answer": "!", "message_ids": [f"<m{n}>"], "inbox_address": "b@x.com", "query_date": "2001-05-09"}
        for n in (1, 99)
    ]  # fmt: skip
    questions.write_text("\n".join(map(json.dumps, lines)))
    result = run(archive, "--out", tmp_path / "mail.db", "--scenarios", questions)
    assert "questions 1\n" in result.stdout
    assert "99: no mail m99" in result.stdout


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["nowhere.tar.gz"], "No mail at 'nowhere.tar.gz'"),
        ([__file__], "Unknown kind of mail 'test_cli.py'"),
        (["demo", "--scenarios", "nowhere.jsonl"], "Cannot read scenarios from 'nowhere.jsonl'"),
    ],
)
def test_a_fault_is_one_line_without_a_traceback_and_writes_nothing(arguments, words, tmp_path):
    result = run(*arguments, "--out", tmp_path / "mail.db")
    assert result.exit_code == 1
    assert words in result.stderr
    assert "Traceback" not in result.output
    assert list(tmp_path.iterdir()) == []


def test_help_has_an_example():
    result = run("--help")
    assert result.exit_code == 0
    assert "Example: build-enron-db demo --out data/demo.db" in result.stdout

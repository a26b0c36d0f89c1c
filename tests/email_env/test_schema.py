"""A database of another schema version is refused with the command that rebuilds it."""

import shlex
import sqlite3
from contextlib import closing

import pytest
from click.testing import CliRunner

from email_env.cli import main
from email_env.errors import DatabaseFormatError
from email_env.search.database import MailDatabase
from tests.email_env.mails import ANNA, BEN, build, mail, raw


def make_old(path):
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute("UPDATE meta SET value = '0' WHERE key = 'schema_version'")


def test_another_schema_version_is_refused_with_the_command_that_rebuilds(tmp_path):
    path = tmp_path / "old.db"
    build(path, mail("m1"))
    make_old(path)
    with pytest.raises(DatabaseFormatError, match=r"schema version '0'.*build-enron-db test --out"):
        MailDatabase(path)


def test_the_command_that_rebuilds_has_the_options_of_the_first_build(tmp_path):
    mails = tmp_path / "my mail"
    mails.write_bytes(b"From a Mon May 14 16:39:00 2001\n" + raw("From: anna@x.com\nTo: ben@x.com"))
    path = tmp_path / "old.db"
    options = [str(mails), "--format", "mbox", "--limit", "5", "--inbox", BEN, "--inbox", ANNA, "--max-body-chars", "0"]
    options += ["--keep-duplicates"]
    more = ["--out", str(path), "--json", "--report", str(tmp_path / "skips")]
    assert CliRunner().invoke(main, [*options, *more]).exit_code == 0
    make_old(path)
    with pytest.raises(DatabaseFormatError) as error:
        MailDatabase(path)
    command = str(error.value).partition("Rebuild it: ")[2]
    assert sorted(shlex.split(command)) == sorted(["build-enron-db", *options, "--out", str(path)])
    assert CliRunner().invoke(main, shlex.split(command)[1:]).exit_code == 0
    MailDatabase(path).close()

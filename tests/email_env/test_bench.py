"""The benchmark of the mail database: its corpus, its reference form, and one small run."""

import re
import subprocess
import sys
from collections import Counter
from dataclasses import replace
from itertools import islice

import pytest
from bench import arte_database
from bench.corpus import Corpus

from email_env.ingest.parse import parse_message
from tests import ROOT


@pytest.fixture(scope="module")
def table(tmp_path_factory):
    path = tmp_path_factory.mktemp("corpus") / "emails.csv"
    Corpus(2_000).write_csv(path)
    return path


def test_the_corpus_has_the_shape_of_enrons(table):
    messages = [message for _, message in Corpus(2_000).rows()]
    assert len(messages) == 2_000
    mails = [parse_message(message.encode()) for message in messages]
    copies = len(mails) - len({(mail.from_addr, mail.subject, mail.body) for mail in mails})
    assert 0.40 < copies / len(mails) < 0.48
    assert 0.03 < sum(len(mail.body) > 5000 for mail in mails) / len(mails) < 0.09
    assert 0.02 < sum(len(mail.to) + len(mail.cc) > 30 for mail in mails) / len(mails) < 0.08
    assert 0.04 < sum(not mail.to for mail in mails) / len(mails) < 0.11
    assert sum("quoted-printable" in message for message in messages) > 40
    assert sum(bool(re.search(r"^To: .*\n\t", message, re.M)) for message in messages) > 200
    words = Counter(word for mail in mails for word in mail.body.split())
    assert [word for word, _ in words.most_common(4)] == ["the", "to", "and", "of"]
    assert len(words) > 20_000


def test_the_same_seed_gives_the_same_mail_and_another_seed_other_mail():
    first, again, other = (list(islice(Corpus(300, seed).rows(), 5)) for seed in (1, 1, 2))
    assert first == again
    assert not {message for _, message in first} & {message for _, message in other}


def test_the_reference_reads_what_ours_reads(table):
    theirs = list(arte_database.parsed(table))
    ours = [parse_message(message.encode(), file) for file, message in Corpus(2_000).rows()]
    assert [replace(mail, from_name="", bcc=(), names=()) for mail in ours] == [
        replace(mail, to=tuple(dict.fromkeys(mail.to)), bcc=(), date_ok=not mail.sent_at.startswith("1979"))
        for mail in theirs
    ]  # ours counts an address once, a Bcc that repeats Cc not at all, and marks lost dates


def test_a_small_run_gets_the_same_answers_from_both_databases():
    command = [sys.executable, "scripts/bench_db", "--mails", "1500", "--questions", "60", "--rounds", "1"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert "60 searches of " in done.stdout
    assert "the same ids in the same order" in done.stdout
    for figure in ("csv to database", "parsed records", "peak memory", "file size", "search mean", "search p99"):
        assert re.search(rf"^\s*{figure}.*\d\.\d\dx$", done.stdout, re.M), figure

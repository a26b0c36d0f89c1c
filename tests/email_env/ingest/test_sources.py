"""What a source is, by its name and first bytes; what cannot be read; and several sources in one build."""

import gzip
import hashlib
import json
import mailbox
import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from email_env.errors import SourceError
from email_env.ingest.sources import open_source, open_sources
from email_env.mail import ParsedMail, Skip
from email_env.search.database import MailDatabase
from tests.email_env.mails import mbox_of, message, raw, run, subjects_and_labels, tar_of


def test_a_message_of_its_own_is_a_source(tmp_path):
    for name in ("one.eml", "saved message"):
        (tmp_path / name).write_bytes(message(1))
        assert subjects_and_labels(open_source(tmp_path / name).mails) == [("S1", name)]


@pytest.mark.parametrize("name", ["list.mbox.gz", "2024-June.txt.gz"])
def test_a_gzipped_mbox_is_read_as_the_plain_one_is(tmp_path, name):
    plain = mbox_of(tmp_path / "plain.mbox", message(1), message(2))
    path = tmp_path / name
    path.write_bytes(gzip.compress(plain.read_bytes()))
    source = open_source(path)
    assert list(source.mails) == list(open_source(plain).mails)
    assert source.position() == source.total() == path.stat().st_size
    assert source.checksum() == hashlib.sha256(path.read_bytes()).hexdigest()


@pytest.mark.parametrize("charset", ["utf-8-sig", "utf-16", "utf-16-le", "utf-16-be", "latin-1"])
@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"])
def test_text_of_any_encoding_and_line_end_is_read(tmp_path, charset, end):
    """A message, an mbox and a table, named alone and in a folder."""
    lines = ["From: anna@x.com", "Subject: Caf\xe9", "", "Caf\xe9 at 9.", "Bye", ""]
    table = ["file,message", '"a/1.","' + "\n".join(lines) + '"']
    (tmp_path / "mail").mkdir()
    expected = []
    for name, content in (("Inbox", ["From ", *lines]), ("one.eml", lines), ("table.csv", table)):
        if name != "table.csv" or (charset, end) != ("latin-1", "\r"):
            (tmp_path / "mail" / name).write_bytes((end.join(content)).encode(charset))
            expected.append(("anna@x.com", "Café", "Café at 9.\nBye"))
            (mail,) = open_source(tmp_path / "mail" / name).mails
            assert (mail.from_addr, mail.subject, mail.body) == expected[-1]
    assert [(m.from_addr, m.subject, m.body) for m in open_source(tmp_path / "mail").mails] == expected


def test_an_mbox_under_the_name_of_a_message_gives_every_message(tmp_path):
    path = mbox_of(tmp_path / "saved.eml", message(1), message(2))
    assert subjects_and_labels(open_source(path).mails) == [
        ("S1", "saved.eml/message 1"),
        ("S2", "saved.eml/message 2"),
    ]


def test_the_checksum_is_that_of_the_file_once_all_is_read(tmp_path):
    noise = random.Random(0).randbytes(4 << 20)
    path = tar_of(tmp_path / "mail.tar.gz", [("a/1.", raw("From: a@x.com")), ("a/2.", noise)])
    source = open_source(path)
    next(source.mails)
    assert source.checksum() == ""
    assert len(list(source.mails)) == 1
    assert source.checksum() == hashlib.sha256(path.read_bytes()).hexdigest()


def gzipped(content: bytes) -> bytes:
    return gzip.compress(content, mtime=0)  # the time would make it another case in each worker


@pytest.mark.parametrize(
    ("name", "content", "words"),
    [
        ("emails.csv", b"a,b\n1,2\n", "no column `message`.*a, b"),
        ("emails.csv", b"", "no column `message`"),
        ("mail.tar.gz", b"no archive at all", "whole tar archive"),
        ("mail.tar.gz", b"", "whole tar archive"),
        ("mail.txt.gz", gzipped(b"notes"), "Unknown kind of mail 'mail.txt.gz'"),
        ("mail.tar.gz", gzipped(gzipped(bytes(20_000))), "unpack it and name what comes out"),
        ("takeout.zip", b"PK\x03\x04", "whole zip archive"),
        ("mail.tar.xz", b"\xfd7zXZ\x00", "a file of xz"),
        ("mail.mmdf", b"\1\1\1\1\nFrom: a@x.com\n\nx\n\1\1\1\1\n", "a file of MMDF"),
        ("list.log", b"=" * 73 + b"\nFrom: a@x.com\n\nx\n", "a file of LISTSERV"),
        ("mail.pst", b"!BDN", "'mail.pst' is a file of Outlook's, which is not read. readpst makes mbox files"),
        ("mail.dat", b"x", "Unknown kind of mail"),
        ("", b"", "No mail at"),
        ("x" * 300, None, "No mail at"),
    ],
)
def test_a_source_that_cannot_be_read_says_so(tmp_path, name, content, words):
    path = tmp_path / (name or "nothing")
    if name and content is not None:
        path.write_bytes(content)
    with pytest.raises(SourceError, match=words):
        list(open_source(path).mails)


def test_a_folder_is_no_archive(tmp_path):
    with pytest.raises(SourceError, match=r"Cannot read .*: Is a directory"):
        list(open_source(tmp_path, "tar").mails)


def test_an_unknown_format_names_the_nearest():
    with pytest.raises(SourceError, match="Did you mean 'parquet'"):
        open_source("mail", "parqet")


@settings(max_examples=200, deadline=None)
@given(st.binary(max_size=200), st.sampled_from(["mbox", "csv", "jsonl", "tar"]))
def test_any_bytes_are_mail_skips_or_a_source_error(tmp_path_factory, data, kind):
    path = tmp_path_factory.getbasetemp() / "any"
    path.write_bytes({"mbox": b"From x Mon May 14 16:39:00 2001\n", "csv": b"file,message\n"}.get(kind, b"") + data)
    try:
        assert all(isinstance(entry, ParsedMail | Skip) for entry in open_source(path, kind).mails)
    except SourceError:
        pass


def test_several_sources_go_into_one_database(tmp_path):
    archive = tar_of(tmp_path / "a.tar.gz", [("maildir/me/inbox/1.", message(1))])
    inbox = mbox_of(tmp_path / "b.mbox", message(2), message(1), b"Subject: no mail\n\n")
    box = mailbox.Maildir(tmp_path / "Maildir")
    box.add(message(3))
    (tmp_path / "empty.mbox").write_bytes(b"")
    sources = [archive, inbox, tmp_path / "Maildir", tmp_path / "empty.mbox"]
    out, skips = tmp_path / "mail.db", tmp_path / "skips.jsonl"
    result = run(*sources, "--out", out, "--report", skips, "--json")
    assert result.exit_code == 0, result.stderr
    report = json.loads(result.stdout)
    assert (report["read"], report["kept"]) == (5, 3)
    assert report["source"] == ", ".join(map(str, sources))
    assert result.stderr == f"Note: {tmp_path / 'empty.mbox'} has no mail.\n"
    assert [json.loads(line) for line in skips.read_text().splitlines()] == [
        {"source": "b.mbox::message 3", "reason": "no_addresses"},
        {"source": "b.mbox::message 2", "reason": "duplicate_message_id"},
    ]
    database = MailDatabase(out)
    assert database.metadata["command"] == f"build-enron-db {' '.join(map(str, sources))}"
    labels = sorted(label for (label,) in database.connection().execute("SELECT source FROM emails"))
    assert labels[0].startswith("Maildir::new/")
    assert labels[1:] == ["a.tar.gz::me/inbox/1.", "b.mbox::message 1"]
    database.close()


def test_saved_messages_named_one_by_one_are_one_mailbox(tmp_path):
    for n in range(12):
        (tmp_path / f"{n:02}.eml").write_bytes(message(n, sender=f"p{n}@x.com"))
    (tmp_path / "12.eml").write_bytes(raw("From: q@x.com\nTo: undisclosed-recipients:;\nSubject: Secret"))
    files = sorted(tmp_path.glob("*.eml"))
    result = run(*files, "--out", tmp_path / "mail.db", "--json")
    report = json.loads(result.stdout)
    assert report["source"] == ", ".join(map(str, files[:10])) + " and 3 more"
    assert [(owner["address"], owner["mails"]) for owner in report["owners"]] == [("me@x.com", 13)]
    assert subjects_and_labels(open_sources(files).mails)[0] == ("S0", "00.eml")


def test_sources_of_one_name_are_told_apart_and_their_checksums_are_noted(tmp_path):
    paths = [mbox_of(tmp_path / name / "Inbox", message(name)) for name in ("ann", "ben")]
    source = open_sources(paths)
    assert source.checksum() == ""
    assert subjects_and_labels(source.mails) == [("Sann", f"{paths[0]}::message 1"), ("Sben", f"{paths[1]}::message 1")]
    assert source.position() == source.total() == 2000
    assert source.checksum() == " ".join(hashlib.sha256(path.read_bytes()).hexdigest() for path in paths)


def test_one_wrong_source_of_several_is_an_error_and_writes_nothing(tmp_path):
    inbox = mbox_of(tmp_path / "b.mbox", message(2))
    for wrong, words in (("nowhere.mbox", "No mail at"), ("b.mbox", "must be different files")):
        result = run(inbox, tmp_path / wrong, "--out", tmp_path / "mail.db")
        assert result.exit_code != 0
        assert words in result.output
        assert not (tmp_path / "mail.db").exists()

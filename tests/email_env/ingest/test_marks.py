"""What a mailbox marks as deleted, spam or draft is left out, counted, and kept on demand."""

import json

import pytest

from email_env.ingest.parse import parse_message
from email_env.ingest.sources import open_source
from tests.email_env.mails import message, raw, run, tar_of, zip_of


@pytest.mark.parametrize(
    ("header", "mark"),
    [
        ("X-Mozilla-Status: 0009", "deleted"),
        ("X-Mozilla-Status: 001a", "deleted"),
        ("X-Mozilla-Status: 8001", None),
        ("X-Mozilla-Status2: 00200000", "deleted"),
        ("X-Mozilla-Status2: 10800000", None),
        ("X-Mozilla-Keys: $label1 Junk", "spam"),
        ("X-Mozilla-Keys: NonJunk                        ", None),
        ("X-Mozilla-Draft-Info: internal/draft; vcard=0; receipt=0", "draft"),
        ("X-Status: AD", "deleted"),
        ("X-Status: T", "draft"),
        ("X-Status: AF", None),
        ("Status: RO", None),
        ("X-Keywords: $Junk", "spam"),
        ("X-Keywords: Work, NotJunk", None),
        ("X-Evolution: 0000002b-0012", "deleted"),
        ("X-Evolution: 0000002b-0090", "spam"),
        ("X-Evolution: 0000002b-0014", "draft"),
        ("X-Evolution: 0000002b-0010", None),
        ("X-Unsent: 1", "draft"),
        ("X-Unsent: 0", None),
        ("X-Spam-Flag: YES", None),
        ("label: /cur/1:2,T\n.emlx: 10", None),
    ],
)
def test_headers_that_a_format_defines_are_marks(header, mark):
    assert parse_message(raw(f"X-Account-Key: account1\n{header}\nFrom: a@x.com")).marks == ((mark,) if mark else ())
    assert parse_message(raw("From: a@x.com", f"{header}\n")).marks == ()


def test_labels_of_gmail_are_read_whatever_their_language():
    labels = "X-Gmail-Labels: Inbox,=?UTF-8?Q?Entw=C3=BCrfe,Old_drafts,?=\n =?UTF-8?Q?Work/Trash, SPAM?="
    assert parse_message(raw(f"From: a@x.com\n{labels}")).marks == (
        "inbox", "entwürfe", "old drafts", "work/trash", "spam",
    )  # fmt: skip


@pytest.mark.parametrize(
    ("place", "mark"),
    [
        ("Maildir/cur/1700000001.M1P2.host:2,S", None),
        ("Maildir/cur/1700000001.M1P2.host:2,ST", "deleted"),
        ("Maildir/cur/1700000001.M1P2.host!2,T", "deleted"),  # where no file may have a colon
        ("Maildir/cur/1700000001.M1P2.host_2,T", "deleted"),
        ("Maildir/cur/1700000001.M1P2.host:2,DS", "draft"),
        ("Maildir/cur/1700000001.T.host:2,FRSt", None),
        ("Maildir/new/1:2,T", None),
        ("Maildir/.Trash/cur/1:2,S", "deleted"),
        ("Maildir/.Trash.2024/new/1", "deleted"),
        ("Maildir/.Trashy/cur/1:2,S", None),
        ("Mail/inbox/,3", "deleted"),
        (",3", "deleted"),
        ("Mail/inbox/#3", "deleted"),
        ("Mail/#3/plan.eml", None),
        ("Mail/inbox/3", None),
        ("maildir/lay-k/deleted_items/3.", None),
        ("Mail/Trash/3", None),
    ],
)
def test_names_that_a_format_defines_are_marks(tmp_path, place, mark):
    """In a folder and in an archive."""
    (tmp_path / "mail" / place).parent.mkdir(parents=True)
    (tmp_path / "mail" / place).write_bytes(message(1))
    for source in (tmp_path / "mail", tar_of(tmp_path / "mail.tgz", [(place, message(1))])):
        (found,) = open_source(source).mails
        assert (found.subject, found.marks) == ("S1", (mark,) if mark else ())


@pytest.mark.parametrize(
    ("flags", "mark"),
    [(8623750145, None), (8623750147, "deleted"), (1 | 1 << 6, "draft"), (1 | 1 << 24, "spam"), (1 | 1 << 25, None)],
)
def test_the_flags_of_apple_mail_are_marks(tmp_path, flags, mark):
    path = tmp_path / "7.emlx"
    listed = f"<plist><dict>\n\t<key>flags</key>\n\t<integer>{flags}</integer></dict></plist>\n".encode()
    path.write_bytes(b"%d\n" % len(message(1)) + message(1) + b'<?xml version="1.0"?>\n' + listed)
    (found,) = open_source(path).mails
    assert (found.subject, found.body, found.marks) == ("S1", "Text.", (mark,) if mark else ())


def test_marked_mail_is_left_out_and_counted_and_options_keep_it_or_name_more_labels(tmp_path):
    labels = ("Inbox", "Spam", "Trash", "Drafts", "Sent,Bin", "=?UTF-8?Q?Entw=C3=BCrfe?=", "Old drafts")
    box = b"".join(
        b"From 1@xxx Mon May 14 16:39:00 +0000 2001\nX-Gmail-Labels: %s\n%s\n"
        % (label.encode(), message(number, body=f"Text {number}."))
        for number, label in enumerate(labels)
    )
    source = zip_of(tmp_path / "takeout.zip", {"Takeout/Mail/All mail.mbox": box})
    question = {"id": "q", "question": "What?", "answer": "Text 4", "message_ids": ["4@x"], "inbox_address": "me@x.com"}
    (tmp_path / "q.jsonl").write_text(json.dumps(question | {"query_date": "2002-01-01", "split": "test"}) + "\n")
    for options, kept, skipped in (
        ([], 3, {"deleted": 2, "spam": 1, "draft": 1}),
        (["--scenarios", tmp_path / "q.jsonl"], 4, {"deleted": 1, "spam": 1, "draft": 1}),  # evidence is never left out
        (["--leave-out", "ENTWÜRFE"], 2, {"deleted": 2, "spam": 1, "draft": 1, "label": 1}),
        (["--keep-marked"], 7, {}),
        (["--keep-marked", "--leave-out", "spam"], 6, {"spam": 1}),
    ):
        report = json.loads(run(source, "--out", tmp_path / "mail.db", "--json", *options).stdout)
        assert (report["kept"], report["skipped"]) == (kept, skipped)

"""Folders of mail: every file in them is read for what it is, left out by name, or an error."""

import gzip
import mailbox
import os

import pytest

from email_env.errors import SourceError
from email_env.ingest.sources import open_source
from email_env.mail import Skip, SkipReason
from tests.email_env.mails import mbox_of, message, raw, run, subjects_and_labels, zip_of


def test_a_folder_is_walked_in_order_and_links_are_not_followed_but_named(tmp_path):
    root = tmp_path / "maildir"
    for name, sender in (("b/inbox/1.", "b"), ("a/sent/2.", "a2"), ("a/sent/1.", "a1")):
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_bytes(raw(f"From: {sender}@x.com"))
    (root / "a" / "link").symlink_to("/etc/hostname")
    (root / "loop").symlink_to(root)
    os.mkfifo(root / "b" / "pipe")
    source = open_source(root)
    found = list(source.mails)
    assert [m.source for m in found] == ["loop", "a/link", "a/sent/1.", "a/sent/2.", "b/pipe", "b/inbox/1."]
    assert [m.source for m in found if isinstance(m, Skip)] == ["loop", "a/link", "b/pipe"]
    assert source.position() == source.total() == 6
    assert source.notes == [
        "loop is left out: it is a link to a folder. To read its mail, name that folder, too.",
    ]


def test_notes_and_counts_say_why_no_mail_is_left(tmp_path):
    (root := tmp_path / "mail").mkdir()
    (root / "Old").symlink_to(tmp_path)
    built = run(root, "--out", tmp_path / "mail.db")
    assert built.stderr.splitlines() == [
        "Note: Old is left out: it is a link to a folder. To read its mail, name that folder, too.",
        f"Error: No mail is left of 1 from {root} (1 unreadable). Nothing was written.",
    ]


def test_a_folder_without_files_is_an_error(tmp_path):
    (tmp_path / "inbox").mkdir()
    with pytest.raises(SourceError, match="No mail in the folder"):
        open_source(tmp_path)


def test_every_file_of_a_maildir_is_read_or_counted(tmp_path):
    box = mailbox.Maildir(tmp_path / "Maildir")
    box.add(raw("From: new@x.com"))
    seen = mailbox.MaildirMessage(raw("From: seen@x.com"))
    seen.set_subdir("cur")
    seen.set_flags("S")
    box.add(seen)
    box.add_folder("Sent").add(raw("From: sent@x.com"))
    for place, content in {
        "tmp/1.half": raw("From: half@x.com"),
        ".Sent/tmp/2.half": raw("From: half@x.com"),
        "old.mbox": b"From a@x.com Mon May 14 16:39:00 2001\n" + raw("From: old@x.com"),
        "saved.eml": raw("From: saved@x.com"),
        "dovecot.index.log": b"\x01\x02",
    }.items():
        (tmp_path / "Maildir" / place).write_bytes(content)
    (tmp_path / "Maildir" / ".Sent" / "maildirfolder").unlink()
    (tmp_path / "Maildir" / "notes" / "tmp").mkdir(parents=True)  # of no Maildir
    (tmp_path / "Maildir" / "notes" / "tmp" / "1").write_bytes(raw("From: note@x.com"))
    found = list(open_source(tmp_path / "Maildir").mails)
    assert [mail for mail in found if isinstance(mail, Skip)] == [
        Skip(".Sent/tmp/2.half", SkipReason.UNDELIVERED),
        Skip("tmp/1.half", SkipReason.UNDELIVERED),
    ]
    senders = ["", "new@x.com", "note@x.com", "old@x.com", "saved@x.com", "seen@x.com", "sent@x.com"]
    assert sorted(mail.from_addr for mail in found if not isinstance(mail, Skip)) == senders


@pytest.mark.parametrize("place", ["cur/1700000001.M1P2.host:2,S", "new/1700000001.M1P2.host"])
def test_a_file_of_a_maildir_is_one_message_whatever_is_in_it(tmp_path, place):
    patch = "Here it is.\n\nFrom 4a5b6c7d Mon Sep 17 00:00:00 2001\nFrom: b@x.com\nSubject: [PATCH]\n\ndiff"
    (tmp_path / place).parent.mkdir()
    (tmp_path / place).write_bytes(b"From a@x.com Mon May 14 16:39:00 2001\n" + message(1, body=patch))
    (mail,) = open_source(tmp_path).mails
    assert (mail.subject, mail.body, mail.source) == ("S1", patch, place)


def test_a_folder_of_mbox_files_saved_messages_and_strays_gives_every_message_of_each(tmp_path):
    root = tmp_path / "Thunderbird"
    inbox = mbox_of(root / "Inbox", message(1), message(2)).read_bytes()
    mbox_of(root / "Inbox.sbd" / "Work.mbox", message(3))
    (root / "2024-June.txt.gz").write_bytes(gzip.compress(inbox))
    (root / "notes.gz").write_bytes(gzip.compress(b"notes"))
    (root / "saved").mkdir()
    (root / "saved" / "five.eml").write_bytes(message(5))
    (root / "Inbox.msf").write_bytes(b'// <!-- <mdb:mork:z v="1.4"/> -->\n')
    (root / "Trash").write_bytes(b"")
    source = open_source(root)
    found = list(source.mails)
    assert subjects_and_labels(found) == [
        ("S1", "2024-June.txt.gz/message 1"),
        ("S2", "2024-June.txt.gz/message 2"),
        ("S1", "Inbox/message 1"),
        ("S2", "Inbox/message 2"),
        ("", "Inbox.msf"),
        ("", "Trash"),
        ("S3", "Inbox.sbd/Work.mbox/message 1"),
        ("S5", "saved/five.eml"),
    ]
    assert [entry for entry in found if isinstance(entry, Skip)] == [Skip("notes.gz", SkipReason.PACKED)]
    assert source.position() == source.total() == 7


def test_apple_mails_own_files_are_messages_without_the_list_behind_them(tmp_path):
    one = raw("From: a@x.com\nSubject: One", "Hello\n")
    behind = b'<?xml version="1.0"?>\n<plist version="1.0"><dict><key>flags</key></dict></plist>\n'
    folder = tmp_path / "INBOX.mbox" / "Messages"
    folder.mkdir(parents=True)
    (folder / "1.emlx").write_bytes(b"%-10d\n" % len(one) + one + behind)
    (folder / "2.partial.emlx").write_bytes(one)  # without the line that it should begin with
    for source, count in ((tmp_path, 2), (folder / "1.emlx", 1)):
        assert [(m.from_addr, m.subject, m.body) for m in open_source(source).mails] == [
            ("a@x.com", "One", "Hello")
        ] * count


def test_an_archive_in_a_folder_is_read(tmp_path):
    root = tmp_path / "downloads"
    mbox_of(root / "old" / "Inbox", message(1))
    zip_of(root / "takeout-001.zip", {"Takeout/Mail/Sent.mbox": (root / "old" / "Inbox").read_bytes()})
    assert subjects_and_labels(open_source(root).mails) == [
        ("S1", "takeout-001.zip::Takeout/Mail/Sent.mbox/message 1"),
        ("S1", "old/Inbox/message 1"),
    ]


@pytest.mark.parametrize(("name", "kind"), [("takeout.zip", "zip"), ("mail.tar", "tar"), ("mail.tar.gz", "tar")])
@pytest.mark.parametrize("content", [b"", b"<html>Sign in</html>"])
def test_what_is_an_archive_only_by_its_name_is_left_out_by_name(tmp_path, name, kind, content):
    folder = tmp_path / "export"
    folder.mkdir()
    (folder / "a.eml").write_bytes(message(1))
    (folder / name).write_bytes(content)
    source = open_source(folder)
    assert list(source.mails)[1:] == [Skip(name, SkipReason.UNREADABLE)]
    assert source.notes == [f"{name} is left out: it is no {kind} archive."]

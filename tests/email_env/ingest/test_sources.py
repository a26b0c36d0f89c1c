import gzip
import hashlib
import mailbox
import os
import random
import tarfile
import tracemalloc

import pytest
from click.testing import CliRunner
from hypothesis import given, settings
from hypothesis import strategies as st

from email_env.cli import main
from email_env.errors import SourceError
from email_env.ingest.build import build_database
from email_env.ingest.sources import open_source
from email_env.mail import ParsedMail, Skip, SkipReason
from tests.email_env.mails import raw, tar_of


def read_all(spec):
    return list(open_source(spec).mails)


@pytest.mark.parametrize(("suffix", "mode"), [(".tar.gz", "w:gz"), (".tgz", "w:gz"), (".tar", "w")])
def test_an_archive_is_read_without_unpacking(tmp_path, suffix, mode):
    members = [(f"maildir/allen-p/inbox/{n}.", raw(f"From: a@x.com\nSubject: {n}")) for n in range(5)]
    source = open_source(tar_of(tmp_path / f"mail{suffix}", members, mode))
    found = list(source.mails)
    assert [(m.subject, m.source) for m in found] == [(str(n), f"allen-p/inbox/{n}.") for n in range(5)]
    assert source.position() == source.total() > 0
    assert len(list(tmp_path.iterdir())) == 1


def test_links_devices_and_paths_that_lead_outside_do_no_harm(tmp_path):
    link, device = tarfile.TarInfo("maildir/a/link"), tarfile.TarInfo("maildir/a/null")
    link.type, link.linkname = tarfile.SYMTYPE, "/etc/passwd"
    device.type = tarfile.CHRTYPE
    path = tar_of(
        tmp_path / "mail.tar",
        [(link, b""), (device, b""), ("../../evil", raw("From: a@x.com")), ("/abs", raw("From: b@x.com"))],
        "w",
    )
    first, second, third, fourth = read_all(path)
    assert first == Skip("a/link", SkipReason.UNREADABLE)
    assert second == Skip("a/null", SkipReason.UNREADABLE)
    assert (third.from_addr, fourth.from_addr) == ("a@x.com", "b@x.com")
    assert [p.name for p in tmp_path.iterdir()] == ["mail.tar"]


def test_a_linked_folder_is_not_followed_but_named(tmp_path):
    for name in ("elsewhere", "mail/INBOX"):
        (tmp_path / name).mkdir(parents=True)
        (tmp_path / name / "1.eml").write_bytes(raw("From: a@x.com"))
    (tmp_path / "mail" / "Old").symlink_to(tmp_path / "elsewhere")
    (tmp_path / "mail" / "loop").symlink_to(tmp_path / "mail")
    source = open_source(tmp_path / "mail")
    links = [entry.source for entry in source.mails if entry == Skip(entry.source, SkipReason.UNREADABLE)]
    assert links == ["Old", "loop"]
    assert source.notes == [
        f"{name} is left out: it is a link to a folder. To read its mail, name that folder, too." for name in links
    ]
    (tmp_path / "mail/INBOX/1.eml").unlink()
    built = CliRunner().invoke(main, [str(tmp_path / "mail"), "--out", str(tmp_path / "mail.db")])
    told = [f"Note: {note}" for note in source.notes]
    error = f"Error: No mail is left of 2 from {tmp_path / 'mail'} (2 unreadable). Nothing was written."
    assert built.stderr.splitlines() == [*told, error]


def test_a_message_too_large_is_skipped_unread(tmp_path, monkeypatch):
    monkeypatch.setattr("email_env.ingest.sources.source.MAX_MESSAGE_BYTES", 100)
    members = [("a/1.", b"From: a@x.com\n\n" + b"x" * 100), ("a/2.", raw("From: a@x.com"))]
    assert read_all(tar_of(tmp_path / "mail.tar.gz", members))[0] == Skip("a/1.", SkipReason.TOO_LARGE)
    folder = tmp_path / "folder" / "a"
    folder.mkdir(parents=True)
    (folder / "1.").write_bytes(members[0][1])
    assert read_all(tmp_path / "folder") == [Skip("a/1.", SkipReason.TOO_LARGE)]


@pytest.mark.parametrize("keep", [0, 5, 300, -600, -1])
def test_a_truncated_archive_is_an_error_and_writes_nothing(tmp_path, keep):
    noise = random.Random(0)
    members = [(f"a/{n}.", raw("From: a@x.com", noise.randbytes(2000).hex())) for n in range(20)]
    whole = tar_of(tmp_path / "whole.tar.gz", members).read_bytes()
    path = tmp_path / "cut.tar.gz"
    path.write_bytes(whole[:keep])
    out = tmp_path / "out" / "mail.db"
    source = open_source(path)
    with pytest.raises(SourceError, match=r"cut\.tar\.gz.*cannot be read to its end"):
        build_database(source.mails, out, source=source.name)
    assert not out.parent.exists() or list(out.parent.iterdir()) == []


def test_an_archive_cut_between_two_members_is_an_error(tmp_path):
    members = [(f"a/{n}.", raw("From: a@x.com")) for n in range(3)]
    path = tar_of(tmp_path / "mail.tar", members, "w")
    path.write_bytes(path.read_bytes()[:2048])  # two members of a header and a block each
    with pytest.raises(SourceError, match="its end is missing"):
        read_all(path)


def test_a_decompression_bomb_is_refused(tmp_path, monkeypatch):
    monkeypatch.setattr("email_env.ingest.sources.gzipped.FREE_BYTES", 1 << 20)
    bomb = [(f"a/{n}.", bytes(1 << 20)) for n in range(20)]
    with pytest.raises(SourceError, match="expands more than 200-fold"):
        read_all(tar_of(tmp_path / "bomb.tar.gz", bomb))


@pytest.mark.parametrize("kind", [tarfile.GNUTYPE_LONGNAME, tarfile.XHDTYPE, tarfile.XGLTYPE])
def test_a_header_without_end_is_refused_before_it_fills_the_memory(tmp_path, kind):
    header = tarfile.TarInfo("a/1.")
    header.type = kind
    path = tar_of(tmp_path / "mail.tar.gz", [(header, b"x" * (50 << 20))])
    tracemalloc.start()
    with pytest.raises(SourceError, match="headers of one entry take more than"):
        read_all(path)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 20 << 20


def test_a_chain_of_headers_is_refused(tmp_path):
    names = []
    for _ in range(2000):
        header = tarfile.TarInfo("a/1.")
        header.type = tarfile.GNUTYPE_LONGNAME
        names.append((header, b"name"))
    with pytest.raises(SourceError, match="cannot be read to its end"):
        read_all(tar_of(tmp_path / "mail.tar.gz", names))


def test_a_large_message_is_passed_over_and_the_next_one_is_read(tmp_path):
    members = [("a/1.", bytes(33 << 20)), ("a/2.", raw("From: a@x.com"))]
    first, second = read_all(tar_of(tmp_path / "mail.tar", members, "w"))
    assert (first, second.from_addr) == (Skip("a/1.", SkipReason.TOO_LARGE), "a@x.com")


def test_the_checksum_is_that_of_the_file_once_all_is_read(tmp_path):
    noise = random.Random(0).randbytes(4 << 20)
    path = tar_of(tmp_path / "mail.tar.gz", [("a/1.", raw("From: a@x.com")), ("a/2.", noise)])
    source = open_source(path)
    next(source.mails)
    assert source.checksum() == ""
    assert len(list(source.mails)) == 1
    assert source.checksum() == hashlib.sha256(path.read_bytes()).hexdigest()


def test_a_folder_is_walked_in_order_and_links_are_not_followed(tmp_path):
    root = tmp_path / "maildir"
    for name, sender in (("b/inbox/1.", "b"), ("a/sent/2.", "a2"), ("a/sent/1.", "a1")):
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_bytes(raw(f"From: {sender}@x.com"))
    (root / "a" / "link").symlink_to("/etc/hostname")
    os.mkfifo(root / "b" / "pipe")
    source = open_source(root)
    found = list(source.mails)
    assert [m.source for m in found] == ["a/link", "a/sent/1.", "a/sent/2.", "b/pipe", "b/inbox/1."]
    assert [m.reason for m in found if isinstance(m, Skip)] == [SkipReason.UNREADABLE] * 2
    assert source.position() == source.total() == 5


def gzipped(content: bytes) -> bytes:
    return gzip.compress(content, mtime=0)  # the time would make it another case in each worker


@pytest.mark.parametrize(
    ("name", "content", "words"),
    [
        ("emails.csv", b"a,b\n1,2\n", "no column `message`.*a, b"),
        ("emails.csv", b"", "no column `message`"),
        ("mail.tar.gz", b"no archive at all", "whole tar archive"),
        ("mail.txt.gz", gzipped(b"From: a@x.com"), "where something else is packed in it, unpack it"),
        ("mail.mbox.gz", gzipped(b"From: a@x.com"), "is no mbox: it begins with b'From: a@x.com'"),
        ("mail.tar.gz", gzipped(gzipped(bytes(20_000))), "unpack it and name what comes out"),
        ("takeout.zip", b"PK\x03\x04", "whole zip archive"),
        ("mail.tar.xz", b"\xfd7zXZ\x00", "packed with xz"),
        ("mail.jsonl", "{}\n".encode("utf-16"), "UTF-16, not in UTF-8"),
        ("emails.csv", "file,message\n".encode("utf-16"), "UTF-16, not in UTF-8"),
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
        read_all(path)


def test_a_folder_without_files_is_an_error(tmp_path):
    (tmp_path / "inbox").mkdir()
    with pytest.raises(SourceError, match="No mail in the folder"):
        open_source(tmp_path)


def test_a_maildir_gives_its_new_and_read_mail_in_all_folders_and_nothing_else(tmp_path):
    box = mailbox.Maildir(tmp_path / "Maildir")
    box.add(raw("From: new@x.com"))
    seen = mailbox.MaildirMessage(raw("From: seen@x.com"))
    seen.set_subdir("cur")
    seen.set_flags("S")
    box.add(seen)
    box.add_folder("Sent").add(raw("From: sent@x.com"))
    for beside in ("tmp/1.half", "dovecot.index", ".Sent/subscriptions"):
        (tmp_path / "Maildir" / beside).write_bytes(raw("From: never@x.com"))
    found = read_all(tmp_path / "Maildir")
    assert sorted(m.from_addr for m in found) == ["new@x.com", "seen@x.com", "sent@x.com"]


def test_a_folder_of_eml_files_is_read_with_its_strays_counted(tmp_path):
    (tmp_path / "2019").mkdir()
    (tmp_path / "2019" / "one.eml").write_bytes(raw("From: a@x.com\nSubject: One", end="\r\n"))
    (tmp_path / "two.eml").write_bytes(raw("From: b@x.com"))
    (tmp_path / "notes.txt").write_text("no mail")
    report = build_database(open_source(tmp_path).mails, tmp_path / "out" / "mail.db", source="eml")
    assert (report.read, report.kept, report.skipped) == (3, 2, {"no_addresses": 1})


def test_apple_mails_own_files_are_messages_without_the_list_behind_them(tmp_path):
    message = raw("From: a@x.com\nSubject: One", "Hello\n")
    behind = b'<?xml version="1.0"?>\n<plist version="1.0"><dict><key>flags</key></dict></plist>\n'
    folder = tmp_path / "INBOX.mbox" / "Messages"
    folder.mkdir(parents=True)
    (folder / "1.emlx").write_bytes(b"%-10d\n" % len(message) + message + behind)
    (folder / "2.partial.emlx").write_bytes(message)  # without the line that it should begin with
    for found in (read_all(tmp_path), read_all(folder / "1.emlx")):
        assert {(m.from_addr, m.subject, m.body) for m in found} == {("a@x.com", "One", "Hello")}
    assert len(read_all(tmp_path)) == 2


def test_an_mbox_of_the_standard_library_is_read_back_message_by_message(tmp_path):
    path = tmp_path / "archive.mbox"
    box = mailbox.mbox(path)
    bodies = ["One\n", "Two\n\nFrom here to there\nFrom: not a header\n", "Three\n\n\n", ""]
    for number, body in enumerate(bodies):
        box.add(raw(f"From: a{number}@x.com\nSubject: S{number}", body))
    box.close()
    found = read_all(path)
    assert [(m.from_addr, m.body, m.source) for m in found] == [
        (f"a{n}@x.com", body.rstrip("\n"), f"message {n + 1}") for n, body in enumerate(bodies)
    ]


def test_a_line_of_text_that_begins_with_from_starts_no_message(tmp_path):
    path = tmp_path / "Inbox"
    path.write_bytes(
        b"From MAILER-DAEMON Mon May 14 16:39:00 2001\r\nFrom: a@x.com\r\n\r\nHello\r\n\r\n"
        b"From Monday on we meet at 10:30 in 2001.\r\n>From a friend\r\n>>From both\r\n\r\n"
        b"From 123@xxx Mon May 14 16:39:00 +0000 2001\r\nFrom: b@x.com\r\n\r\nBye\r\n"
    )
    first, second = read_all(path)
    assert first.body == "Hello\n\nFrom Monday on we meet at 10:30 in 2001.\nFrom a friend\n>From both"
    assert (second.from_addr, second.body) == ("b@x.com", "Bye")


def test_an_mbox_message_too_large_is_skipped_and_the_next_one_read(tmp_path, monkeypatch):
    monkeypatch.setattr("email_env.ingest.sources.source.MAX_MESSAGE_BYTES", 1000)
    start = b"From x Mon May 14 16:39:00 2001\n"
    path = tmp_path / "mail.mbox"
    path.write_bytes(start + raw("From: a@x.com", "x" * 2000 + "\n\n") + start + raw("From: b@x.com"))
    first, second = read_all(path)
    assert (first, second.from_addr) == (Skip("message 1", SkipReason.TOO_LARGE), "b@x.com")


@settings(max_examples=200, deadline=None)
@given(st.binary(max_size=200), st.sampled_from(["mbox", "csv", "jsonl", "tar"]))
def test_any_bytes_are_mail_skips_or_a_source_error(tmp_path_factory, data, kind):
    path = tmp_path_factory.getbasetemp() / "any"
    path.write_bytes({"mbox": b"From x Mon May 14 16:39:00 2001\n", "csv": b"file,message\n"}.get(kind, b"") + data)
    try:
        assert all(isinstance(entry, ParsedMail | Skip) for entry in open_source(path, kind).mails)
    except SourceError:
        pass


def test_a_folder_is_no_archive(tmp_path):
    with pytest.raises(SourceError, match=r"Cannot read .*: Is a directory"):
        list(open_source(tmp_path, "tar").mails)


def test_an_unknown_format_names_the_nearest():
    with pytest.raises(SourceError, match="did you mean 'parquet'"):
        open_source("mail", "parqet")

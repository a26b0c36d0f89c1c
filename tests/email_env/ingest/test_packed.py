"""Archives and gzipped files within folders and archives: read, an error, or left out with their names."""

import bz2
import gzip
import io
import tarfile

import pytest
from click.testing import CliRunner

from email_env.cli import main
from email_env.errors import SourceError
from email_env.ingest.sources import open_source
from email_env.mail import Skip, SkipReason
from tests.email_env.ingest.test_mailboxes import mbox_of, message, subjects_and_labels, zip_of
from tests.email_env.mails import raw, tar_of


@pytest.fixture
def inbox(tmp_path):
    return mbox_of(tmp_path / "made.mbox", *(message(n) for n in range(1, 34))).read_bytes()


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("cut.zip", "is it a whole zip archive?"),
        ("cut.tgz", "is it a whole"),
        ("cut.tar", "is it a whole tar archive?"),
        ("cut.mbox.gz", "is it a whole gzip file?"),
        ("cut", "is it a whole gzip file?"),
    ],
)
@pytest.mark.parametrize("is_begun", [False, True])
def test_a_damaged_archive_in_a_folder_is_the_error_that_it_is_alone(tmp_path, inbox, name, words, is_begun):
    folder = tmp_path / "export"
    folder.mkdir()
    zip_of(folder / "good.zip", {"Inbox": inbox})
    if name.endswith(".zip"):
        zip_of(folder / name, {"Inbox": inbox})
    elif name.startswith("cut.t"):
        tar_of(folder / name, [("Inbox", inbox)], "w:gz" if name.endswith("gz") else "w")
    else:
        (folder / name).write_bytes(gzip.compress(inbox))
    whole = (folder / name).read_bytes()
    few = 300 if name == "cut.tar" else 20  # what ends before the mark of a tar archive is none
    (folder / name).write_bytes(whole[: 1000 if name == "cut.tar" else len(whole) // 2] if is_begun else whole[:few])
    for source in (folder, folder / name):
        result = CliRunner().invoke(main, [str(source), "--out", str(tmp_path / "mail.db")])
        assert result.exit_code == 1
        assert f"Error: {str(folder / name)!r} cannot be read to its end" in result.stderr
        assert words in result.stderr
    assert not (tmp_path / "mail.db").exists()


@pytest.mark.parametrize("name", ["takeout.zip", "mail.tar", "mail.tar.gz"])
@pytest.mark.parametrize("content", [b"", b"<html>Sign in</html>"])
def test_what_is_an_archive_only_by_its_name_is_left_out_by_name(tmp_path, name, content):
    folder = tmp_path / "export"
    folder.mkdir()
    (folder / "a.eml").write_bytes(message(1))
    (folder / name).write_bytes(content)
    source = open_source(folder)
    assert list(source.mails)[1:] == [Skip(name, SkipReason.UNREADABLE)]
    assert len(source.notes) == 1
    assert source.notes[0].startswith(f"{name} is left out: {str(folder / name)!r} cannot be read to its end")


def test_gzipped_mbox_files_of_an_archive_are_read(tmp_path, inbox):
    packed = gzip.compress(b"\n" + inbox)
    for source in (
        zip_of(tmp_path / "lists.zip", {"lists/2024-June.txt.gz": packed}),
        tar_of(tmp_path / "lists.tgz", [("lists/2024-June.txt.gz", packed)]),
    ):
        assert subjects_and_labels(open_source(source).mails) == [
            (f"S{n}", f"lists/2024-June.txt.gz/message {n}") for n in range(1, 34)
        ]


@pytest.mark.parametrize("kind", ["zip", "tgz"])
def test_a_damaged_gzipped_file_of_an_archive_is_an_error(tmp_path, inbox, kind):
    members = [("june.mbox.gz", gzip.compress(inbox)[:-20])]
    path = tmp_path / f"lists.{kind}"
    source = open_source(zip_of(path, dict(members)) if kind == "zip" else tar_of(path, members))
    with pytest.raises(SourceError, match=r"'june\.mbox\.gz' cannot be read to its end"):
        list(source.mails)


def test_packed_files_of_an_archive_are_counted_and_named(tmp_path, inbox):
    inner = zip_of(tmp_path / "inner.zip", {"Inbox": inbox}).read_bytes()
    tape = io.BytesIO()
    with tarfile.open(fileobj=tape, mode="w") as archive:
        archive.addfile(tarfile.TarInfo("Inbox"))
    members = {
        "a.eml": message(1),
        "takeout-002.zip": inner,
        "old.tar": tape.getvalue(),
        "old.tgz": gzip.compress(tape.getvalue()),
        "Inbox.bz2": bz2.compress(inbox),
        "notes.gz": gzip.compress(b"notes"),
        "letter.docx": inner,
        "Archive.PST": b"!BDN" + bytes(100),
        "saved.msg": b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1" + bytes(100),
    }
    names = [*members][1:]
    said = "packed files in it are not opened: {} and 3 more. If mail is in them, unpack them and name what comes out."
    for path in (zip_of(tmp_path / "a.zip", members), tar_of(tmp_path / "a.tgz", members.items())):
        source = open_source(path)
        first, *others = source.mails
        assert (first.subject, others) == ("S1", [Skip(name, SkipReason.PACKED) for name in names])
        assert source.notes == [f"{path}: {said.format(', '.join(names[:5]))}"]
    result = CliRunner().invoke(main, [str(path), "--out", str(tmp_path / "mail.db")])
    assert "left out  8 packed\n" in result.stdout
    assert f"Note: {source.notes[0]}\n" in result.stderr


def test_a_separator_tells_when_mail_without_a_date_came(tmp_path):
    path = tmp_path / "Inbox"
    separators = {
        "From a@b Tue Feb 20 09:00:00 2024": "2024-02-20T09:00:00Z",
        "From 123@xxx Tue Feb 20 09:00:00 +0100 2024": "2024-02-20T09:00:00+01:00",
        "From a@b Tue Feb 20 09:00 PST 2024": "2024-02-20T09:00:00-08:00",
        "From a@b Thu Jan  1 00:00:00 1970": "1970-01-01T00:00:00Z",
        "From a@b Tue Feb 30 09:00:00 2024": "1970-01-01T00:00:00Z",
        "From a@b": "1970-01-01T00:00:00Z",
    }
    path.write_bytes(b"\n".join(line.encode() + b"\n" + message(n) for n, line in enumerate(separators)))
    assert [(mail.sent_at, mail.date_ok) for mail in open_source(path).mails] == [
        (sent_at, False) for sent_at in separators.values()
    ]
    start = b"From a@b Tue Feb 20 09:00:00 2024\n"
    for header in ("Date: Mon, 14 May 2001 16:39:00 +0000", "Received: from a by b; Mon, 14 May 2001 16:39:00 +0000"):
        path.write_bytes(start + raw(f"From: a@x.com\n{header}"))
        assert [(mail.sent_at, mail.date_ok) for mail in open_source(path).mails] == [("2001-05-14T16:39:00Z", True)]

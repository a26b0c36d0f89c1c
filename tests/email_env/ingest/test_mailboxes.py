"""Mail as programs save it: mbox files alone, in folders and in archives, and several sources in one build."""

import gzip
import hashlib
import json
import mailbox
import tarfile
import zipfile
from contextlib import closing

import pytest
from click.testing import CliRunner

from email_env.cli import main
from email_env.errors import SourceError
from email_env.ingest.sources import open_source, open_sources
from email_env.mail import Skip, SkipReason
from email_env.search.database import MailDatabase
from tests.email_env.mails import raw, tar_of


def message(number, sender="a@x.com", body="Text."):
    return raw(f"From: {sender}\nTo: me@x.com\nSubject: S{number}\nMessage-ID: <{number}@x>", body + "\n")


def mbox_of(path, *messages):
    path.parent.mkdir(parents=True, exist_ok=True)
    box = mailbox.mbox(path)
    for data in messages:
        box.add(data)
    box.close()
    return path


def zip_of(path, members):
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data in members.items():
            archive.writestr(name, data)
    return path


def subjects_and_labels(mails):
    return [(mail.subject, mail.source) for mail in mails if not isinstance(mail, Skip)]


def test_a_folder_of_mbox_files_gives_every_message_of_each(tmp_path):
    root = tmp_path / "Thunderbird"
    mbox_of(root / "Inbox", message(1), message(2))
    mbox_of(root / "Inbox.sbd" / "Work.mbox", message(3))
    mbox_of(root / "Sent", message(4))
    (root / "saved").mkdir()
    (root / "saved" / "five.eml").write_bytes(message(5))
    (root / "Inbox.msf").write_bytes(b'// <!-- <mdb:mork:z v="1.4"/> -->\n')
    (root / "Trash").write_bytes(b"")
    source = open_source(root)
    found = list(source.mails)
    assert subjects_and_labels(found) == [
        ("S1", "Inbox/message 1"),
        ("S2", "Inbox/message 2"),
        ("", "Inbox.msf"),
        ("S4", "Sent/message 1"),
        ("", "Trash"),
        ("S3", "Inbox.sbd/Work.mbox/message 1"),
        ("S5", "saved/five.eml"),
    ]
    assert source.position() == source.total() == 6


def test_what_thunderbird_deleted_or_changed_is_left_out_and_the_newest_draft_counts(tmp_path):
    path = mbox_of(tmp_path / "Drafts", *(
        f"X-Mozilla-Status: {status}\nX-Mozilla-Status2: 00000000\n".encode() * bool(status)
        + message(number, body=f"Draft {place}")
        for place, (status, number) in enumerate([("0009", 1), ("0001", 1), ("0018", 2), ("0001", 3), ("", 4)])
    ))  # fmt: skip
    found = list(open_source(path).mails)
    assert [mail.reason if isinstance(mail, Skip) else mail.body for mail in found] == [
        SkipReason.DELETED, "Draft 1", SkipReason.DELETED, "Draft 3", "Draft 4",
    ]  # fmt: skip


def test_what_a_maildir_marks_as_trash_is_left_out(tmp_path):
    names = ("1.host:2,S", "2.host:2,ST", "3.host!2,T", "4.T.host:2,FRS")  # `!` where no file may have a colon
    members = [(f"Maildir/cur/{name}", message(number)) for number, name in enumerate(names, start=1)]
    packed = tar_of(tmp_path / "mail.tgz", members)
    with tarfile.open(packed) as archive:
        archive.extractall(tmp_path, filter="data")
    (tmp_path / "Maildir" / "new").mkdir()
    for source in (tmp_path / "Maildir", packed):
        found = [mail.reason if isinstance(mail, Skip) else mail.subject for mail in open_source(source).mails]
        assert found == ["S1", SkipReason.DELETED, SkipReason.DELETED, "S4"]


def test_a_takeout_archive_is_read_without_unpacking(tmp_path):
    inbox = mbox_of(tmp_path / "made", message(1), message(2)).read_bytes()
    members = {
        "Takeout/Mail/All mail Including Spam and Trash.mbox": inbox,
        "Takeout/archive_browser.html": "<html>",
        "Takeout/Pay/activity.csv": "Time,Amount\n1,2\n",
    }
    source = open_source(zip_of(tmp_path / "takeout-001.zip", members))
    found = list(source.mails)
    label = "Takeout/Mail/All mail Including Spam and Trash.mbox/message"
    assert subjects_and_labels(found)[:2] == [("S1", f"{label} 1"), ("S2", f"{label} 2")]
    assert found[2].source == "Takeout/archive_browser.html"
    assert found[3] == Skip("Takeout/Pay/activity.csv", SkipReason.UNREADABLE)
    assert source.position() == source.total() > 0
    packed = tar_of(tmp_path / "takeout.tgz", [(name, data.encode()) for name, data in {"a.txt": "x"}.items()])
    assert len(list(open_source(packed).mails)) == 1
    packed = tar_of(tmp_path / "takeout.tgz", [("Takeout/Mail/Inbox.mbox", inbox)])
    assert subjects_and_labels(open_source(packed).mails)[1] == ("S2", "Takeout/Mail/Inbox.mbox/message 2")


def test_an_mbox_in_an_archive_may_be_larger_than_a_message(tmp_path, monkeypatch):
    monkeypatch.setattr("email_env.ingest.sources.source.MAX_MESSAGE_BYTES", 1000)
    inbox = mbox_of(tmp_path / "made", *(message(n, body="x" * 300) for n in range(20))).read_bytes()
    for path in (
        zip_of(tmp_path / "a.zip", {"Inbox": inbox, "big.eml": message(20, body="x" * 1000)}),
        tar_of(tmp_path / "a.tar.gz", [("Inbox", inbox), ("big.eml", message(20, body="x" * 1000))]),
    ):
        *mails, last = open_source(path).mails
        assert [mail.subject for mail in mails] == [f"S{n}" for n in range(20)]
        assert last == Skip("big.eml", SkipReason.TOO_LARGE)


@pytest.mark.parametrize("name", ["list.mbox.gz", "2024-June.txt.gz"])
def test_a_gzipped_mbox_is_read_as_the_plain_one_is(tmp_path, name):
    plain = mbox_of(tmp_path / "plain.mbox", message(1), message(2))
    path = tmp_path / name
    path.write_bytes(gzip.compress(plain.read_bytes()))
    source = open_source(path)
    assert list(source.mails) == list(open_source(plain).mails)
    assert source.position() == source.total() == path.stat().st_size
    assert source.checksum() == hashlib.sha256(path.read_bytes()).hexdigest()


def test_gzipped_mbox_files_of_a_folder_are_read_and_other_gzipped_files_are_counted(tmp_path):
    inbox = mbox_of(tmp_path / "plain.mbox", message(1)).read_bytes() + mbox_of(tmp_path / "b", message(2)).read_bytes()
    folder = tmp_path / "lists"
    folder.mkdir()
    (folder / "june.txt.gz").write_bytes(gzip.compress(inbox))
    (folder / "notes.gz").write_bytes(gzip.compress(b"notes"))
    found = list(open_source(folder).mails)
    assert subjects_and_labels(found[:2]) == [("S1", "june.txt.gz/message 1"), ("S2", "june.txt.gz/message 2")]
    assert found[2:] == [Skip("notes.gz", SkipReason.PACKED)]


@pytest.mark.parametrize(("spoil", "why"), [("cut", "end-of-stream marker"), ("change", "CRC check failed")])
def test_a_damaged_gzipped_mbox_is_an_error_and_writes_nothing(tmp_path, spoil, why):
    packed = gzip.compress(mbox_of(tmp_path / "plain.mbox", *(message(n) for n in range(20))).read_bytes())
    path = tmp_path / "list.mbox.gz"
    path.write_bytes(packed[:-9] if spoil == "cut" else packed[:-8] + bytes(8))
    result = CliRunner().invoke(main, [str(path), "--out", str(tmp_path / "mail.db")])
    assert result.exit_code == 1
    assert "list.mbox.gz' cannot be read to its end" in result.stderr
    assert why in result.stderr
    assert "is it a whole gzip file? Fetch it again." in result.stderr
    assert not (tmp_path / "mail.db").exists()


def test_a_gzipped_mbox_that_expands_without_end_is_refused(tmp_path, monkeypatch):
    monkeypatch.setattr("email_env.ingest.sources.gzipped.FREE_BYTES", 1 << 20)
    path = tmp_path / "bomb.mbox.gz"
    path.write_bytes(gzip.compress(mbox_of(tmp_path / "plain.mbox", message(1)).read_bytes() + bytes(20 << 20)))
    with pytest.raises(SourceError, match="expands more than 200-fold"):
        list(open_source(path).mails)


def test_an_mbox_may_begin_with_a_byte_order_mark(tmp_path):
    path = mbox_of(tmp_path / "Inbox", message(1), message(2))
    path.write_bytes(b"\xef\xbb\xbf" + path.read_bytes())
    for source in (path, tmp_path):
        assert [mail.subject for mail in open_source(source).mails] == ["S1", "S2"]


def test_kaggles_table_is_read_from_its_zip(tmp_path):
    table = 'file,message\nallen-p/sent/1.,"' + message(1).decode() + '"\n'
    found = open_source(zip_of(tmp_path / "archive.zip", {"emails.csv": table})).mails
    assert subjects_and_labels(found) == [("S1", "emails.csv::allen-p/sent/1.")]


def test_an_archive_in_a_folder_is_read_and_what_is_none_is_counted(tmp_path):
    root = tmp_path / "downloads"
    mbox_of(root / "old" / "Inbox", message(1))
    zip_of(root / "takeout-001.zip", {"Takeout/Mail/Sent.mbox": (root / "old" / "Inbox").read_bytes()})
    (root / "notes.zip").write_bytes(b"no archive")
    found = list(open_source(root).mails)
    assert Skip("notes.zip", SkipReason.UNREADABLE) in found
    assert subjects_and_labels(found) == [
        ("S1", "takeout-001.zip::Takeout/Mail/Sent.mbox/message 1"),
        ("S1", "old/Inbox/message 1"),
    ]


def encrypted(data):
    """The same archive with the bit set that says so, in the file's own header and in the directory."""
    for mark, offset in ((b"PK\x03\x04", 6), (b"PK\x01\x02", 8)):
        at = data.index(mark) + offset
        data = data[:at] + bytes([data[at] | 1]) + data[at + 1 :]
    return data


@pytest.mark.parametrize(
    ("damage", "words"),
    [
        (lambda data: data[: len(data) // 2], "whole zip archive"),
        (lambda data: data[:300] + bytes(100) + data[400:], "whole zip archive"),
        (encrypted, "is encrypted. Unpack it"),
    ],
)
def test_a_damaged_or_encrypted_archive_is_an_error_and_writes_nothing(tmp_path, damage, words):
    inbox = mbox_of(tmp_path / "made", *(message(n, body=f"{n}" * 50) for n in range(200))).read_bytes()
    path = zip_of(tmp_path / "takeout.zip", {"Inbox.mbox": inbox})
    path.write_bytes(damage(path.read_bytes()))
    result = CliRunner().invoke(main, [str(path), "--out", str(tmp_path / "mail.db")])
    assert result.exit_code == 1
    assert words in result.output
    assert not (tmp_path / "mail.db").exists()


def test_a_zip_bomb_is_refused(tmp_path, monkeypatch):
    monkeypatch.setattr("email_env.ingest.sources.zipped.FREE_BYTES", 1 << 20)
    path = zip_of(tmp_path / "bomb.zip", {"Inbox": bytes(1 << 24)})
    with pytest.raises(SourceError, match="decompression bomb"):
        list(open_source(path).mails)


def test_a_message_of_its_own_is_a_source(tmp_path):
    for name in ("one.eml", "saved message"):
        (tmp_path / name).write_bytes(message(1))
        assert subjects_and_labels(open_source(tmp_path / name).mails) == [("S1", name)]


STAMP = "Mon May 14 16:39:00 2001"


@pytest.mark.parametrize(
    "separators",
    [
        [f"From a@x.com {STAMP}", "From b@x.com", f"From - {STAMP}"],  # the second has no date
        ["From a@x.com 2001-05-14 16:39:00 +0200", f"From b@x.com {STAMP}", "From -"],  # dates of another form
        ["From MAILER-DAEMON", "From @", "From 1234@xxx Mon May 14 16:39:00 +0000 2001"],
    ],
)
@pytest.mark.parametrize("blank", ["\n", ""])
def test_an_mbox_is_split_as_the_standard_library_splits_it(tmp_path, separators, blank):
    """Where there is no blank line before a separator, only one with a date is taken."""
    separators = separators if blank else [f"From x@y.z {STAMP}"] * 3
    path = tmp_path / "Inbox"
    path.write_text(blank.join(f"{line}\n{message(n).decode()}" for n, line in enumerate(separators)))
    with closing(mailbox.mbox(path)) as box:
        assert [m["Subject"] for m in box] == ["S0", "S1", "S2"]
    source = open_source(path)
    assert [mail.subject for mail in source.mails] == ["S0", "S1", "S2"]
    assert source.notes == []


def test_lines_that_may_be_the_start_of_a_message_are_noted(tmp_path):
    text = "Hello\n\nFrom Monday on we meet at ten.\nFrom here to there\n"
    path = tmp_path / "Inbox.mbox"
    path.write_bytes(
        f"From a@x.com {STAMP}\n".encode() + message(0) + f"\nFrom - {STAMP}\n".encode() + message(1, body=text)
    )
    source = open_source(path)
    assert [mail.body for mail in source.mails] == ["Text.", text.strip()]
    assert source.notes == [
        f"{path}: lines that begin with 'From ' and do not look like the start of a message are taken for text: 2, the"
        " first in message 2. If mail is missing, export the mailbox again."
    ]
    result = CliRunner().invoke(main, [str(path), "--out", str(tmp_path / "mail.db")])
    assert f"Note: {source.notes[0]}\n" in result.stderr
    (folder := tmp_path / "folder").mkdir()
    path.rename(folder / "Inbox")
    source = open_source(folder)
    assert len(list(source.mails)) == 2
    assert source.notes[0].startswith("Inbox: lines that begin with 'From '")


def test_several_sources_go_into_one_database(tmp_path):
    archive = tar_of(tmp_path / "a.tar.gz", [("maildir/me/inbox/1.", message(1))])
    inbox = mbox_of(tmp_path / "b.mbox", message(2), message(1), b"no mail")
    box = mailbox.Maildir(tmp_path / "Maildir")
    box.add(message(3))
    (tmp_path / "empty.mbox").write_bytes(b"")
    sources = [archive, inbox, tmp_path / "Maildir", tmp_path / "empty.mbox"]
    out, skips = tmp_path / "mail.db", tmp_path / "skips.jsonl"
    arguments = [*sources, "--out", out, "--report", skips, "--json"]
    result = CliRunner().invoke(main, [str(argument) for argument in arguments])
    assert result.exit_code == 0, result.stderr
    report = json.loads(result.stdout)
    assert (report["read"], report["kept"]) == (5, 3)
    assert report["source"] == ", ".join(map(str, sources))
    assert result.stderr == f"Note: {tmp_path / 'empty.mbox'} has no mail.\n"
    assert [json.loads(line) for line in skips.read_text().splitlines()] == [
        {"source": "b.mbox::message 2", "reason": "duplicate_message_id"},
        {"source": "b.mbox::message 3", "reason": "no_addresses"},
    ]
    database = MailDatabase(out)
    assert database.metadata["command"] == f"build-enron-db {' '.join(map(str, sources))}"
    labels = sorted(label for (label,) in database.connection().execute("SELECT source FROM emails"))
    assert labels[0].startswith("Maildir::new/")
    assert labels[1:] == ["a.tar.gz::me/inbox/1.", "b.mbox::message 1"]
    database.close()


def test_saved_messages_named_one_by_one_are_one_mailbox(tmp_path):
    for n in range(12):
        (tmp_path / f"{n:02}.eml").write_bytes(raw(f"From: p{n}@x.com\nTo: ann@x.com\nSubject: S{n}"))
    (tmp_path / "12.eml").write_bytes(raw("From: q@x.com\nTo: undisclosed-recipients:;\nSubject: Secret"))
    files = sorted(tmp_path.glob("*.eml"))
    result = CliRunner().invoke(main, [*map(str, files), "--out", str(tmp_path / "mail.db"), "--json"])
    report = json.loads(result.stdout)
    assert report["source"] == ", ".join(map(str, files[:10])) + " and 3 more"
    assert [(owner["address"], owner["mails"]) for owner in report["owners"]] == [("ann@x.com", 13)]
    assert subjects_and_labels(open_sources(files).mails)[0] == ("S0", "00.eml")


def test_sources_of_one_name_are_told_apart_and_their_checksums_are_noted(tmp_path):
    paths = [mbox_of(tmp_path / name / "Inbox", message(name)) for name in ("ann", "ben")]
    source = open_sources(paths)
    assert source.checksum() == ""
    assert subjects_and_labels(source.mails) == [("Sann", f"{paths[0]}::message 1"), ("Sben", f"{paths[1]}::message 1")]
    assert source.position() == source.total() == 2000
    assert source.checksum() == " ".join(open_checksum(path) for path in paths)


def open_checksum(path):
    source = open_source(path)
    list(source.mails)
    return source.checksum()


def test_one_wrong_source_of_several_is_an_error_and_writes_nothing(tmp_path):
    inbox = mbox_of(tmp_path / "b.mbox", message(2))
    for wrong, words in (("nowhere.mbox", "No mail at"), ("b.mbox", "must be different files")):
        result = CliRunner().invoke(main, [str(inbox), str(tmp_path / wrong), "--out", str(tmp_path / "mail.db")])
        assert result.exit_code != 0
        assert words in result.output
        assert not (tmp_path / "mail.db").exists()

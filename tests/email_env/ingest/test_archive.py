"""Tar and zip archives: read without unpacking, however large, hostile or damaged they are."""

import bz2
import gzip
import io
import tarfile
import tracemalloc

import pytest

from email_env.errors import SourceError
from email_env.ingest.sources import open_source
from email_env.mail import Skip, SkipReason
from tests.email_env.mails import mbox_of, message, raw, run, subjects_and_labels, tar_of, zip_of


def read_all(spec):
    return list(open_source(spec).mails)


@pytest.fixture
def inbox(tmp_path):
    return mbox_of(tmp_path / "made.mbox", *(message(n) for n in range(1, 34))).read_bytes()


@pytest.mark.parametrize(("suffix", "mode"), [(".tar.gz", "w:gz"), (".tgz", "w:gz"), (".tar", "w")])
def test_an_archive_is_read_without_unpacking(tmp_path, suffix, mode):
    members = [(f"maildir/allen-p/inbox/{n}.", raw(f"From: a@x.com\nSubject: {n}")) for n in range(5)]
    source = open_source(tar_of(tmp_path / f"mail{suffix}", members, mode))
    found = list(source.mails)
    assert [(m.subject, m.source) for m in found] == [(str(n), f"allen-p/inbox/{n}.") for n in range(5)]
    assert source.position() == source.total() > 0
    assert len(list(tmp_path.iterdir())) == 1


def test_takeouts_archive_is_read_without_unpacking(tmp_path, inbox):
    members = {
        "Takeout/Mail/All mail Including Spam and Trash.mbox": inbox,
        "Takeout/archive_browser.html": b"<html>",
        "Takeout/Pay/activity.csv": b"Time,Amount\n1,2\n",
        "lists/2024-June.txt.gz": gzip.compress(b"\n" + inbox),
        "kaggle/emails.csv": b'file,message\nallen-p/sent/1.,"' + message(1) + b'"\n',
    }
    for path in (zip_of(tmp_path / "a.zip", members), tar_of(tmp_path / "a.tgz", members.items())):
        source = open_source(path)
        found = list(source.mails)
        label = "Takeout/Mail/All mail Including Spam and Trash.mbox"
        assert subjects_and_labels(found) == [
            *((f"S{n}", f"{label}/message {n}") for n in range(1, 34)),
            ("", "Takeout/archive_browser.html"),
            *((f"S{n}", f"lists/2024-June.txt.gz/message {n}") for n in range(1, 34)),
            ("S1", "kaggle/emails.csv::allen-p/sent/1."),
        ]
        assert Skip("Takeout/Pay/activity.csv", SkipReason.UNREADABLE) in found
        assert source.position() == source.total() > 0


def test_an_mbox_in_an_archive_may_be_larger_than_a_message(tmp_path, inbox, monkeypatch):
    monkeypatch.setattr("email_env.ingest.sources.source.MAX_MESSAGE_BYTES", 1000)
    members = {"Inbox": inbox, "big.eml": message(20, body="x" * 1000), "z.eml": message(2)}
    for path in (zip_of(tmp_path / "a.zip", members), tar_of(tmp_path / "a.tar.gz", members.items())):
        *mails, big, last = read_all(path)
        assert [mail.subject for mail in mails] == [f"S{n}" for n in range(1, 34)]
        assert (big, last.subject) == (Skip("big.eml", SkipReason.TOO_LARGE), "S2")


def test_links_devices_and_paths_that_lead_outside_do_no_harm(tmp_path):
    link, device = tarfile.TarInfo("maildir/a/link"), tarfile.TarInfo("maildir/a/null")
    link.type, link.linkname = tarfile.SYMTYPE, "/etc/passwd"
    device.type = tarfile.CHRTYPE
    members = [(link, b""), (device, b""), ("../../evil", raw("From: a@x.com")), ("/abs", raw("From: b@x.com"))]
    first, second, third, fourth = read_all(tar_of(tmp_path / "mail.tar", members, "w"))
    assert first == Skip("a/link", SkipReason.UNREADABLE)
    assert second == Skip("a/null", SkipReason.UNREADABLE)
    assert (third.from_addr, fourth.from_addr) == ("a@x.com", "b@x.com")
    assert [p.name for p in tmp_path.iterdir()] == ["mail.tar"]


def encrypted(data):
    """The same archive with the bit set that says so, in the file's own header and in the directory."""
    for mark, offset in ((b"PK\x03\x04", 6), (b"PK\x01\x02", 8)):
        at = data.index(mark) + offset
        data = data[:at] + bytes([data[at] | 1]) + data[at + 1 :]
    return data


def half(data):
    return data[: len(data) // 2]


def begun(data):
    return data[:20]


def to_the_last_block(data):
    """A tar archive without its end mark."""
    return data[: data.rindex(b"\n") // tarfile.BLOCKSIZE * tarfile.BLOCKSIZE + tarfile.BLOCKSIZE]


@pytest.mark.parametrize("in_folder", [False, True])
@pytest.mark.parametrize(
    ("name", "damage", "words"),
    [
        ("a.zip", half, "is it a whole zip archive?"),
        ("a.zip", begun, "is it a whole zip archive?"),
        ("a.zip", lambda data: data[:300] + bytes(100) + data[400:], "is it a whole zip archive?"),
        ("a.zip", encrypted, "is encrypted. Unpack it"),
        ("a.tgz", half, "is it a whole"),
        ("a.tgz", begun, "is it a whole"),
        ("a.tgz", lambda data: data[:5], "is it a whole"),
        ("a.tgz", lambda data: data[:-1], "is it a whole"),
        ("a.tar", lambda data: data[:1000], "is it a whole tar archive?"),
        ("a.tar", lambda data: data[:300], "is it a whole tar archive?"),
        ("a.tar", to_the_last_block, "(its end is missing); is it a whole tar archive?"),
        ("a.mbox.gz", begun, "is it a whole gzip file?"),
        ("a.mbox.gz", lambda data: data[:-9], "end-of-stream marker was reached); is it a whole gzip file?"),
        ("a.mbox.gz", lambda data: data[:-8] + bytes(8), "CRC check failed"),
        ("nameless", half, "is it a whole gzip file?"),
        ("within.zip", lambda data: data[:-20], "'june.mbox.gz' cannot be read to its end"),
        ("within.tgz", lambda data: data[:-20], "'june.mbox.gz' cannot be read to its end"),
    ],
)
def test_a_damaged_or_encrypted_file_is_an_error_alone_and_in_a_folder_and_writes_nothing(
    tmp_path, name, damage, words, in_folder
):
    inbox = mbox_of(tmp_path / "made", *(message(n, body=f"{n}" * 50) for n in range(200))).read_bytes()
    path = tmp_path / "export" / name
    mbox_of(path.parent / "Sent", message(1))
    if name.startswith("within"):
        inbox, member, kept = damage(gzip.compress(inbox)), "june.mbox.gz", bytes
    else:
        member, kept = "Inbox", damage
    if name.endswith(".zip"):
        whole = zip_of(path, {member: inbox}).read_bytes()
    elif name.endswith((".tgz", ".tar")):
        whole = tar_of(path, [(member, inbox)], "w" if name.endswith("tar") else "w:gz").read_bytes()
    else:
        whole = gzip.compress(inbox)
    path.write_bytes(kept(whole))
    source = path.parent if in_folder else path
    result = run(source, "--out", tmp_path / "out" / "mail.db")
    assert result.exit_code == 1
    assert words in result.stderr
    assert name.startswith("within") or f"Error: {str(path)!r} " in result.stderr
    assert list(tmp_path.glob("out/*")) == []


@pytest.mark.parametrize("name", ["bomb.tar.gz", "bomb.mbox.gz", "bomb.zip"])
def test_what_expands_without_end_is_refused(tmp_path, inbox, monkeypatch, name):
    path = tmp_path / name
    for module in ("stream", "archive"):
        monkeypatch.setattr(f"email_env.ingest.sources.{module}.FREE_BYTES", 1 << 20)
    if name == "bomb.zip":
        zip_of(path, {"Inbox": bytes(20 << 20)})
    elif name == "bomb.tar.gz":
        tar_of(path, [(f"a/{n}.", bytes(1 << 20)) for n in range(20)])
    else:
        path.write_bytes(gzip.compress(inbox + bytes(20 << 20)))
    with pytest.raises(SourceError, match="expands more than 200-fold"):
        read_all(path)


@pytest.mark.parametrize("kind", [tarfile.GNUTYPE_LONGNAME, tarfile.XHDTYPE, tarfile.XGLTYPE])
def test_a_header_without_end_is_refused_before_it_fills_the_memory(tmp_path, kind):
    header = tarfile.TarInfo("a/1.")
    header.type = kind
    path = tar_of(tmp_path / "mail.tar.gz", [(header, b"x" * (50 << 20))])
    tracemalloc.start()
    with pytest.raises(SourceError, match="a header takes more than 1,048,576 bytes"):
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
    result = run(path, "--out", tmp_path / "mail.db")
    assert "left out  8 packed\n" in result.stdout
    assert f"Note: {source.notes[0]}\n" in result.stderr


def test_a_file_of_outlook_among_others_is_told_with_what_reads_it(tmp_path):
    (tmp_path / "a.eml").write_bytes(message(1))
    (tmp_path / "old.pst").write_bytes(b"!BDN" + bytes(100))
    source = open_source(tmp_path)
    assert [*source.mails][1:] == [Skip("old.pst", SkipReason.PACKED)]
    assert source.notes[0].endswith(
        "name what comes out. readpst makes mbox files of a .pst, and msgconvert an .eml of a .msg."
    )

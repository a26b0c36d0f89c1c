"""Mbox files: where a message begins, what is text, and what was deleted."""

import io
import json
import mailbox
import sqlite3
from contextlib import closing

import pytest

from email_env.ingest.sources import open_source
from email_env.ingest.sources.mbox import mbox_mails
from email_env.mail import RawMail, Skip, SkipReason
from tests.email_env.mails import mbox_of, message, raw, run

STAMP = "Mon May 14 16:39:00 2001"


def test_an_mbox_of_the_standard_library_is_read_back_message_by_message(tmp_path):
    path = tmp_path / "archive.mbox"
    box = mailbox.mbox(path)
    bodies = ["One\n", "Two\n\nFrom here to there\nFrom: not a header\n", "Three\n\n\n", ""]
    for number, body in enumerate(bodies):
        box.add(raw(f"From: a{number}@x.com\nSubject: S{number}", body))
    box.close()
    assert [(m.from_addr, m.body, m.source) for m in open_source(path).mails] == [
        (f"a{n}@x.com", body.rstrip("\n"), f"message {n + 1}") for n, body in enumerate(bodies)
    ]


def test_a_line_of_text_that_begins_with_from_starts_no_message(tmp_path):
    path = tmp_path / "Inbox"
    path.write_bytes(
        b"From MAILER-DAEMON Mon May 14 16:39:00 2001\r\nFrom: a@x.com\r\n\r\nHello\r\n\r\n"
        b"From Monday on we meet at 10:30 in 2001.\r\n>From a friend\r\n>>From both\r\n\r\n"
        b"From 123@xxx Mon May 14 16:39:00 +0000 2001\r\nFrom: b@x.com\r\n\r\nBye\r\n"
    )
    first, second = open_source(path).mails
    assert first.body == "Hello\n\nFrom Monday on we meet at 10:30 in 2001.\nFrom a friend\n>From both"
    assert (second.from_addr, second.body) == ("b@x.com", "Bye")


DATED = [
    "From a@x.com Mon May 14 16:39:00 2001",
    "From 1799@xxx Mon May 14 16:39:00 +0000 2001",  # Gmail
    "From MAILER-DAEMON Mon May  7 16:39 2001",
    "From - Mon May 07 16:39:00 2001",  # Thunderbird until 2023
    "From a Mon May 14 16:39:00 2001 remote from b",
]
UNDATED = [
    "From ",  # Thunderbird
    "From",
    "From -",
    "From a@x.com",
    "From Anna Keller <a@x.com>",
    "From a@x.com 14.05.2001 16:39",
    "From a@x.com lun. mai 14 16:39:00 2001",
    "From a@x.com 990000000",
    "From 4a5b6c7d8e9fa0b1c2d3e4f5a6b7c8d9e0f1a2b3",
]


@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"])
@pytest.mark.parametrize("blank", [True, False])
@pytest.mark.parametrize("separator", [*DATED, *UNDATED])
def test_every_separator_with_a_header_block_behind_it_starts_a_message(tmp_path, separator, blank, end):
    path = tmp_path / "Inbox"
    lines = []
    for number in range(3):
        lines += [separator, f"Subject: S{number}", f"Message-ID: <{number}@x>", "From: a@x.com", "", f"Text {number}."]
        lines += [""] * blank
    path.write_bytes("".join(line + end for line in lines).encode())
    source = open_source(path)
    assert [(mail.subject, mail.body) for mail in source.mails] == [(f"S{n}", f"Text {n}.") for n in range(3)]
    assert source.notes == []


@pytest.mark.parametrize("separator", DATED)
def test_the_standard_library_splits_at_the_same_separators(tmp_path, separator):
    path = tmp_path / "Inbox"
    path.write_text("\n".join(f"{separator}\n{message(n).decode()}" for n in range(3)))
    with closing(mailbox.mbox(path)) as box:
        assert [mail["Subject"] for mail in box] == [mail.subject for mail in open_source(path).mails]


@pytest.mark.parametrize(
    "line",
    [
        "From Monday on we meet at ten.",
        "From our side:\nPrice: 100\nQuantity: 3\n",
        "From the desk of Anna\nTo: all\nSubject: Lunch\nDate: Monday\n",
        "From a@x.com Mon May 14 16:39:00 2001\nis how a separator looks.",
        "From a@x.com Mon May 14 16:39:00 2001\nis how one looks with\nSubject: Lunch\n\nFrom: below it",
        "From a@x.com Mon May 14 16:39:00 2001\nNote: this is how a separator looks.\n",
        "From a@x.com Mon May 14 16:39:00 2001\n\nThe line above is a separator.",
        "From: Anna\nMessage-ID: <1@x>",
        "From",
        "Fromage\nMessage-ID: <1@x>",
    ],
)
@pytest.mark.parametrize("before", ["Hello\n\n", "Hello\n"])
def test_a_line_of_text_that_only_looks_like_a_separator_stays_text(tmp_path, line, before):
    path = tmp_path / "Inbox"
    text = f"{before}{line}\n\nBye"
    path.write_bytes(f"From a@x.com {STAMP}\n".encode() + message(0, body=text) + b"\nFrom \n" + message(1))
    assert [(mail.subject, mail.body) for mail in open_source(path).mails] == [("S0", text), ("S1", "Text.")]


def test_without_a_blank_line_a_field_that_people_write_too_is_no_header_block(tmp_path):
    path = tmp_path / "Inbox"
    text = f"It began with\nFrom b@x.com {STAMP}\nSubject: Lunch\nTo: all\n\nBye"
    path.write_bytes(f"From a@x.com {STAMP}\n".encode() + message(0, body=text))
    assert [mail.body for mail in open_source(path).mails] == [text]


@pytest.mark.parametrize(
    "before",
    [
        b"\n\r\n",
        b">From a@x.com Mon May 14 16:39:00 2001\n",
        b">From - Mon May 14 16:39:00 2001\n>>From a@x.com Mon May 14 16:39:00 2001\n",
        b"a line that is no header\n",
    ],
)
def test_what_stands_between_a_separator_and_the_headers_hides_no_message(tmp_path, before):
    path = tmp_path / "Inbox"
    path.write_bytes(b"\n".join(f"From a@x.com {STAMP}\n".encode() + before + message(n) for n in range(3)))
    assert [(mail.subject, mail.from_addr) for mail in open_source(path).mails] == [
        (f"S{n}", "a@x.com") for n in range(3)
    ]


def test_what_stands_before_the_first_separator_is_a_message_too(tmp_path):
    path = tmp_path / "Old.mbox"
    path.write_bytes(message(0) + b"\nFrom \n" + message(1))
    assert [mail.subject for mail in open_source(path).mails] == ["S0", "S1"]
    assert [mail.source for mail in open_source(tmp_path).mails] == ["Old.mbox/message 1", "Old.mbox/message 2"]


class Counted(io.BytesIO):
    calls = 0

    def readline(self, *limit):
        self.calls += 1
        return super().readline(*limit)


@pytest.mark.parametrize(
    "lines",
    [
        [b"From \n"],
        [b"From \n", b"a: b\n"],
        [b"From \n", *[b"a: b\n"] * 99],
        [b"From \n", b">From \n"],
        [b"From - Mon May 14 16:39:00 2001\n", b"\n", b"text\n"],
    ],
)
def test_every_line_is_read_once_whatever_lines_look_like_separators(lines):
    data = b"From - Mon May 14 16:39:00 2001\nTo: a@x.com\n\n" + b"".join(lines * (20_000 // len(lines)))
    handle = Counted(data)
    assert len([entry for entry in mbox_mails("mbox", handle) if isinstance(entry, RawMail)]) == 1
    assert handle.calls <= data.count(b"\n") + 2


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
    result = run(path, "--out", tmp_path / "mail.db")
    assert f"Note: {source.notes[0]}\n" in result.stderr


def test_a_message_too_large_is_skipped_and_the_next_one_read(tmp_path, monkeypatch):
    monkeypatch.setattr("email_env.ingest.sources.source.MAX_MESSAGE_BYTES", 1000)
    first, second = open_source(mbox_of(tmp_path / "mail.mbox", message(1, body="x" * 2000), message(2))).mails
    assert (first, second.subject) == (Skip("message 1", SkipReason.TOO_LARGE), "S2")


def test_what_thunderbird_deleted_or_changed_is_left_out_and_the_newest_draft_counts(tmp_path):
    path = mbox_of(tmp_path / "Drafts", *(
        f"X-UIDL: {place}\nX-Mozilla-Status: {status}\nX-Mozilla-Status2: 00000000\n".encode() * bool(status)
        + message(number, body=f"Draft {place}")
        for place, (status, number) in enumerate([("0009", 1), ("0001", 1), ("0018", 2), ("0001", 3), ("", 4)])
    ))  # fmt: skip
    report = json.loads(run(path, "--out", tmp_path / "mail.db", "--json").stdout)
    assert report["skipped"] == {"deleted": 2}
    with closing(sqlite3.connect(tmp_path / "mail.db")) as database:
        bodies = [body for (body,) in database.execute("SELECT body FROM emails ORDER BY body")]
    assert bodies == ["Draft 1", "Draft 3", "Draft 4"]


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

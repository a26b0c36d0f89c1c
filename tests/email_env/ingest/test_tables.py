"""Tables of mail: CSV of whole messages, and records in JSONL and Parquet."""

import csv
import hashlib
import json
import sys
from datetime import UTC, datetime, timedelta, timezone

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from email_env.errors import SourceError
from email_env.ingest.sources import open_source
from email_env.ingest.sources.tables import record_mail
from email_env.mail import ParsedMail, Skip, SkipReason
from tests.email_env.ingest.test_parse import check_storable

ROW = {
    "message_id": "<18.107@thyme>",
    "subject": "Our\n forecast",
    "from": "Anna.Keller@X.com",
    "to": ["ben@x.com", "CARO@x.com", "ben@x.com"],
    "cc": ["dan@y.org", "ben@x.com"],
    "bcc": ["dan@y.org"],
    "date": "2001-05-14T23:39:00",
    "body": "Here it is.\r\n\r\nAnna\n",
    "file_name": "keller-a/sent/1.",
}
MAIL = ParsedMail(
    message_id="18.107@thyme",
    sent_at="2001-05-14T23:39:00Z",
    date_ok=True,
    from_addr="anna.keller@x.com",
    from_name="",
    to=("ben@x.com", "caro@x.com"),
    cc=("dan@y.org",),
    bcc=(),
    subject="Our forecast",
    body="Here it is.\n\nAnna",
    source="keller-a/sent/1.",
)


def test_the_table_of_kaggle_is_read(tmp_path):
    path = tmp_path / "emails.csv"
    long = "x" * 200_000
    with path.open("w", newline="", encoding="utf-8") as handle:
        writer = csv.writer(handle)
        writer.writerow(["file", "message"])
        writer.writerow(["allen-p/sent/1.", 'From: a@x.com\nSubject: "Quotes", commas\n\nOne\nüöä\n'])
        writer.writerow(["allen-p/sent/2.", f"From: b@x.com\n\n{long}"])
        writer.writerow(["only one field"])
    first, second, third = list(open_source(path).mails)
    assert (first.source, first.subject, first.body) == ("allen-p/sent/1.", '"Quotes", commas', "One\nüöä")
    assert second.body == long
    assert third == Skip("only one field", SkipReason.UNREADABLE)


def test_bytes_of_a_table_that_are_not_utf8_survive(tmp_path):
    path = tmp_path / "emails.csv"
    path.write_bytes(b'\xef\xbb\xbfmessage\n"From: a@x.com\nSubject: Caf\xe9\n\nx\x00y"\n')
    (only,) = list(open_source(path).mails)
    assert (only.subject, only.body, only.source) == ("Café", "xy", "line 5")


def jsonl(path, *rows):
    path.write_text("\n".join(row if isinstance(row, str) else json.dumps(row) for row in rows) + "\n")
    return path


def test_a_record_becomes_the_mail_that_its_message_would():
    assert record_mail(ROW, "row 1") == MAIL
    named = record_mail(ROW | {"to": ["Keller, Anna", "Lee, Bo <bo@x.com>"], "cc": "dan@y.org, ben@x.com"}, "row 1")
    assert isinstance(named, ParsedMail)
    assert (named.to, named.cc) == (("anna.keller", "bo@x.com"), ("dan@y.org", "ben@x.com"))


@pytest.mark.parametrize(
    ("value", "sent_at", "sure"),
    [
        (datetime(2001, 5, 14, 23, 39), "2001-05-14T23:39:00Z", True),
        (datetime(2001, 5, 14, 16, 39, tzinfo=timezone(timedelta(hours=-7))), "2001-05-14T16:39:00-07:00", True),
        (datetime(1, 1, 1, tzinfo=timezone(timedelta(hours=14))), "0001-01-01T00:00:00+14:00", False),
        (datetime(1979, 12, 31, tzinfo=UTC), "1979-12-31T00:00:00Z", False),
        (datetime(2001, 5, 14).date(), "2001-05-14T00:00:00Z", True),
        (None, "1970-01-01T00:00:00Z", False),
    ],
)
def test_dates_of_records_keep_their_zone_and_lost_ones_are_marked(value, sent_at, sure):
    parsed = record_mail({**ROW, "date": value}, "row 1")
    assert (parsed.sent_at, parsed.date_ok) == (sent_at, sure)


def test_lines_that_are_no_records_are_counted_skips(tmp_path, monkeypatch):
    monkeypatch.setattr("email_env.ingest.sources.source.MAX_MESSAGE_BYTES", 1000)
    monkeypatch.setattr("email_env.ingest.sources.tables.MAX_MESSAGE_BYTES", 1000)
    nameless, large = {**ROW, "file_name": None, "cc": None}, {**ROW, "body": "x" * 5000}
    path = jsonl(tmp_path / "mail.jsonl", ROW, "", "[1]", "{half", nameless, "[" * 900, large, ROW)
    first, *others, last = open_source(path).mails
    assert first == last == MAIL
    assert [(m.source, m.reason.value if isinstance(m, Skip) else "") for m in others] == [
        ("line 3", "unreadable"), ("line 4", "unreadable"), ("line 5", ""), ("line 6", "unreadable"), ("line 7", "too_large"),
    ]  # fmt: skip


def test_records_of_another_schema_are_an_error_that_names_the_columns(tmp_path):
    path = jsonl(tmp_path / "mail.jsonl", {"id": 1, "subject": "S", "from": "a@x.com"})
    with pytest.raises(SourceError, match=r"no column message_id, to, date, body; it has id, subject, from"):
        list(open_source(path).mails)


def parquet(path, *rows):
    pyarrow = pytest.importorskip("pyarrow", reason="Parquet needs pyarrow (install the extra 'hub')")
    from pyarrow import parquet as files

    files.write_table(pyarrow.Table.from_pylist(list(rows)), path)
    return path


def test_a_parquet_file_is_read_with_its_checksum(tmp_path):
    sent = datetime(2001, 5, 14, 23, 39)
    rows = [{**ROW, "date": sent, "file_name": f"{n}."} for n in range(2500)]
    source = open_source(parquet(tmp_path / "mail.parquet", *rows))
    first = next(source.mails)
    assert source.checksum() == ""
    rest = list(source.mails)
    assert [m.source for m in (first, *rest)] == [f"{n}." for n in range(2500)]
    assert rest[-1].sent_at == "2001-05-14T23:39:00Z"
    assert source.position() == source.total() == (tmp_path / "mail.parquet").stat().st_size
    assert source.checksum() == hashlib.sha256((tmp_path / "mail.parquet").read_bytes()).hexdigest()


def test_a_damaged_parquet_file_is_an_error(tmp_path):
    path = parquet(tmp_path / "mail.parquet", ROW)
    path.write_bytes(path.read_bytes()[:-20])
    with pytest.raises(SourceError, match="cannot be read as Parquet"):
        list(open_source(path).mails)


def test_without_pyarrow_a_parquet_file_says_what_to_install(tmp_path, monkeypatch):
    path = tmp_path / "mail.parquet"
    path.touch()
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(SourceError, match=r"pip install 'email-rl\[hub\]'"):
        list(open_source(path).mails)


anything = st.none() | st.text(max_size=20) | st.integers() | st.lists(st.text(max_size=20), max_size=3)


@settings(max_examples=300, deadline=None)
@given(st.fixed_dictionaries(dict.fromkeys(ROW, anything)))
def test_any_values_give_a_message(row):
    check_storable(record_mail(row, "row 1"))

import csv
import io

import pytest
from hypothesis import given
from hypothesis import strategies as st

from email_env.ingest.sources import open_source, table
from email_env.ingest.sources.source import storable
from email_env.mail import RawMail, Skip, SkipReason


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
    path.write_bytes(b'file,message\n1,"From: a@x.com\nSubject: Caf\xe9\n\nx\x00y"\n')
    (only,) = list(open_source(path).mails)
    assert (only.subject, only.body) == ("Café", "xy")


CELLS = st.lists(st.sampled_from([b'"', b'""', b',"', b'",', b",", b"\n", b"\r\n", b"a", b"\xff", b'"\n', b'm,"x']))


@given(CELLS.map(b"".join), st.integers(1, 40), st.sampled_from([b"file,message\n", b"message,file\n"]))
def test_rows_are_those_that_the_csv_module_reads(data, block_bytes, head):
    rows = csv.reader(io.TextIOWrapper(io.BytesIO(data), "utf-8", "surrogateescape", newline=""))
    columns = (0, 1) if head.startswith(b"file") else (1, 0)
    expected = [[row[at] for at in columns] if len(row) == 2 else None for row in rows]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(table, "_BLOCK_BYTES", block_bytes)
        found = list(table.csv_mails("x", io.BytesIO(head + data)))
    assert [(m.source, m.data) if isinstance(m, RawMail) else None for m in found] == [
        row and (storable(row[0]), row[1].encode("utf-8", "surrogateescape")) for row in expected
    ]

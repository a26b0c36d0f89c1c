"""The reference form of the database, after ART-E's: what `email_env` is measured against.

External-content FTS5 over subject and body, filled row by row, with indexes and triggers made afterwards; one table of
recipients asked with EXISTS; `ORDER BY date DESC LIMIT`. Mail of the table is parsed by the standard library's `email`.
The one addition is the order of mail of the same second, by id, so that both forms must answer alike.
"""

import csv
import email
import sqlite3
from collections.abc import Iterable, Iterator
from email.utils import getaddresses, parsedate_to_datetime
from pathlib import Path
from typing import Any

from bench.searches import Question
from email_env.mail import ParsedMail

MAX_BODY_CHARS, MAX_RECIPIENTS = 5000, 30
_TABLES = """
    CREATE TABLE emails (
        id INTEGER PRIMARY KEY AUTOINCREMENT, message_id TEXT UNIQUE, subject TEXT, from_address TEXT, date TEXT,
        body TEXT, file_name TEXT
    );
    CREATE TABLE recipients (email_id INTEGER, recipient_address TEXT, recipient_type TEXT);
"""
_AFTERWARDS = """
    CREATE INDEX emails_from ON emails (from_address);
    CREATE INDEX emails_date ON emails (date);
    CREATE INDEX emails_message_id ON emails (message_id);
    CREATE INDEX recipients_address ON recipients (recipient_address);
    CREATE INDEX recipients_type ON recipients (recipient_type);
    CREATE INDEX recipients_email ON recipients (email_id);
    CREATE INDEX recipients_both ON recipients (recipient_address, email_id);
    CREATE VIRTUAL TABLE emails_fts USING fts5(subject, body, content='emails', content_rowid='id');
    CREATE TRIGGER emails_added AFTER INSERT ON emails BEGIN
        INSERT INTO emails_fts (rowid, subject, body) VALUES (new.id, new.subject, new.body);
    END;
    CREATE TRIGGER emails_removed AFTER DELETE ON emails BEGIN DELETE FROM emails_fts WHERE rowid = old.id; END;
    CREATE TRIGGER emails_changed AFTER UPDATE ON emails BEGIN
        UPDATE emails_fts SET subject = new.subject, body = new.body WHERE rowid = old.id;
    END;
    INSERT INTO emails_fts (emails_fts) VALUES ('rebuild');
"""
_RECEIVED = "EXISTS (SELECT 1 FROM recipients AS r WHERE r.recipient_address = ? AND r.email_id = e.id)"


def parsed(path: Path) -> Iterator[ParsedMail]:
    """The table's mail."""
    csv.field_size_limit(2**31 - 1)
    with path.open(newline="", encoding="utf-8") as handle:
        for row in csv.DictReader(handle):
            yield ParsedMail(**_parsed(row["message"]), date_ok=True, from_name="", source=row["file"])


def _parsed(message: str) -> dict[str, Any]:
    mail = email.message_from_string(message)
    body = mail.get_payload(decode=True)
    assert isinstance(body, bytes)
    return {
        "message_id": mail["message-id"].strip().strip("<>"),
        "sent_at": parsedate_to_datetime(mail["date"]).isoformat(),
        "from_addr": getaddresses([mail["from"]])[0][1].lower(),
        **{name: _addresses(getaddresses(mail.get_all(name, []))) for name in ("to", "cc", "bcc")},
        "subject": " ".join((mail["subject"] or "").split()),
        "body": body.decode("ascii").strip(),
    }


def _addresses(people: Iterable[tuple[str, str]]) -> tuple[str, ...]:
    return tuple(address.lower() for _, address in people)


def build(mails: Iterable[ParsedMail], out: Path) -> None:
    """Writes the database row by row, leaving out long bodies, mail to many, and copies."""
    connection = sqlite3.connect(out)
    connection.executescript(_TABLES)
    connection.execute("PRAGMA synchronous = OFF")
    connection.execute("PRAGMA journal_mode = MEMORY")
    connection.execute("BEGIN")
    cursor = connection.cursor()
    seen: set[tuple[str, str, str]] = set()
    for mail in mails:
        if len(mail.body) > MAX_BODY_CHARS or len(mail.to) + len(mail.cc) + len(mail.bcc) > MAX_RECIPIENTS:
            continue
        key = (mail.subject, mail.body, mail.from_addr)
        if key in seen:
            continue
        seen.add(key)
        cursor.execute(
            "INSERT INTO emails (message_id, subject, from_address, date, body, file_name) VALUES (?, ?, ?, ?, ?, ?)",
            (mail.message_id, mail.subject, mail.from_addr, mail.sent_at, mail.body, mail.source),
        )
        number = cursor.lastrowid
        received = (("to", mail.to), ("cc", mail.cc), ("bcc", mail.bcc))
        rows = [(number, address, kind) for kind, addresses in received for address in addresses]
        if rows:
            cursor.executemany("INSERT INTO recipients VALUES (?, ?, ?)", rows)
    connection.commit()
    connection.executescript(_AFTERWARDS)
    connection.commit()
    connection.close()


def connect(path: Path) -> sqlite3.Connection:
    """A connection as ART-E's tools open one."""
    return sqlite3.connect(f"file:{path}?mode=ro", uri=True)


def search(connection: sqlite3.Connection, question: Question) -> list[tuple[str, str]]:
    """(message id, snippet) of the newest mails that answer the question."""
    where = ["f.emails_fts MATCH ?", f"(e.from_address = ? OR {_RECEIVED})", "e.date < ?"]
    words = " ".join('"' + keyword.replace('"', '""') + '"' for keyword in question.keywords)
    values: list[object] = [words, question.inbox, question.inbox, f"{question.until}T24"]
    for value, clause, suffix in (
        (question.from_addr, "e.from_address = ?", ""),
        (question.to_addr, _RECEIVED, ""),
        (question.sent_after, "e.date >= ?", "T00:00:00Z"),
        (question.sent_before, "e.date < ?", "T00:00:00Z"),
    ):
        if value is not None:
            where.append(clause)
            values.append(value + suffix)
    return connection.execute(
        "SELECT e.message_id, snippet(emails_fts, -1, '<b>', '</b>', ' ... ', 15)"
        " FROM emails AS e JOIN emails_fts AS f ON e.id = f.rowid"
        f" WHERE {' AND '.join(where)} ORDER BY e.date DESC, e.message_id LIMIT ?",
        (*values, question.max_results),
    ).fetchall()

"""The waiting room of a build: mail in the order of its source, as far as the filters let it in.

`Staging` keeps digests, ids and addresses in memory, and the mail itself in a temporary table.
"""

from __future__ import annotations

import sqlite3
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from hashlib import blake2b
from typing import Any

from email_env.ingest.people import People
from email_env.mail import ParsedMail, Skip, SkipReason
from email_env.search.query import who, whose

COLUMNS = (
    "message_id, sent_at, date_ok, from_addr, from_name, to_addrs, cc_addrs, bcc_addrs, subject, attachments, body,"
    " who, source"
)
_BATCH = 500
_TABLE = """
    CREATE TEMP TABLE staged (
        digest BLOB, message_id TEXT, sent_at TEXT, who TEXT, date_ok INTEGER, from_addr TEXT, from_name TEXT,
        to_addrs TEXT, cc_addrs TEXT, bcc_addrs TEXT, subject TEXT, attachments TEXT, source TEXT, body TEXT
    )
"""  # the columns that drop_duplicates reads come first: SQLite reads through a long body to reach what lies behind it


@dataclass(frozen=True, slots=True)
class Filters:
    """Which mail is left out of the database on purpose. `None`, False and () switch a filter off.

    `inboxes` are lower-case addresses; if there are any, only mail that they sent or received is taken. The other
    filters never leave out the evidence of a scenario. The text of attachments is no part of the body that is measured.
    """

    max_body_chars: int | None = 5000
    max_recipients: int | None = 30
    drop_duplicates: bool = True
    inboxes: tuple[str, ...] = ()


class Staging:
    """Takes mail into the temporary table `staged` and counts what it leaves out."""

    def __init__(
        self,
        connection: sqlite3.Connection,
        filters: Filters,
        evidence: set[str],
        progress: Callable[[int, int], None] | None,
        on_skip: Callable[[Skip], None] | None,
    ) -> None:
        connection.execute(_TABLE)
        self.connection = connection
        self.filters = filters
        self.evidence = evidence
        self.progress = progress
        self.on_skip = on_skip
        self.read = 0
        self.skipped: Counter[SkipReason] = Counter()
        self.people = People()
        self._ids_seen: set[bytes] = set()
        self._lowest_ids: dict[bytes, str] = {}

    def run(self, mails: Iterable[ParsedMail | Skip]) -> None:
        """Takes all of `mails`."""
        batch: list[tuple[Any, ...]] = []
        insert = f"INSERT INTO staged ({COLUMNS}, digest) VALUES ({', '.join('?' * 14)})"
        for mail in mails:
            self.read += 1
            if isinstance(mail, Skip):
                self._skip(mail.source, mail.reason)
            elif reason := self._unwanted(mail):
                self._skip(mail.source, reason)
            else:
                content = _digest(mail)
                if self.filters.drop_duplicates and self._is_surplus(mail, content):
                    self._skip(mail.source, SkipReason.DUPLICATE_CONTENT)
                else:
                    batch.append(self._row(mail, content))
            if len(batch) >= _BATCH:
                self.connection.executemany(insert, batch)
                batch.clear()
            if self.progress and self.read % _BATCH == 0:
                self.progress(self.read, self.skipped.total())
        self.connection.executemany(insert, batch)
        self._ids_seen.clear()  # of 500,000 mails 40 MB, which the index needs next
        self._lowest_ids.clear()
        if self.progress:
            self.progress(self.read, self.skipped.total())

    def drop_duplicates(self) -> None:
        """Drops a mail if everyone on it has another with the same sender, subject and body that was not sent later.

        So on no day does an inbox lose a text, and the outcome does not depend on the order of the source.
        """
        copies = self.connection.execute(
            "SELECT rowid, digest, who, message_id, source FROM staged WHERE digest IN"
            " (SELECT digest FROM staged GROUP BY digest HAVING count(*) > 1)"
            " ORDER BY digest, datetime(sent_at), message_id"
        )
        surplus: list[tuple[int]] = []
        current, served = b"", set[str]()
        for rowid, digest, tokens, message_id, source in copies:
            people = {token for token in tokens.split() if token[1] != "p"}
            if digest != current:
                current, served = digest, set()
            if people <= served and message_id not in self.evidence:
                surplus.append((rowid,))
                self._skip(source, SkipReason.DUPLICATE_CONTENT)
            served |= people
        self.connection.executemany("DELETE FROM staged WHERE rowid = ?", surplus)

    def number(self) -> None:
        """Numbers what is left from the newest to the oldest: the view `newest_first` has the mail with its `id`."""
        self.connection.create_function("sender_names", 2, self._sender_names, deterministic=True)
        self.connection.create_function("recipient_names", 1, self._recipient_names, deterministic=True)
        self.connection.execute(
            "CREATE TEMP TABLE numbered AS"
            " SELECT rowid AS place FROM staged ORDER BY datetime(sent_at) DESC, message_id"
        )
        self.connection.execute(
            "CREATE TEMP VIEW newest_first AS"
            " SELECT numbered.rowid AS id, staged.*, sender_names(who, from_name) AS sender_names,"
            " recipient_names(who) AS recipient_names FROM numbered CROSS JOIN staged ON staged.rowid = place"
        )

    def _sender_names(self, tokens: str, from_name: str) -> str:
        return " ".join([self.people.forms(number, from_name) for number in whose("f", tokens)])

    def _recipient_names(self, tokens: str) -> str:
        return " ".join([self.people.forms(number) for number in whose("t", tokens)])

    def _skip(self, source: str, reason: SkipReason) -> None:
        self.skipped[reason] += 1
        if self.on_skip:
            self.on_skip(Skip(source, reason))

    def _unwanted(self, mail: ParsedMail) -> SkipReason | None:
        filters = self.filters
        recipients = len(mail.to) + len(mail.cc) + len(mail.bcc)
        if not recipients and not mail.delivered and not mail.from_addr:
            return SkipReason.NO_ADDRESSES
        if filters.inboxes and not {mail.from_addr, *_received_by(mail)}.intersection(filters.inboxes):
            return SkipReason.OTHER_INBOX
        key = blake2b(mail.message_id.encode(), digest_size=12).digest()
        if key in self._ids_seen:
            return SkipReason.DUPLICATE_MESSAGE_ID
        if mail.message_id not in self.evidence:
            if filters.max_body_chars is not None and len(mail.body) > filters.max_body_chars:
                return SkipReason.BODY_TOO_LONG
            if filters.max_recipients is not None and recipients > filters.max_recipients:
                return SkipReason.TOO_MANY_RECIPIENTS
        self._ids_seen.add(key)
        return None

    def _is_surplus(self, mail: ParsedMail, content: bytes) -> bool:
        """Whether an earlier mail of the source has the same content, day and people, and a lower id.

        `drop_duplicates` would drop this one. Most copies are of this kind, and this way they are never written.
        """
        people = "\0".join((mail.sent_at, *mail.to, "", *mail.cc, *mail.bcc, "", *mail.delivered))
        twin = blake2b(people.encode() + content, digest_size=16).digest()
        lowest = self._lowest_ids.setdefault(twin, mail.message_id)
        if mail.message_id < lowest:
            self._lowest_ids[twin] = mail.message_id
        return mail.message_id > lowest and mail.message_id not in self.evidence

    def _row(self, mail: ParsedMail, content: bytes) -> tuple[Any, ...]:
        people = self.people
        sent = [people.number(mail.from_addr)] if mail.from_addr else []
        received = [people.number(address) for address in _received_by(mail)]
        for address, name in ((mail.from_addr, mail.from_name), *mail.names):
            if address and name:
                people.note(people.number(address), name)
        tokens = [who("p", person) for person in dict.fromkeys(sent + received)]
        tokens += [who("f", person) for person in sent] + [who("t", person) for person in received]
        return (
            mail.message_id,
            mail.sent_at,
            mail.date_ok,
            mail.from_addr,
            mail.from_name,
            " ".join(mail.to),
            " ".join(mail.cc),
            " ".join(mail.bcc),
            mail.subject,
            "\n".join(mail.attachments),
            f"{mail.body}\n\n{mail.attached}".strip() if mail.attached else mail.body,
            " ".join(tokens),
            mail.source,
            content,
        )


def _received_by(mail: ParsedMail) -> dict[str, None]:
    return dict.fromkeys((*mail.to, *mail.cc, *mail.bcc, *mail.delivered))


def _digest(mail: ParsedMail) -> bytes:
    """The same for mails that say the same; equal words with other files say something else."""
    said = (mail.from_addr, mail.subject, mail.body, *mail.attachments, mail.attached)
    return blake2b("\0".join(said).encode(), digest_size=16).digest()

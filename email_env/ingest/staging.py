"""The waiting room of a build: mail in the order of its source, as far as the filters let it in.

`Staging` keeps digests, ids and addresses in memory, and the mail itself in a temporary table.
"""

import re
import sqlite3
from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from hashlib import blake2b
from itertools import groupby
from operator import itemgetter
from typing import Any

from email_env.ingest.mailboxes import Mailbox, Mailboxes, Owner
from email_env.ingest.marks import MARKS
from email_env.ingest.people import People, index_form
from email_env.mail import ParsedMail, Skip, SkipReason
from email_env.search.cjk import separated
from email_env.search.query import who

COLUMNS = (
    "message_id, sent_at, date_ok, from_addr, from_name, to_addrs, cc_addrs, bcc_addrs, subject, attachments, body,"
    " who, source"
)
_BATCH = 500
_COMPARED = 20  # with how many mails of its id a mail is compared: a sender may give one id to all
_CHECKSUM_CHARS = 8
_TAG = re.compile(r"(?<![\[({*])[\[({*]++[^][(){}*]++[])}*]++ ?")  # of a list or a filter, as `[dev] `
_SENDER, _RECIPIENT = (re.compile(rf"{who(letter, '')}(\d+)") for letter in "ft")
_TABLE = """
    CREATE TEMP TABLE staged (
        digest BLOB, message_id TEXT, sent_at TEXT, who TEXT, mailbox INTEGER, date_ok INTEGER,
        from_addr TEXT, from_name TEXT, to_addrs TEXT, cc_addrs TEXT, bcc_addrs TEXT, subject TEXT, attachments TEXT,
        source TEXT, body TEXT
    )
"""  # the columns that are read before the mail is written come first: SQLite reads through a long body to reach others

_OF_SHARED_IDS = """
    SELECT message_id, rowid, who, datetime(sent_at), digest, source, from_addr, subject, attachments, body FROM staged
    WHERE message_id IN (SELECT message_id FROM staged GROUP BY message_id HAVING count(*) > 1)
    ORDER BY message_id, length(attachments) DESC, length(body) DESC, datetime(sent_at), digest, rowid
"""


@dataclass(frozen=True, slots=True)
class Filters:
    """Which mail is left out of the database on purpose. `None`, False and () switch a filter off.

    `inboxes` are lower-case addresses; where there are any, only their mail is taken. `marks` are `ParsedMail`'s. The
    other filters never leave out the evidence of a scenario. The text of attachments is no part of a measured body.
    """

    max_body_chars: int | None = 5000
    max_recipients: int | None = 30
    drop_duplicates: bool = True
    marks: tuple[str, ...] = tuple(MARKS)
    inboxes: tuple[str, ...] = ()


class Staging:
    """Takes mail into the temporary table `staged` and counts what it leaves out.

    The mailbox of a mail is known by its label; whose it is, only when all mail has been read (`give_to_owners`).
    """

    def __init__(
        self,
        connection: sqlite3.Connection,
        filters: Filters,
        evidence: set[str],
        owners: Sequence[tuple[str, ...]],
        progress: Callable[[int, int], None],
        on_skip: Callable[[Skip], None],
    ) -> None:
        connection.execute(_TABLE)
        self.connection = connection
        self.filters = filters
        self.evidence = evidence
        self.progress = progress
        self.on_skip = on_skip
        self.read = 0
        self.skipped: Counter[SkipReason] = Counter()
        self.people = People(owners)
        self._boxes: dict[int, list[Mailbox]] = {}
        self._groups = owners
        self._mailboxes = Mailboxes()
        self._lowest_ids: dict[bytes, str] = {}

    def run(self, mails: Iterable[ParsedMail | Skip]) -> None:
        """Takes all of `mails`."""
        batch: list[tuple[Any, ...]] = []
        insert = f"INSERT INTO staged ({COLUMNS}, digest, mailbox) VALUES ({', '.join('?' * 15)})"
        for mail in mails:
            self.read += 1
            if isinstance(mail, Skip):
                self._skip(mail.source, mail.reason)
            elif row := self._taken(mail):
                batch.append(row)
            if len(batch) >= _BATCH:
                self.connection.executemany(insert, batch)
                batch.clear()
            if self.read % _BATCH == 0:
                self.progress(self.read, self.skipped.total())
        self.connection.executemany(insert, batch)
        self._lowest_ids.clear()  # of 500,000 mails 40 MB, which the index needs next
        self.progress(self.read, self.skipped.total())

    def give_to_owners(self) -> None:
        """Puts all mail of a mailbox into the inbox of its owner, whatever its headers say."""
        named = {self.people.number(group[0]) for group in self._groups}
        for box, person in self._mailboxes.owners(named):
            self._boxes.setdefault(person, []).append(box)
        tokens = {box.number: who("p", person) for person, boxes in self._boxes.items() for box in boxes}
        self.connection.execute("CREATE TEMP TABLE owner_tokens (mailbox INTEGER PRIMARY KEY, token TEXT)")
        self.connection.executemany("INSERT INTO owner_tokens VALUES (?, ?)", tokens.items())
        self.connection.execute(
            "UPDATE staged SET who = who || ' ' || (SELECT token FROM owner_tokens WHERE mailbox = staged.mailbox)"
            " WHERE rowid IN (SELECT staged.rowid FROM staged JOIN owner_tokens USING (mailbox)"
            " WHERE instr(who || ' ', token || ' ') = 0)"
        )

    def known_owners(self, mails_of: Callable[[str], int]) -> list[Owner]:
        """The owners named and found, with the number of mails that `mails_of` their address tells."""
        people = [(self.people.number(group[0]), *group) for group in self._groups]
        named = {person for person, *_ in people}
        people += [(person, self.people.address(person)) for person in self._boxes if person not in named]
        return [
            Owner(
                address,
                tuple(aliases),
                folders=tuple(box.name for box in self._boxes.get(person, ())),
                is_named=person in named,
                mails=mails_of(address),
            )
            for person, address, *aliases in people
        ]

    def address_numbers(self) -> dict[str, int]:
        """The number of the person of every address; those of an owner without mail of their own are there too."""
        for group in self._groups:
            for address in group:
                self.people.number(address)
        return self.people.ids

    def tell_apart(self) -> None:
        """Makes mails of one id one where they say the same, and gives each of the others an id of its own.

        Of those that say the same, that with the most attachments and then the longest is kept, for the owners of all.
        Of several that do not, the oldest keeps the id; behind that of the others stands a checksum of what they say.
        """
        people: dict[int, list[str]] = {}
        surplus: list[tuple[int]] = []
        others: list[tuple[str, str, int]] = []
        for message_id, mails in groupby(self.connection.execute(_OF_SHARED_IDS), key=itemgetter(0)):
            recent: deque[tuple[int, list[str]]] = deque(maxlen=_COMPARED)
            kept: list[tuple[str, str, int]] = []
            for _, rowid, tokens, sent_at, digest, source, *said, text in mails:
                said.append(" ".join(["", *text.split(), ""]))
                twin = next((row for row, other in recent if _say_the_same(other, said)), rowid)
                people.setdefault(twin, []).append(tokens)
                if twin == rowid:
                    recent.append((rowid, said))
                    kept.append((sent_at, digest.hex()[:_CHECKSUM_CHARS], rowid))
                else:
                    surplus.append((rowid,))
                    self._skip(source, SkipReason.DUPLICATE_MESSAGE_ID)
            others += [(message_id, checksum, rowid) for _, checksum, rowid in sorted(kept)[1:]]
        joined = ((" ".join(dict.fromkeys(" ".join(tokens).split())), rowid) for rowid, tokens in people.items())
        self.connection.executemany("UPDATE staged SET who = ? WHERE rowid = ?", joined)
        self.connection.executemany("DELETE FROM staged WHERE rowid = ?", surplus)
        if others:
            self.connection.execute("CREATE INDEX staged_ids ON staged (message_id)")
        for name, checksum, rowid in others:
            name += f".{checksum}"
            while self.connection.execute("SELECT 1 FROM staged WHERE message_id = ?", (name,)).fetchone():
                name += f".{checksum}"
            self.connection.execute("UPDATE staged SET message_id = ? WHERE rowid = ?", (name, rowid))

    def drop_duplicates(self) -> None:
        """Drops a mail if everyone who has it has another with the same content that was not sent later.

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
            people = set(tokens.split())
            if digest != current:
                current, served = digest, set()
            if people <= served and message_id not in self.evidence:
                surplus.append((rowid,))
                self._skip(source, SkipReason.DUPLICATE_CONTENT)
            served |= people
        self.connection.executemany("DELETE FROM staged WHERE rowid = ?", surplus)

    def drop_other_inboxes(self) -> list[str]:
        """Drops all mail that is in none of the inboxes asked for; returns the inboxes without any."""
        ids = self.people.ids
        absent = {who("p", ids.get(inbox, 0)): inbox for inbox in self.filters.inboxes}
        wanted = set(absent)
        others: list[tuple[int]] = []
        for rowid, tokens, source in self.connection.execute("SELECT rowid, who, source FROM staged ORDER BY rowid"):
            found = wanted.intersection(tokens.split())
            for token in found:
                absent.pop(token, None)
            if not found:
                others.append((rowid,))
                self._skip(source, SkipReason.OTHER_INBOX)
        self.connection.executemany("DELETE FROM staged WHERE rowid = ?", others)
        return list(absent.values())

    def number(self) -> None:
        """Numbers what is left from the newest to the oldest: the view `newest_first` has the mail with its `id`."""
        self.connection.execute("CREATE TEMP TABLE numbered (place INTEGER, sender_names TEXT, recipient_names TEXT)")
        mails = self.connection.execute(
            "SELECT rowid, who, from_name FROM staged ORDER BY datetime(sent_at) DESC, message_id"
        )
        self.connection.execute("BEGIN")
        self.connection.executemany("INSERT INTO numbered VALUES (?, ?, ?)", self._named(mails))
        self.connection.execute("COMMIT")
        self.connection.execute(
            "CREATE TEMP VIEW newest_first AS SELECT numbered.rowid AS id, sender_names, recipient_names, staged.*"
            " FROM numbered CROSS JOIN staged ON staged.rowid = place"
        )

    def _named(self, mails: Iterable[tuple[int, str, str]]) -> Iterator[tuple[int, str, str]]:
        """(row, names of the sender, names of the recipients) of mails as (row, `who`, name in From)."""
        form = {str(number): form for number, form in self.people.forms().items()}.get
        for row, tokens, from_name in mails:
            sender, own = " ".join(filter(None, map(form, _SENDER.findall(tokens)))), index_form(from_name)
            sender = sender if own in sender else f"{sender} {own}".strip()
            yield row, sender, " ".join(filter(None, map(form, _RECIPIENT.findall(tokens))))

    def _skip(self, source: str, reason: SkipReason) -> None:
        self.skipped[reason] += 1
        self.on_skip(Skip(source, reason))

    def _taken(self, mail: ParsedMail) -> tuple[Any, ...] | None:
        """A mail as a row; None where it is left out."""
        box = self._mailboxes.of(mail.source)
        content = _digest(mail)
        reason = self._unwanted(mail)
        if not reason and self.filters.drop_duplicates and self._is_surplus(mail, content, box):
            reason = SkipReason.DUPLICATE_CONTENT
        if reason:
            self._skip(mail.source, reason)
            return None
        return self._row(mail, content, box)

    def _unwanted(self, mail: ParsedMail) -> SkipReason | None:
        filters = self.filters
        recipients = len(mail.to) + len(mail.cc) + len(mail.bcc)
        if not recipients and not mail.delivered and not mail.from_addr:
            return SkipReason.NO_ADDRESSES
        if mail.message_id in self.evidence:
            return None
        if marks := [mark for mark in mail.marks if mark in filters.marks]:
            return MARKS.get(marks[0], SkipReason.LABEL)
        if filters.max_body_chars is not None and len(mail.body) > filters.max_body_chars:
            return SkipReason.BODY_TOO_LONG
        if filters.max_recipients is not None and recipients > filters.max_recipients:
            return SkipReason.TOO_MANY_RECIPIENTS
        return None

    def _is_surplus(self, mail: ParsedMail, content: bytes, box: Mailbox | None) -> bool:
        """Whether an earlier mail of the mailbox has the same content, day and people, and a lower id.

        `drop_duplicates` would drop this one. Most copies are of this kind, and this way they are never written.
        """
        where = str(box.number) if box else ""
        people = "\0".join((where, mail.sent_at, *mail.to, "", *mail.cc, *mail.bcc, "", *mail.delivered))
        twin = blake2b(people.encode() + content, digest_size=16).digest()
        lowest = self._lowest_ids.setdefault(twin, mail.message_id)
        if mail.message_id < lowest:
            self._lowest_ids[twin] = mail.message_id
        return mail.message_id > lowest and mail.message_id not in self.evidence

    def _row(self, mail: ParsedMail, content: bytes, box: Mailbox | None) -> tuple[Any, ...]:
        people, ids = self.people, self.people.ids
        sent = [people.number(mail.from_addr)] if mail.from_addr else []
        addresses = (*mail.to, *mail.cc, *mail.bcc, *mail.delivered)
        received = list(dict.fromkeys([ids.get(a) or people.number(a) for a in addresses]))
        people.note(((mail.from_addr, mail.from_name), *mail.names))
        all_people = list(dict.fromkeys(sent + received))
        if box and mail.delivered and mail.listed:  # a list's mail names the list
            delivered = [people.number(address) for address in mail.delivered]
            box.vote(delivered, delivered)
        elif box and not mail.listed:
            box.vote(all_people, received)
        return (
            mail.message_id,
            mail.sent_at,
            mail.date_ok,
            mail.from_addr,
            mail.from_name,
            " ".join(mail.to),
            " ".join(mail.cc),
            " ".join(mail.bcc),
            separated(mail.subject),
            separated("\n".join(mail.attachments)),
            separated(f"{mail.body}\n\n{mail.attached}".strip() if mail.attached else mail.body),
            f"{_tokens('p', all_people)}{_tokens('f', sent)}{_tokens('t', received)}"[1:],
            mail.source,
            content,
            box.number if box else None,
        )


def _say_the_same(mail: Sequence[str], other: Sequence[str]) -> bool:
    """Whether mails of one id, as (sender, subject, attachments, words), say the same; the first may have more files.

    A list may put a tag in brackets into the subject, and a footer into the text.
    """
    short, long = sorted((mail[1], other[1]), key=len)
    is_about = short in (long, *(_TAG.sub("", long, count=tags) for tags in (1, 2)))
    if mail[0] != other[0] or not is_about or not set(other[2].splitlines()) <= set(mail[2].splitlines()):
        return False
    less, more = sorted((mail[3], other[3]), key=len)
    return less in more


def _tokens(letter: str, people: Sequence[int]) -> str:
    """The tokens of people as `who` makes them, each behind a blank."""
    begin = f" {who(letter, '')}"
    return begin + begin.join(map(str, people)) if people else ""


def _digest(mail: ParsedMail) -> bytes:
    """The same for mails that say the same; equal words with other files say something else."""
    said = (mail.from_addr, mail.subject, mail.body, *mail.attachments, mail.attached)
    return blake2b("\0".join(said).encode(), digest_size=16).digest()

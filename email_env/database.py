"""The read side of a mail database: search and read within one person's inbox, up to one day.

One SQLite file holds the mail and an FTS5 index. Mail is numbered newest first, and the index has a column `who` with a
token for every participant (p12), sender (f12) and recipient (t12), so one MATCH intersects words with inbox,
sender and recipient, dates are ranges of numbers, and `ORDER BY rowid LIMIT` stops at the newest hits.

Connections are read-only and immutable, refuse ATTACH, and are one per thread and process. What a caller passes in is
bound or quoted, never SQL or FTS syntax. Writing is `email_env.ingest.build`'s.
"""

from __future__ import annotations

import os
import shlex
import sqlite3
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from pathlib import Path
from typing import Any

from email_env import misfits, query
from email_env.connections import Connections
from email_env.errors import DatabaseFormatError, DatabaseNotFoundError, ToolInputError, UnknownInboxError
from email_env.scenarios import Scenario, bare_message_id, read_scenario

SCHEMA_VERSION = "3"
MAX_RANKED_HITS = 5_000
"""Of more mails that match, a ranking looks at the newest."""

_NO_ROW = 1 << 62
ORDERS = ("newest", "relevance")
_RELEVANCE = "bm25(4.0, 1.0, 0.0)"  # a hit in the subject says more; who is no text
_MATCHING = """
    FROM emails_fts WHERE emails_fts MATCH :{match} AND emails_fts.rowid >= :first AND emails_fts.rowid < :end
"""
_HITS = """
    SELECT e.message_id, e.sent_at, e.from_addr, e.from_name, e.subject, snippet(emails_fts, 1, '', '', '...', :words)
    FROM emails_fts JOIN emails AS e ON e.id = emails_fts.rowid
    WHERE emails_fts MATCH :match AND emails_fts.rowid >= :first AND emails_fts.rowid < :end
"""
_NEWEST = f"{_HITS} ORDER BY emails_fts.rowid LIMIT :limit"
_RANKED = f"{_HITS} AND rank MATCH '{_RELEVANCE}' {{required}} ORDER BY rank LIMIT :limit"
_REQUIRED = f"AND +emails_fts.rowid IN (SELECT rowid {_MATCHING.format(match='required')} ORDER BY rowid LIMIT :ranked)"
_LAST_RANKED = f"SELECT rowid {_MATCHING.format(match='match')} ORDER BY rowid LIMIT 1 OFFSET :ranked"


@dataclass(frozen=True, slots=True)
class SearchHit:
    """A line of search results. `sent_at` is UTC; `snippet` is one line of the body around the keywords."""

    message_id: str
    sent_at: str
    from_addr: str
    from_name: str
    subject: str
    snippet: str


@dataclass(frozen=True, slots=True)
class Email:
    """A whole message. `sent_at` is UTC; `to`, `cc` and `bcc` hold lower-case addresses."""

    message_id: str
    sent_at: str
    from_addr: str
    from_name: str
    to: tuple[str, ...]
    cc: tuple[str, ...]
    bcc: tuple[str, ...]
    subject: str
    body: str


class MailDatabase:
    """A mail database, opened read-only.

    Pickles as its path, may be shared by threads and survives a fork: every thread of every process opens its own
    connection when it first asks.

    Args:
        path: a file that `build-enron-db` wrote.

    Raises:
        DatabaseNotFoundError: there is no such file.
        DatabaseFormatError: it is no mail database, or of another schema version.
    """

    def __init__(self, path: str | Path) -> None:
        self.path = Path(os.path.expanduser(path)).absolute()
        self._start()
        self.metadata: dict[str, str] = self._check()
        """What the builder noted: source, counts, versions."""

    def search(
        self,
        *,
        inbox: str,
        keywords: Sequence[str],
        until: str,
        from_addr: str | None = None,
        to_addr: str | None = None,
        sent_after: str | None = None,
        sent_before: str | None = None,
        max_results: int = query.MAX_RESULTS,
        match: str = "all",
        order: str = "newest",
        snippet_words: int = 12,
    ) -> list[SearchHit]:
        """Finds mail of an inbox.

        Args:
            inbox: address whose mail is searched: what it sent or received.
            keywords: words or phrases that must occur in subject or body, each phrase word for word. Case and accents
                do not matter.
            until: ISO date, inclusive; later mail does not exist.
            from_addr: only mail from this address.
            to_addr: only mail with this address in To, Cc or Bcc.
            sent_after: ISO date, inclusive.
            sent_before: ISO date, exclusive.
            max_results: 1 to `MAX_RESULTS`.
            match: whether "all" keywords must occur or "any" of them.
            order: "newest" or "relevance" (bm25).
            snippet_words: words around the match, 1 to `MAX_SNIPPET_WORDS`.

        Returns:
            At most `max_results` hits.

        Raises:
            ToolInputError: an argument cannot be used; the text says how to mend it.
            UnknownInboxError: the database has no mail of `inbox`.
        """
        inbox_id = self._inbox_id(inbox)
        phrases = query.affordable(query.phrases(keywords), self._common)
        limit = query.whole_number(max_results, "max_results", query.MAX_RESULTS)
        if order not in ORDERS:
            raise ToolInputError(f'order must be "newest" or "relevance", got {query.shown(order)}.')
        first = self._first_row(query.iso_day(until, "until"), inclusive=True)
        end = _NO_ROW
        if sent_before is not None:
            first = max(first, self._first_row(query.iso_day(sent_before, "sent_before"), inclusive=False))
        if sent_after is not None:
            after = query.iso_day(sent_after, "sent_after")
            if sent_before is not None and after >= sent_before.strip():
                raise ToolInputError(f"sent_after ({after}) must be earlier than sent_before ({sent_before}).")
            end = self._first_row(after, inclusive=False)
        who = [query.who("p", inbox_id)]
        for letter, name, value in (("f", "from_addr", from_addr), ("t", "to_addr", to_addr)):
            if value is None:
                continue
            address_id = self._address_id(query.address(value, name))
            if address_id is None:
                return []
            who.append(query.who(letter, address_id))
        search = {
            "match": _expression(who, phrases, match),
            "first": first,
            "end": end,
            "limit": limit,
            "words": query.whole_number(snippet_words, "snippet_words", query.MAX_SNIPPET_WORDS),
        }
        rows = self._ranked(search, who, phrases, match) if order == "relevance" else None
        if rows is None:
            rows = self._connection().execute(_NEWEST, search).fetchall()
        return [
            SearchHit(message_id, sent_at, sender, name, subject, " ".join(snippet.split()))
            for message_id, sent_at, sender, name, subject, snippet in rows
        ]

    def _ranked(
        self, search: dict[str, Any], who: Sequence[str], phrases: Sequence[query.Phrase], match: str
    ) -> list[Any] | None:
        """The best hits by the telling keywords; None where newest first is as good as any order.

        bm25 reads the whole index for each of its words and scores every match, so neither may be too many: the most
        common words are required but not ranked by, and of very many matches the newest are ranked.
        """
        telling = query.telling(phrases, self._common)
        if not telling:
            return None
        ranking = search | {"match": _expression(who, telling, match), "ranked": MAX_RANKED_HITS}
        required = ""
        if len(telling) < len(phrases) and match == "all":
            ranking["required"] = search["match"]
            required = _REQUIRED
        connection = self._connection()
        if last := connection.execute(_LAST_RANKED, ranking).fetchone():
            ranking["end"] = last[0]
        rows = connection.execute(_RANKED.format(required=required), ranking).fetchall()
        return rows or (None if match == "any" else rows)

    def read(self, message_id: str, *, inbox: str, until: str) -> Email | None:
        """A whole message by its id, with or without angle brackets.

        Returns:
            None where the id is unknown, the mail is not `inbox`'s, or was sent after the day `until`.

        Raises:
            ToolInputError: `message_id` is not a string.
            UnknownInboxError: the database has no mail of `inbox`.
        """
        inbox_id = self._inbox_id(inbox)
        if not isinstance(message_id, str):
            raise ToolInputError(f"message_id must be a string, got {query.shown(message_id)}.")
        key = bare_message_id(message_id)
        if not query.storable(key):
            return None
        row = (
            self._connection()
            .execute(
                "SELECT message_id, sent_at, from_addr, from_name, to_addrs, cc_addrs, bcc_addrs, subject, body, who"
                " FROM emails WHERE message_id = ? AND id >= ?",
                (key, self._first_row(query.iso_day(until, "until"), inclusive=True)),
            )
            .fetchone()
        )
        if row is None or query.who("p", inbox_id) not in row[9].split():
            return None
        found, sent_at, sender, name, to, cc, bcc, subject, body, _ = row
        to, cc, bcc = (tuple(addresses.split()) for addresses in (to, cc, bcc))
        return Email(found, sent_at, sender, name, to, cc, bcc, subject, body)

    def scenarios(self, split: str | None = None) -> list[Scenario]:
        """The questions that came with the mail, all or those of one split, in the order they were built."""
        where, values = ("", ()) if split is None else (" WHERE split = ?", (split,))
        rows = self._connection().execute(f"SELECT data FROM scenarios{where} ORDER BY rowid", values)
        return [read_scenario(data) for (data,) in rows]

    def sort_out(self, scenarios: Iterable[Scenario]) -> tuple[list[Scenario], dict[str, str]]:
        """The scenarios that this mail can serve and, by id, why it cannot serve the others."""
        return misfits.sort_out(self._connection(), scenarios)

    def has_inbox(self, inbox: str) -> bool:
        """Whether any mail was sent or received by this address."""
        return self._address_id(inbox.strip().lower()) is not None

    def integrity_problems(self) -> list[str]:
        """What SQLite finds damaged in the whole file, page by page; empty where all is well."""
        try:
            found = [str(line) for (line,) in self._connection().execute("PRAGMA integrity_check(5)")]
        except sqlite3.Error as error:
            found = [str(error)]
        return [f"{self.path}: {line}" for line in found if line != "ok"]

    def close(self) -> None:
        """Closes the connections of all threads; the next question opens a new one."""
        self._connections.close()

    def __getstate__(self) -> dict[str, object]:
        return {"path": self.path, "metadata": self.metadata}

    def __setstate__(self, state: dict[str, object]) -> None:
        self.__dict__.update(state)
        self._start()

    def __repr__(self) -> str:
        return f"MailDatabase({str(self.path)!r})"

    def _start(self) -> None:
        self._connections = Connections(self.path)
        self._connection = self._connections.get
        self._address_id = lru_cache(maxsize=4096)(self._look_up_address)
        self._first_row = lru_cache(maxsize=4096)(self._look_up_day)

    def _check(self) -> dict[str, str]:
        if self.path.is_dir():
            raise DatabaseNotFoundError(f"{str(self.path)!r} is a folder. Name the mail database, a file.")
        if not self.path.is_file():
            raise DatabaseNotFoundError(
                f"No mail database at {str(self.path)!r}. Build one with: build-enron-db demo --out"
                f" {shlex.quote(str(self.path))}"
            )
        try:
            metadata = dict(self._connection().execute("SELECT key, value FROM meta").fetchall())
        except sqlite3.Error as error:
            self.close()
            raise DatabaseFormatError(
                f"{str(self.path)!r} is not a mail database ({error}). Build one with build-enron-db."
            ) from error
        with self.path.open("rb") as file:
            header = file.read(32)
        page_bytes, pages = int.from_bytes(header[16:18]), int.from_bytes(header[28:32])
        if self.path.stat().st_size < pages * page_bytes:  # SQLite would notice where it reads what is missing
            self.close()
            raise DatabaseFormatError(f"{str(self.path)!r} is cut short. Copy it again, or build it again.")
        version = metadata.get("schema_version")
        if version != SCHEMA_VERSION:
            self.close()
            command = metadata.get("command") or f"build-enron-db {shlex.quote(metadata.get('source', 'SOURCE'))}"
            raise DatabaseFormatError(
                f"{str(self.path)!r} has schema version {version!r}, this package reads {SCHEMA_VERSION!r}. Rebuild it:"
                f" {command} --out {shlex.quote(str(self.path))}"
            )
        return metadata

    @cached_property
    def _common(self) -> dict[str, int]:
        """How many mails have a word, for words of more than `query.COMMON_MAILS`."""
        return dict(self._connection().execute("SELECT word, mails FROM common_words").fetchall())

    def _inbox_id(self, inbox: str) -> int:
        address_id = self._address_id(inbox.strip().lower())
        if address_id is None:
            raise UnknownInboxError(f"No mail of {inbox!r} in {str(self.path)!r}; its scenario belongs to other mail.")
        return address_id

    def _look_up_address(self, value: str) -> int | None:
        if not query.storable(value):
            return None
        row = self._connection().execute("SELECT id FROM addresses WHERE address = ?", (value,)).fetchone()
        return row[0] if row else None

    def _look_up_day(self, day: str, *, inclusive: bool) -> int:
        """Number of the newest mail sent on or before (`inclusive`) or before `day`; beyond all where there is none."""
        sign = "<=" if inclusive else "<"
        row = (
            self._connection()
            .execute(f"SELECT first_id FROM days WHERE day {sign} ? ORDER BY day DESC LIMIT 1", (day,))
            .fetchone()
        )
        return row[0] if row else _NO_ROW


def _expression(who: Sequence[str], phrases: Sequence[query.Phrase], match: str) -> str:
    """Words of mail on which all of `who` are."""
    return f"who : ({' AND '.join(who)}) AND ({query.joined(phrases, match)})"

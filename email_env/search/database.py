"""The read side of a mail database: search and read within one person's inbox, up to one day.

One SQLite file holds the mail and an FTS5 index. Mails are numbered from the newest to the oldest, so days are ranges
of numbers and `ORDER BY rowid LIMIT` stops at the newest hits. The index has a column `who` with a token for every
participant (p12), sender (f12) and recipient (t12) of a mail, so one MATCH intersects words with inbox, sender and
recipient. Two more columns hold the names of sender and recipients, so a keyword finds a person as it finds a word. One
more holds the names of attachments.

Every thread of every process has a connection of its own; it is read-only and immutable and refuses ATTACH. What a
caller passes in is bound or quoted and never becomes SQL or FTS syntax. `email_env.ingest.build` writes the file.

Bodies are stored uncompressed. A snippet reads the body of every hit, so compressed bodies would slow down the search,
and other programs could not read them.
"""

import json
import os
import sqlite3
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from pathlib import Path
from typing import Any

from email_env.errors import ToolInputError, UnknownInboxError
from email_env.search import cjk, query
from email_env.search.connections import Connections
from email_env.search.days import span
from email_env.search.metadata import read_metadata
from judges.common.text import shown

MAX_RANKED_HITS = 5_000
"""Where more mails match, a ranking looks at this many of the newest."""
MAX_COUNTED = 1_000
"""`count` stops here."""

_CHARACTERS_OF_A_WORD = 3  # of Chinese, with what would be blanks and small words elsewhere
_RELEVANCE = "bm25(4.0, 1.0, 0.0, 1.0, 1.0, 1.0)"  # a hit in the subject says more; who is no text
_MATCHING = """
    FROM emails_fts WHERE emails_fts MATCH :{match} AND emails_fts.rowid >= :first AND emails_fts.rowid < :end
"""
_HITS = """
    SELECT e.message_id, e.sent_at, e.from_addr, e.from_name, e.subject, snippet(emails_fts, 1, '', '', '...', :words)
    FROM emails_fts JOIN emails AS e ON e.id = emails_fts.rowid
    WHERE emails_fts MATCH :match AND emails_fts.rowid >= :first AND emails_fts.rowid < :end
    AND e.sent_at >= :earliest AND e.sent_at < :latest
"""
_LEFT_OUT = f"{_HITS} AND e.message_id NOT IN (SELECT value FROM json_each(:leave_out)) "
_IN_ORDER = "ORDER BY emails_fts.rowid LIMIT :limit OFFSET :offset"
_NEWEST = {False: _HITS + _IN_ORDER, True: _LEFT_OUT + _IN_ORDER}
_BY_RANK = f"AND rank MATCH '{_RELEVANCE}' {{required}} ORDER BY rank LIMIT :limit OFFSET :offset"
_RANKED = {False: _HITS + _BY_RANK, True: _LEFT_OUT + _BY_RANK}
"""The statements without and with `leave_out`."""
_REQUIRED = f"AND +emails_fts.rowid IN (SELECT rowid {_MATCHING.format(match='required')} ORDER BY rowid LIMIT :ranked)"
_LAST_RANKED = f"SELECT rowid {_MATCHING.format(match='match')} ORDER BY rowid LIMIT 1 OFFSET :ranked"
_PEOPLE = f"SELECT DISTINCT id FROM addresses WHERE {{}} LIMIT {query.MAX_PEOPLE + 1}"
_AT_DOMAIN = _PEOPLE.format("address GLOB '*@' || :domain OR address GLOB '*@*.' || :domain")
_BEFORE_AT = _PEOPLE.format("address >= :local || '@' AND address < :local || 'A'")  # A follows @
_COUNTED = f"""
    SELECT count(*) FROM (SELECT 1 {_MATCHING.format(match="match")}
    AND (emails_fts.rowid >= :sure_first AND emails_fts.rowid < :sure_end OR EXISTS (
        SELECT 1 FROM emails WHERE id = emails_fts.rowid AND sent_at >= :earliest AND sent_at < :latest
    )) LIMIT {MAX_COUNTED})
"""


@dataclass(frozen=True, slots=True)
class SearchHit:
    """A line of search results: `sent_at` in the mail's own zone, `snippet` a line of the body around the keywords."""

    message_id: str
    sent_at: str
    from_addr: str
    from_name: str
    subject: str
    snippet: str


@dataclass(frozen=True, slots=True)
class Email:
    """A whole message: `sent_at` with its own zone, `to`, `cc` and `bcc` as lower-case addresses."""

    message_id: str
    sent_at: str
    from_addr: str
    from_name: str
    to: tuple[str, ...]
    cc: tuple[str, ...]
    bcc: tuple[str, ...]
    subject: str
    body: str
    attachments: tuple[str, ...] = ()


class MailDatabase:
    """A mail database, opened read-only.

    It pickles as its path, may be shared by threads and survives a fork, since every thread of every process opens its
    own connection when it first needs one.

    Args:
        path: a file that `build-enron-db` wrote.

    Raises:
        DatabaseNotFoundError: there is no such file.
        DatabaseFormatError: it is no mail database, or of another schema version.
    """

    def __init__(self, path: str | Path) -> None:
        self.path = Path(os.path.expanduser(path)).absolute()
        self._start()
        self.metadata: dict[str, str] = read_metadata(self._connections)
        """What the builder wrote down: source, counts, versions."""

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
        offset: int = 0,
        leave_out: Sequence[str] = (),
        match: str = "all",
        order: str = "newest",
        snippet_words: int = 12,
    ) -> list[SearchHit]:
        """Finds mails of an inbox.

        Args:
            inbox: the address whose mail, sent or received, is searched.
            keywords: words or phrases that must occur in the subject, in the body, or among the names of sender,
                recipients and attachments, each phrase word for word. Case does not matter, nor do
                accents of Latin and Greek letters, nor `ё` or `е`. `invoic*` is the beginning of a word, `@bank.com`
                are all people there. None: all mail.
            until: ISO date, inclusive; later mail is never shown. Days are those of the mail's own zone.
            from_addr: only mail from this person: a name, an address, or `Name <address>`; or from a domain.
            to_addr: only mail with this person in To, Cc or Bcc.
            sent_after: ISO date, inclusive.
            sent_before: ISO date, exclusive.
            max_results: hits to return at most.
            offset: hits to leave out from the top.
            leave_out: ids of mails that are no hits; they are not counted by `offset`.
            match: whether "all" keywords must occur or "any" of them.
            order: "newest" or "relevance" (bm25).
            snippet_words: words around the match, at most `MAX_SNIPPET_WORDS`.

        Raises:
            ToolInputError: an argument cannot be used; the text says what to do.
            UnknownInboxError: the database has no mail of `inbox`.
        """
        people = self._people(inbox, from_addr, to_addr)
        phrases = self._phrases(keywords)
        search = self._bounds(until, sent_after, sent_before)
        if people is None:
            return []
        search |= {"limit": max_results, "offset": offset, "words": snippet_words}
        search["match"] = _expression(people, phrases, match)
        if cjk.SEPARATOR in search["match"]:  # every character is a word
            search["words"] = min(_CHARACTERS_OF_A_WORD * search["words"], query.MAX_SNIPPET_WORDS)
        if leave_out:
            search["leave_out"] = json.dumps(list(leave_out))
        rows = self._ranked(search, people, phrases, match) if order == "relevance" and phrases else None
        if rows is None:
            rows = self.connection().execute(_NEWEST[bool(leave_out)], search).fetchall()
        return [_hit(*row) for row in rows]

    def count(
        self,
        *,
        inbox: str,
        keywords: Sequence[str],
        until: str,
        from_addr: str | None = None,
        to_addr: str | None = None,
        sent_after: str | None = None,
        sent_before: str | None = None,
    ) -> int:
        """How many mails have all keywords, at most `MAX_COUNTED`; arguments and errors are those of `search`."""
        people = self._people(inbox, from_addr, to_addr)
        phrases = self._phrases(keywords)
        search = self._bounds(until, sent_after, sent_before)
        if people is None:
            return 0
        search["match"] = _expression(people, phrases, "all")
        (found,) = self.connection().execute(_COUNTED, search).fetchone()
        return found

    def _bounds(self, until: str, sent_after: str | None, sent_before: str | None) -> dict[str, Any]:
        """The numbers and times of the mails of these days."""
        until = query.iso_day(until, "until")
        before = None if sent_before is None else query.iso_day(sent_before, "sent_before")
        after = None if sent_after is None else query.iso_day(sent_after, "sent_after")
        if before is not None and after is not None and after >= before:
            raise ToolInputError(f"sent_after ({after}) must be earlier than sent_before ({before}).")
        return dict(self._span(until, after, before))

    def _phrases(self, keywords: Sequence[str]) -> list[query.Phrase]:
        """The keywords, the rarest first; one that is an address or a domain also finds the mail of the people."""
        found = query.affordable(query.phrases(keywords), self._common)
        for at, phrase in enumerate(found):
            if phrase.address and (people := self._people_of(phrase.address)):
                found[at] = replace(phrase, quoted=f"({phrase.quoted} OR {_any_of('p', people)})")
        return found

    def _people(self, inbox: str, from_addr: str | None, to_addr: str | None) -> list[str] | None:
        """What the index must have for all who are to be on the mail; None where it has no mail of one of them."""
        people = [f"who : {query.who('p', self._inbox_id(inbox))}"]
        for letter, name, value in (("f", "from_addr", from_addr), ("t", "to_addr", to_addr)):
            if value is not None:
                address, words = query.person(value, name)
                found = [f"{query.NAME_COLUMNS[letter]} : {words}"] if words else []
                if numbers := self._people_of(address):
                    found.append(f"who : ({_any_of(letter, numbers)})")
                if not found:
                    return None
                people.append(f"({' OR '.join(found)})")
        return people

    def _ranked(
        self,
        search: dict[str, Any],
        people: Sequence[str],
        phrases: Sequence[query.Phrase],
        match: str,
    ) -> list[Any] | None:
        """The best hits by the telling keywords; None where every keyword is so common that "newest" serves as well.

        bm25 reads the whole index for each of its words and scores every match. Ranked by it, one stop word took 40 to
        250 ms on 500,000 mails. So the most common words are required but not ranked by, and where very many mails
        match, only the newest are ranked.
        """
        telling = query.telling(phrases, self._common)
        if not telling:
            return None
        ranking = search | {"match": _expression(people, telling, match), "ranked": MAX_RANKED_HITS}
        required = ""
        if len(telling) < len(phrases) and match == "all":
            ranking["required"] = search["match"]
            required = _REQUIRED
        connection = self.connection()
        if last := connection.execute(_LAST_RANKED, ranking).fetchone():
            ranking["end"] = last[0]
        statement = _RANKED["leave_out" in search].format(required=required)
        rows = connection.execute(statement, ranking).fetchall()
        return rows or (None if match == "any" and not search["offset"] else rows)

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
            raise ToolInputError(f"message_id must be a string, got {shown(message_id)}.")
        key = query.bare_message_id(message_id)
        if not query.storable(key):
            return None
        row = (
            self.connection()
            .execute(
                "SELECT message_id, sent_at, from_addr, from_name, to_addrs, cc_addrs, bcc_addrs, subject, body,"
                " attachments, who FROM emails WHERE message_id = ? AND sent_at < ?",
                (key, f"{query.iso_day(until, 'until')}U"),  # behind every time of that day
            )
            .fetchone()
        )
        if row is None or query.who("p", inbox_id) not in row[10].split():
            return None
        found, sent_at, sender, name, to, cc, bcc, subject, body, attachments, _ = row
        to, cc, bcc = (tuple(addresses.split()) for addresses in (to, cc, bcc))
        subject, body, attachments = map(cjk.joined, (subject, body, attachments))
        return Email(found, sent_at, sender, name, to, cc, bcc, subject, body, tuple(attachments.splitlines()))

    def connection(self) -> sqlite3.Connection:
        """This thread's read-only connection, for queries that are not searches of an inbox."""
        return self._connections.get()

    def integrity_problems(self) -> list[str]:
        """What SQLite finds damaged in the whole file, page by page; empty where all is well."""
        try:
            found = [str(line) for (line,) in self.connection().execute("PRAGMA integrity_check(5)")]
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
        self._address_id = lru_cache(maxsize=4096)(self._look_up_address)
        self._people_of = lru_cache(maxsize=4096)(self._look_up_people)
        self._span = lru_cache(maxsize=4096)(self._look_up_span)

    @cached_property
    def _common(self) -> dict[str, int]:
        """How many mails have a word, for words of more than `query.COMMON_MAILS`."""
        return dict(self.connection().execute("SELECT word, mails FROM common_words").fetchall())

    def _inbox_id(self, inbox: str) -> int:
        address_id = self._address_id(inbox.strip().lower())
        if address_id is None:
            raise UnknownInboxError(f"No mail of {inbox!r} in {str(self.path)!r}; its scenario belongs to other mail.")
        return address_id

    def _look_up_span(self, until: str, after: str | None, before: str | None) -> Mapping[str, int | str]:
        return span(self.connection(), until, after, before)

    def _look_up_address(self, value: str) -> int | None:
        if not query.storable(value):
            return None
        row = self.connection().execute("SELECT id FROM addresses WHERE address = ?", (value,)).fetchone()
        return row[0] if row else None

    def _look_up_people(self, value: str) -> tuple[int, ...]:
        """Whose address a text is; all who have an address at a domain or below it, or with a text before the @."""
        if (person := self._address_id(value)) is not None:
            return (person,)
        asked = {"domain": query.domain(value), "local": value.removesuffix("@")}
        found = self.connection().execute(_AT_DOMAIN if asked["domain"] else _BEFORE_AT, asked)
        people = tuple(person for (person,) in found)
        if len(people) > query.MAX_PEOPLE:
            raise ToolInputError(f"More than {query.MAX_PEOPLE} people have an address with {value}. Name one of them.")
        return people


def _any_of(letter: str, people: Sequence[int]) -> str:
    """The expression for mails on which any of these people are."""
    return " OR ".join([query.who(letter, person) for person in people])


def _hit(message_id: str, sent_at: str, address: str, name: str, subject: str, snippet: str) -> SearchHit:
    if not (subject.isascii() and snippet.isascii()):
        subject, snippet = cjk.joined(subject), cjk.joined(snippet)
    return SearchHit(message_id, sent_at, address, name, subject, " ".join(snippet.split()))


def _expression(people: Sequence[str], phrases: Sequence[query.Phrase], match: str) -> str:
    """The MATCH expression: mails with these phrases on which all of `people` are."""
    words = [f"({query.joined(phrases, match)})"] if phrases else []
    return " AND ".join([*people, *words])

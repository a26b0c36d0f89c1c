"""Which mails are asked about, and in which split. Splits go by inbox, so no mailbox is in two splits.

An inbox is a person's. Of several addresses of one person the first in the alphabet stands for it.

A single inbox is divided by its mails: of ten, seven are for training, one for validation and two for test.

Unless inboxes are named, only the owners of mailboxes are asked. Everybody else's inbox holds but what they exchanged
with the owners.

The draw depends on the database, the seed and the chosen inboxes alone, so a later run continues the same draw. A mail
that lies in several inboxes is drawn for one of them, so no mail is asked about in two splits either.
"""

import hashlib
import random
import sqlite3
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass

from email_env.errors import ConfigurationError
from email_env.scenarios.scenario import SPLITS
from email_env.search.query import who

MIN_BODY_CHARS = 40
MAX_BODY_CHARS = 8_000
HELD_OUT_SHARE = 0.1
"""Share of the inboxes in validation, and the same again in test."""
_MAX_LISTED = 5
_OF_ONE_INBOX = ("train", "train", "train", "test", "train", "train", "validation", "train", "test", "train")

_MAILS = "SELECT id, who FROM emails WHERE date_ok AND length(body) BETWEEN ? AND ? ORDER BY id"


@dataclass(frozen=True, slots=True)
class Draw:
    """A mail to ask about."""

    inbox: str
    message_id: str
    split: str

    @property
    def scenario_id(self) -> str:
        """The id of the question about this mail; the same in every run."""
        key = f"{self.inbox}\n{self.message_id}"
        return f"made-{hashlib.sha256(key.encode()).hexdigest()[:12]}"


def split_by_inbox(inboxes: Iterable[str], seed: int) -> dict[str, str]:
    """The split of each inbox: a tenth each for validation and test, drawn at random.

    Of three inboxes or more, each split has at least one. Of two, one is for test.
    """
    ordered = sorted(set(inboxes), key=lambda inbox: hashlib.sha256(f"{seed}\n{inbox}".encode()).digest())
    held_out = max(1, round(HELD_OUT_SHARE * len(ordered)))
    test = held_out if len(ordered) > 1 else 0
    validation = held_out if len(ordered) > 2 else 0
    train, *others = SPLITS
    places = [*[others[1]] * test, *[others[0]] * validation]
    return dict(zip(ordered, [*places, *[train] * (len(ordered) - len(places))], strict=True))


def draw_mails(
    connection: sqlite3.Connection, *, seed: int, min_mails: int, inboxes: Collection[str] = ()
) -> Iterator[Draw]:
    """Draws mails at random, one of each inbox in turn, until none are left.

    Very short or long mail, and mail whose date is missing or implausible, is not drawn.

    Args:
        connection: to a mail database.
        seed: decides the order and the splits.
        min_mails: inboxes with fewer such mails are left out.
        inboxes: only these; none for those of all owners, or all where the database does not know whose mail it is.

    Raises:
        ConfigurationError: there is no such inbox.
    """
    _refuse_unknown(connection, inboxes)
    mails = _mails_by_inbox(connection)
    wanted = inboxes or owners(connection) or mails
    chosen = {name: mails[name] for name in wanted if len(mails.get(name, ())) >= min_mails}
    absent = sorted(set(inboxes) - set(chosen))
    if absent or not chosen:
        most = max((len(mails.get(name, ())) for name in wanted), default=0)
        names = ", ".join(absent) or "No inbox"
        asked = f"Mail of {MIN_BODY_CHARS} to {MAX_BODY_CHARS:,} characters with a plausible date is asked about."
        raise ConfigurationError(
            f"{names}: not {min_mails} mail{'' if min_mails == 1 else 's'} to ask about; the largest inbox has "
            f"{most or 'none'}. {'Lower --min-mails.' if most else asked}"
        )
    chosen = {name: chosen[name] for name in _one_of_each_person(connection, chosen)}
    splits = split_by_inbox(chosen, seed)
    return _in_turn(connection, chosen, splits, seed)


def _refuse_unknown(connection: sqlite3.Connection, inboxes: Collection[str]) -> None:
    known = {address for (address,) in connection.execute("SELECT address FROM addresses")} if inboxes else set()
    if unknown := sorted(set(inboxes) - known):
        there = owners(connection)
        more = f" and {len(there) - _MAX_LISTED} more" if len(there) > _MAX_LISTED else ""
        hint = f"It is the mail of {', '.join(there[:_MAX_LISTED])}{more}." if there else "It names no owner."
        raise ConfigurationError(f"No mail of {', '.join(unknown)} in the database. {hint} Name another --inbox.")


def owners(connection: sqlite3.Connection) -> list[str]:
    """Whose mailboxes the database knows to hold: an address of each person."""
    return [address for (address,) in connection.execute("SELECT address FROM owners ORDER BY address")]


def _one_of_each_person(connection: sqlite3.Connection, inboxes: Iterable[str]) -> Collection[str]:
    """Of the addresses that are one person's the first."""
    person = dict(connection.execute("SELECT address, id FROM addresses"))
    return {person[inbox]: inbox for inbox in sorted(inboxes, reverse=True)}.values()


def _mails_by_inbox(connection: sqlite3.Connection) -> dict[str, list[int]]:
    """The mails to ask about of every address; those of one person have the same list."""
    names: dict[str, list[str]] = {}
    for number, address in connection.execute("SELECT id, address FROM addresses"):
        names.setdefault(who("p", number), []).append(address)
    by_person: dict[str, list[int]] = {}
    for row, people in connection.execute(_MAILS, (MIN_BODY_CHARS, MAX_BODY_CHARS)):
        for token in people.split():
            if token in names:
                by_person.setdefault(token, []).append(row)
    return {name: rows for token, rows in by_person.items() for name in names[token]}


def _in_turn(
    connection: sqlite3.Connection, mails: dict[str, list[int]], splits: dict[str, str], seed: int
) -> Iterator[Draw]:
    order = random.Random(f"{seed}").sample(sorted(mails), len(mails))
    rows = {inbox: random.Random(f"{seed}\n{inbox}").sample(mails[inbox], len(mails[inbox])) for inbox in order}
    waiting = {inbox: iter(shuffled) for inbox, shuffled in rows.items()}
    drawn: set[int] = set()
    while waiting:
        for inbox in list(waiting):
            row = next((row for row in waiting[inbox] if row not in drawn), None)
            if row is None:
                del waiting[inbox]
                continue
            drawn.add(row)
            (message_id,) = connection.execute("SELECT message_id FROM emails WHERE id = ?", (row,)).fetchone()
            split = splits[inbox] if len(splits) > 1 else _OF_ONE_INBOX[(len(drawn) - 1) % len(_OF_ONE_INBOX)]
            yield Draw(inbox, message_id, split)

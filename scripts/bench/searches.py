"""What a benchmark asks of both databases: a seeded mix of searches over a corpus.

A search has one to six words, alone or as a phrase: stop words, common, middling and rare ones. Half of the searches
take their words from a mail of the inbox, so that there is something to find. Filters name people of that mail, days
around it, or neither. The inbox is big (an owner's) or small.
"""

import random
import re
import sqlite3
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from datetime import date, timedelta
from typing import Any

from bench.corpus import OWNERS, STOP_WORDS, Corpus

RANKS = {"stop": (0, len(STOP_WORDS)), "common": (60, 1_000), "middling": (1_000, 20_000), "rare": (20_000, 300_000)}


@dataclass(frozen=True, slots=True)
class Question:
    """Arguments of one search."""

    inbox: str
    keywords: tuple[str, ...]
    until: str
    max_results: int
    from_addr: str | None = None
    to_addr: str | None = None
    sent_after: str | None = None
    sent_before: str | None = None

    def arguments(self) -> dict[str, Any]:
        """Keyword arguments of `MailDatabase.search`."""
        return asdict(self) | {"keywords": list(self.keywords)}


def questions(corpus: Corpus, connection: sqlite3.Connection, count: int, seed: int = 0) -> Iterator[Question]:
    """`count` searches of the mail in a database that `email_env` built of the corpus."""
    generator = random.Random(seed)
    (mails,) = connection.execute("SELECT count(*) FROM emails").fetchone()
    owners = {address for _, address in corpus.people[:OWNERS]}
    ranks = {word: rank for rank, word in enumerate(corpus.words)}
    while count:
        sender, to, cc, sent_at, body = connection.execute(
            "SELECT from_addr, to_addrs, cc_addrs, sent_at, body FROM emails WHERE id = ?",
            (generator.randint(1, mails),),
        ).fetchone()
        recipients = f"{to} {cc}".split()
        people = [sender, *recipients]
        big = [address for address in people if address in owners]
        inbox = generator.choice(big if big and generator.random() < 0.7 else people)
        if generator.random() < 0.5:
            keywords = _from_mail(generator, body, ranks)
        else:
            keywords = tuple(_word(generator, corpus) for _ in range(_count(generator)))
        if not keywords:
            continue
        count -= 1
        yield Question(
            inbox=inbox,
            keywords=keywords,
            until="2002-12-31" if generator.random() < 0.8 else _day(generator, sent_at, 0, 200),
            max_results=generator.choice((5, 10, 10)),
            from_addr=sender if generator.random() < 0.2 else None,
            to_addr=generator.choice(recipients) if recipients and generator.random() < 0.12 else None,
            sent_after=_day(generator, sent_at, -90, 0) if generator.random() < 0.15 else None,
            sent_before=_day(generator, sent_at, 1, 90) if generator.random() < 0.15 else None,
        )


def _count(generator: random.Random) -> int:
    return generator.choices(range(1, 7), weights=(25, 30, 20, 12, 8, 5))[0]


def _word(generator: random.Random, corpus: Corpus) -> str:
    first, end = RANKS[generator.choices(tuple(RANKS), weights=(15, 35, 35, 15))[0]]
    return corpus.words[generator.randrange(first, end)]


def _from_mail(generator: random.Random, body: str, ranks: dict[str, int]) -> tuple[str, ...]:
    """Words of a mail, one time in five neighbours as a phrase; mostly ones that say something."""
    words = re.findall(r"[a-z0-9]+", body.lower())
    telling = [word for word in words if ranks.get(word, 0) >= 60]
    picks = [
        generator.choice(telling if telling and generator.random() < 0.8 else words) for _ in range(_count(generator))
    ]
    if len(words) > 3 and generator.random() < 0.2:
        at = generator.randrange(len(words) - 1)
        picks[0] = " ".join(words[at : at + 2])
    return tuple(dict.fromkeys(picks))


def _day(generator: random.Random, sent_at: str, first: int, last: int) -> str:
    return (date.fromisoformat(sent_at[:10]) + timedelta(days=generator.randint(first, last))).isoformat()

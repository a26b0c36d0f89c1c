"""The searches that cost the most among those that are accepted: many common words, in the biggest inboxes.

Words from the most common to rather rare ones, alone, as phrases, or each beside a rare one, as many as the limits
take; all or any of them, newest or best first. What is refused is left out.
"""

from __future__ import annotations

import random
import sqlite3
from collections import Counter
from collections.abc import Iterator
from itertools import product
from typing import Any

from email_env.errors import ToolInputError
from email_env.search.database import ORDERS, MailDatabase
from email_env.search.query import MAX_KEYWORDS, MAX_SEARCH_WORDS, who

from .corpus import Corpus


def hardest(corpus: Corpus, database: MailDatabase, connection: sqlite3.Connection) -> Iterator[dict[str, Any]]:
    """Arguments of `MailDatabase.search`."""
    words = [word for (word,) in connection.execute("SELECT word FROM common_words ORDER BY mails DESC")]
    words += [word for word in corpus.words[:20_000] if word not in set(words)][:200]
    inboxes = _inboxes(connection)
    generator = random.Random(0)
    starts = [0, 5, 20, 40, 100, 200, 400, 800, 1_600, 3_200, len(words) - 200, len(words) - 60]
    for start, size, inbox in product(starts, (1, 2, 3), inboxes):
        near = words[start : start + 60]
        rare = words[-200:]
        for pool in ([near] * size, [near, *[rare] * (size - 1)], [words] * size):
            keywords: list[str] = []
            while len(keywords) < min(MAX_KEYWORDS, MAX_SEARCH_WORDS // size):
                keywords.append(" ".join(generator.choice(part) for part in pool if part))
            for match, order in product(("all", "any"), ORDERS):
                arguments = {"inbox": inbox, "until": "2003-01-01", "match": match, "order": order, "snippet_words": 64}
                if fitting := _accepted(database, arguments, keywords):
                    yield arguments | {"keywords": fitting}


def _inboxes(connection: sqlite3.Connection) -> list[str]:
    """The two biggest and a small one, by a sample."""
    people = Counter(
        token
        for (tokens,) in connection.execute("SELECT who FROM emails WHERE id % 7 = 0")
        for token in tokens.split()
        if token.startswith(who("p", ""))
    ).most_common()
    chosen = [people[0], people[1], people[len(people) // 20]]
    find = "SELECT address FROM addresses WHERE ? || id = ?"
    return [connection.execute(find, (who("p", ""), token)).fetchone()[0] for token, _ in chosen]


def _accepted(database: MailDatabase, arguments: dict[str, Any], keywords: list[str]) -> list[str]:
    """As many of the keywords as are accepted."""
    for count in range(len(keywords), 0, -1):
        try:
            database.search(**arguments, keywords=keywords[:count])
        except ToolInputError:
            continue
        return keywords[:count]
    return []

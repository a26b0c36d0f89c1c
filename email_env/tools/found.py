"""What a search of an agent finds: mail with all keywords, and where that is little, mail with some of their words."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from email_env.errors import ToolInputError
from email_env.scenarios.scenario import Scenario
from email_env.search.database import MailDatabase, SearchHit
from email_env.search.query import MAX_KEYWORDS, split_words


@dataclass(frozen=True, slots=True)
class Found:
    """The outcome of a search.

    Attributes:
        hits: what is shown; those with all keywords come first.
        full: how many of `hits` have all keywords.
        total: how many mails have all keywords, up to `MAX_COUNTED`; where nobody counted them, `full`.
        offset: how many hits were left out from the top.
        alone: of a search that no mail fits, (keyword or filters as text, mails that fit it alone).
    """

    hits: tuple[SearchHit, ...]
    full: int
    total: int
    offset: int = 0
    alone: tuple[tuple[str, int], ...] = ()


@dataclass(frozen=True, slots=True)
class Finder:
    """Searches as an agent's tool does.

    Attributes:
        database: the mail.
        snippet_words: words of the body in a hit.
        order: of mail with all keywords, "newest" or "relevance".
        fallback_any: False: all keywords must occur. True: where no mail has them all, mail with any of them is shown,
            best match first. "fill": mail with some of the keywords' words fills what mail with all of them leaves of
            the list.
        count: whether to count what is not shown.
    """

    database: MailDatabase
    snippet_words: int
    order: str
    fallback_any: bool | str
    count: bool

    def find(
        self, scenario: Scenario, keywords: Sequence[str], max_results: int, offset: int, filters: Mapping[str, str]
    ) -> Found:
        """What the inbox of the scenario has for these keywords and filters.

        Raises:
            ToolInputError: an argument cannot be used.
        """
        where: dict[str, Any] = {"inbox": scenario.inbox, "until": scenario.query_date, **filters}
        page: dict[str, Any] = {"max_results": max_results, "snippet_words": self.snippet_words}
        hits = self.database.search(keywords=keywords, order=self.order, offset=offset, **where, **page)
        top = hits
        if offset and len(hits) < max_results:
            top = self.database.search(keywords=keywords, order=self.order, **where, **page)
        full = total = len(hits)
        if len(top) < max_results:
            total = len(top)
            more = where | page | {"max_results": max_results - full, "offset": max(0, offset - total)}
            hits += self._partial(keywords, top, more)
        elif self.count:
            total = self.database.count(keywords=keywords, **where)
        alone = self._alone(keywords, filters, where) if self.count and not total else ()
        return Found(tuple(hits), full, total, offset, alone)

    def _partial(self, keywords: Sequence[str], top: Sequence[SearchHit], more: dict[str, Any]) -> list[SearchHit]:
        """Hits for some of the keywords where `top`, the mail with all of them, leaves room for any."""
        if not self.fallback_any or not keywords or (top and self.fallback_any is True):
            return []
        if self.fallback_any is not True:
            keywords = split_words(keywords)[:MAX_KEYWORDS] or keywords
            more["leave_out"] = [hit.message_id for hit in top]
        with suppress(ToolInputError):  # single words may cost more than their phrase
            return self.database.search(keywords=keywords, match="any", order="relevance", **more)
        return []

    def _alone(
        self, keywords: Sequence[str], filters: Mapping[str, str], where: Mapping[str, Any]
    ) -> tuple[tuple[str, int], ...]:
        """How many mails fit each keyword, and all filters together; nothing where there is but one of these.

        Of a single phrase these are its words.
        """
        parts = keywords if len(keywords) > 1 else split_words(keywords)[:MAX_KEYWORDS]
        if len(parts) + bool(filters) < 2:
            return ()
        inbox = {name: value for name, value in where.items() if name not in filters}
        found = [(f'"{part}"', self.database.count(keywords=[part], **inbox)) for part in parts]
        if filters:
            given = " and ".join(f"{name} {value}" for name, value in filters.items())
            found.append((given, self.database.count(keywords=[], **where)))
        return tuple(found)

"""What a search of an agent finds: mail with all keywords, and where that is little, mail with some of their words."""

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from email_env.errors import ToolInputError
from email_env.scenarios.scenario import Scenario
from email_env.search.database import MailDatabase, SearchHit
from email_env.search.query import MAX_KEYWORDS, similar, split_words
from email_env.tools.schemas import ToolOptions


@dataclass(frozen=True, slots=True)
class Found:
    """The outcome of a search.

    Attributes:
        hits: what is shown; those with all keywords come first.
        full: how many of `hits` have all keywords.
        total: how many mails have all keywords, up to `MAX_COUNTED`; where nobody counted them, `full`.
        offset: how many hits were left out from the top.
        alone: of a search that no mail fits, (keyword, other form of one, or filters as text; mails that fit it alone).
    """

    hits: tuple[SearchHit, ...]
    full: int
    total: int
    offset: int = 0
    alone: tuple[tuple[str, int], ...] = ()


@dataclass(frozen=True, slots=True)
class Finder:
    """Searches as an agent's tool does."""

    database: MailDatabase
    options: ToolOptions

    def find(
        self,
        scenario: Scenario,
        keywords: Sequence[str],
        max_results: int | None = None,
        offset: int = 0,
        **filters: str,
    ) -> Found:
        """What `search_inbox` shows of the scenario's inbox for these keywords and filters.

        Raises:
            ToolInputError: an argument cannot be used.
        """
        max_results = max_results or self.options.max_results
        where: dict[str, Any] = {"inbox": scenario.inbox, "until": scenario.query_date, **filters}
        page: dict[str, Any] = {"max_results": max_results, "snippet_words": self.options.snippet_words}
        ordered: dict[str, Any] = {"keywords": keywords, "order": self.options.order, **where, **page}
        hits = top = self.database.search(offset=offset, **ordered)
        if offset and len(hits) < max_results:
            top = self.database.search(**ordered)
        full = total = len(hits)
        if len(top) < max_results:
            total = len(top)
            more = where | page | {"max_results": max_results - full, "offset": max(0, offset - total)}
            hits += self._partial(keywords, top, more)
        elif not self.options.terse:
            total = self.database.count(keywords=keywords, **where)
        alone = () if total or self.options.terse else self._alone(keywords, filters, where)
        return Found(tuple(hits), full, total, offset, alone)

    def _partial(self, keywords: Sequence[str], top: Sequence[SearchHit], more: dict[str, Any]) -> list[SearchHit]:
        """Hits for some of the keywords where `top`, the mail with all of them, leaves room for any."""
        fallback = self.options.fallback_any
        if not fallback or not keywords or (top and fallback is True):
            return []
        if fallback is not True:
            keywords = split_words(keywords)[:MAX_KEYWORDS] or keywords
            more["leave_out"] = [hit.message_id for hit in top]
        with suppress(ToolInputError):  # single words may cost more than their phrase
            return self.database.search(keywords=keywords, match="any", order="relevance", **more)
        return []

    def _alone(
        self, keywords: Sequence[str], filters: Mapping[str, str], where: Mapping[str, Any]
    ) -> tuple[tuple[str, int], ...]:
        """How many mails fit each keyword, the words of a single one, and all filters; nothing where these are one.

        Behind a keyword that no mail has stands the first form of it that any mail has.
        """
        inbox = {name: value for name, value in where.items() if name not in filters}
        words = split_words(keywords)[:MAX_KEYWORDS] if len(keywords) == 1 else ()
        found: dict[str, int] = {}
        for part in dict.fromkeys((*words, *keywords)):
            for form in (part, *similar(part)):
                with suppress(ToolInputError):
                    count = self.database.count(keywords=[form], **inbox)
                    if count or form == part:
                        found[f'"{form}"'] = count
                    if count:
                        break
        if filters:
            given = " and ".join(f"{name} {value}" for name, value in filters.items())
            found[given] = self.database.count(keywords=[], **where)
        return tuple(found.items()) if len(found) > 1 else ()

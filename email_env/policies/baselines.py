"""Baselines without a model: searches for the question or its words, a BM25 ranking, and chance."""

from collections.abc import Iterator
from contextlib import suppress
from itertools import islice
from typing import ClassVar

from email_env.errors import ToolInputError
from email_env.policies.policy import PlayedEnv, ScriptedPolicy, answer, hit_ids, read, search
from email_env.policies.words import answer_span, content_words, telling_words
from email_env.scenarios.scenario import DONT_KNOW, Scenario
from email_env.spaces import ToolCallSpace
from email_env.tools.actions import MAX_ACTION_CHARS


class KeywordPolicy(ScriptedPolicy):
    """The plain baseline: search for the question's words, fewer each time, read the first hit, copy what fits.

    The words stand in the question's order: a model that imitates the script copies them.
    """

    _MAX_WORDS: ClassVar[int] = 6

    def searches(self, question: str) -> Iterator[list[str]]:
        """Keywords to search for, one search after the other while nothing is found."""
        words, telling = content_words(question), telling_words(question)[: self._MAX_WORDS]
        for count in range(len(telling), 0, -1):
            yield sorted(telling[:count], key=words.index)

    def actions(self) -> Iterator[str]:
        """Searches until something is found, reads it and answers; "I don't know" where nothing is."""
        question = self.observation
        turns_for_search = max(0, self.env.max_turns - 2)
        hits: list[str] = []
        for keywords in islice(self.searches(question), turns_for_search):
            yield search(keywords)
            if hits := hit_ids(self.observation)[:1]:
                break
        text = DONT_KNOW
        for hit in hits:
            yield read(hit)
            text = answer_span(question, self.observation)
        yield from answer(text, hits)


class VerbatimPolicy(KeywordPolicy):
    """The plainest search: for the question as it stands, which mail with some of its words answers (`fallback_any`).

    Its words are the question's, token for token: a small model that imitates it copies names that it never saw.
    """

    def searches(self, question: str) -> Iterator[list[str]]:
        """The question."""
        yield [question]


class Bm25Policy(ScriptedPolicy):
    """Retrieval without a search of its own words: the mail that BM25 ranks first for the question, and a span of it.

    It ranks the inbox, as far as the agent may see it, by all telling words of the question at once, which the tools
    do not offer by default.
    """

    def actions(self) -> Iterator[str]:
        """Reads the first mail of the ranking and answers; "I don't know" where no word occurs."""
        question = self.observation
        text, sources = DONT_KNOW, list[str]()
        best = self._best(telling_words(question), self.scenario)
        if best and self.env.max_turns > 1:
            yield read(best)
            text, sources = answer_span(question, self.observation), [best]
        yield from answer(text, sources)

    def _best(self, words: list[str], scenario: Scenario) -> str:
        """Id of the first mail of the ranking, "" where there is none; costly searches go without plain words."""
        for count in range(len(words), 0, -1):
            with suppress(ToolInputError):
                hits = self.env.database.search(
                    inbox=scenario.inbox,
                    keywords=words[:count],
                    until=scenario.query_date,
                    match="any",
                    order="relevance",
                    max_results=1,
                    snippet_words=1,
                )
                return hits[0].message_id if hits else ""
        return ""


class RandomPolicy(ScriptedPolicy):
    """Valid calls by chance: samples of the action space."""

    def __init__(self, env: PlayedEnv, *, seed: int = 0) -> None:
        super().__init__(env, seed=seed)
        self._space = ToolCallSpace(MAX_ACTION_CHARS, seed=seed)

    def actions(self) -> Iterator[str]:
        """Random calls."""
        while True:
            yield self._space.sample()

"""Policies without a model: an expert who knows the answer, plain searches, and chance.

    policy = OraclePolicy(env.unwrapped, seed=0)
    observation, info = env.reset(seed=0)
    while not done: observation, _, terminated, truncated, info = env.step(policy.act(observation, info))

They are for tests, warm starts and comparison. An `info` with "tools" in it, as `reset` gives it, begins a
new episode. Only the oracle looks at the scenario; the others see what a model sees.
"""

from __future__ import annotations

import itertools
import random
import re
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any, ClassVar, Protocol

from email_env.errors import ToolInputError
from email_env.spaces import ToolCallSpace, format_call

if TYPE_CHECKING:
    from email_env.env import EmailSearchEnv
    from email_env.scenarios import Scenario

DONT_KNOW = "I don't know"

_WORD = re.compile(r"[^\W_]+(?:['’&-][^\W_]+)*")
_STOP_WORDS = frozenset(
    "a about after all also am an and any are as at be been before but by can could day did do does during"  # noqa: SIM905
    " each find for from get give had has have he her him his how i if in into is it its just kind long many"
    " may me most much must my name no not of off on one or our out over please said say see set she should so"
    " some such take tell than that the their them then there these they this those to up use used was we were"
    " what when where which who whom whose why will with would you your".split()
)
_HIT = re.compile(r"^(\S+) \| \d{4}-\d{2}-\d{2} \| ", re.MULTILINE)
_MONTHS = "January|February|March|April|May|June|July|August|September|October|November|December"
_DATE = rf"\b\d{{1,2}} (?:{_MONTHS})(?: \d{{4}})?|\b(?:{_MONTHS}) \d{{1,2}}(?:, \d{{4}})?"
_WEEKDAY = r"\b(?:Mon|Tues|Wednes|Thurs|Fri|Satur|Sun)day\b"
_NAME = r"\b[A-Z][a-z]+ [A-Z][a-z]+\b"
# What a question asks for, and how that looks in a mail; the first that fits is taken.
_ANSWER_FORMS = (
    (r"\bweekday|(?:which|what) day of\b", _WEEKDAY),
    (r"\bwhat time|\bwhat hour|o'clock\b", r"\b\d{1,2}[:.]\d{2}\b(?: ?[ap]m)?"),
    (r"\bwhen|\bdate|\bwhat day|\bwhich day|\bdue\b", _DATE),
    (r"\bhow much|cost|price|amount|budget|\bpay|\bpaid", r"[$€£] ?\d[\d,.]*\d"),
    (r"\broom\b", r"\bRoom \d+|\b[A-Z][a-z]+ Room\b"),
    (r"\bwho|\bwhom|\bname\b", _NAME),
    (r"\bcode|number|\bid\b|reference|ticket", r"\b[A-Z]+-?\d[\w-]*|\b\d{3,}[\d-]*\b"),
    (r"\bhow many\b", r"\b\d+\b"),
    (r"\bwhere|city|town|place\b", r"(?<=\bin )[A-Z][a-z]+|(?<=\bto )[A-Z][a-z]+|(?<=\bat )[A-Z][a-z]+"),
)


class ScriptedPolicy(Protocol):
    """What the policies here have in common."""

    def __init__(self, env: EmailSearchEnv, *, seed: int = 0) -> None: ...

    def act(self, observation: str, info: dict[str, Any]) -> str:
        """The next action, in `<tool_call>` form."""
        ...


class _Plan(ABC):
    """A policy that writes its actions down in order, reading each observation as it comes."""

    def __init__(self, env: EmailSearchEnv, *, seed: int = 0) -> None:
        self.env = env
        self.observation = ""
        self._actions: Iterator[str] = iter(())

    def act(self, observation: str, info: dict[str, Any]) -> str:
        """The next action, in `<tool_call>` form."""
        self.observation = observation
        if "tools" in info:
            self._actions = self.actions()
        return next(self._actions)

    @abstractmethod
    def actions(self) -> Iterator[str]:
        """The actions of one episode."""


class OraclePolicy(_Plan):
    """The expert: follows the scenario's plan, or finds the evidence by its subject, and gives the reference answer.

    It always answers on the last turn at the latest. `seed` changes nothing.
    """

    def actions(self) -> Iterator[str]:
        """Searches and reads as planned, then answers."""
        scenario = self.env.scenario
        assert scenario is not None, "the environment was reset"
        steps = [_step(tool, arguments) for tool, arguments in scenario.plan] or list(self._steps(scenario))
        yield from steps[: self.env.max_turns - 1]
        yield from self._answers(scenario)

    def _answers(self, scenario: Scenario) -> Iterator[str]:
        """The reference answer, as often as it is asked for."""
        while True:
            answer = scenario.answer if scenario.answerable else DONT_KNOW
            yield format_call("return_final_answer", {"answer": answer, "sources": list(scenario.message_ids)})

    def _steps(self, scenario: Scenario) -> Iterator[str]:
        """A search and a read for each piece of evidence; for none, a search with the question's words."""
        for message_id in scenario.message_ids:
            yield format_call("search_inbox", self._finding(message_id, scenario))
            yield format_call("read_email", {"message_id": message_id})
        if not scenario.message_ids:
            yield format_call("search_inbox", {"keywords": content_words(scenario.question)[:2] or ["answer"]})

    def _finding(self, message_id: str, scenario: Scenario) -> dict[str, Any]:
        """Arguments of a search that shows the mail: words of its subject, as few as do, else with sender and day."""
        email = self.env.database.read(message_id, inbox=scenario.inbox, until=scenario.query_date)
        if email is None:
            return {"keywords": content_words(scenario.question)[:2] or ["answer"]}
        words = content_words(email.subject) or content_words(email.body)
        choices: list[dict[str, Any]] = [{"keywords": words[:count]} for count in range(1, min(len(words), 6) + 1)]
        choices += [choice | {"sent_after": email.sent_at[:10]} for choice in choices]
        choices += [choice | {"from_addr": email.from_addr} for choice in choices if email.from_addr]
        for choice in choices:
            if any(hit.message_id == email.message_id for hit in self.env.toolbox.search(scenario, **choice)[0]):
                return choice
        return choices[-1] if choices else {"keywords": [message_id]}


class TutorPolicy(OraclePolicy):
    """The expert for warm starts: shows what a small model can copy, and how to recover.

    Its searches take words the reader has seen, in the question or in mail, where those find the next mail of the
    expert's plan; an expert's synonyms teach a small model to invent words. In two episodes of three (by ``seed``) it
    stumbles where the turns allow: a search that finds nothing comes first, or another mail of the list is read before
    the right one. ``imitate`` is False during a step that leads nowhere: it is there to be recovered from.
    """

    STUMBLES: ClassVar[tuple[str, ...]] = ("", "search", "read")
    _MAX_WORDS: ClassVar[int] = 5

    def __init__(self, env: EmailSearchEnv, *, seed: int = 0) -> None:
        super().__init__(env, seed=seed)
        self.imitate = True
        self._random = random.Random(seed)

    def actions(self) -> Iterator[str]:
        """The expert's steps in words already seen, perhaps with a stumble on the way, then the answer."""
        scenario = self.env.scenario
        assert scenario is not None, "the environment was reset"
        plan = [*scenario.plan, ("answer", ())]
        stumble = self._random.choice(self.STUMBLES) if self.env.max_turns > len(plan) else ""
        seen = self.observation
        if stumble == "search" and (missing := self._missing_keywords(scenario)):
            yield from self._without_imitation(format_call("search_inbox", {"keywords": missing}))
        for (tool, arguments), (next_tool, next_arguments) in itertools.pairwise(plan):
            if tool == "search" and next_tool == "read":
                keywords = self._seen_keywords(arguments, next_arguments[0], scenario, seen, 1 + (stumble == "read"))
                yield format_call("search_inbox", {"keywords": keywords})
                others = [hit for hit in _HIT.findall(self.observation) if hit != next_arguments[0]]
                if stumble == "read" and others:
                    stumble = ""
                    yield from self._without_imitation(_step("read", (self._random.choice(others),)))
            elif tool == "search" and scenario.answerable:
                yield from self._without_imitation(_step(tool, arguments))
            else:
                yield _step(tool, arguments)
            seen += self.observation
        yield from self._answers(scenario) if scenario.plan else super().actions()

    def _without_imitation(self, action: str) -> Iterator[str]:
        self.imitate = False
        yield action
        self.imitate = True

    def _seen_keywords(
        self, planned: Sequence[str], message_id: str, scenario: Scenario, seen: str, least_hits: int
    ) -> list[str]:
        """Of the planned keywords that were seen, and the question's words by one, two and three, what lists the mail
        highest among the fewest (no fewer than ``least_hits`` where that can be); the planned keywords where nothing
        lists it. Names come first.
        """
        words = telling_words(scenario.question)[: self._MAX_WORDS]
        known = [word for word in sorted(planned, key=_named, reverse=True) if word.casefold() in seen.casefold()]
        best, best_place = list(planned), (True, self.env.max_results, 0)
        choices = itertools.chain([known], *(itertools.combinations(words, count) for count in (1, 2, 3)))
        for choice in filter(None, choices):
            ids = [hit.message_id for hit in self.env.toolbox.search(scenario, choice)[0]]
            if message_id in ids and (place := (len(ids) < least_hits, ids.index(message_id), len(ids))) < best_place:
                best, best_place = list(choice), place
        return best

    def _missing_keywords(self, scenario: Scenario) -> list[str]:
        """Words of the question that no mail holds together, as a hasty searcher would take them; else none."""
        words = content_words(scenario.question)
        for count in (2, 2, 3, 3, 4):
            chosen = self._random.sample(words, min(count, len(words)))
            if not chosen:
                break
            if not self.env.toolbox.search(scenario, chosen)[0]:
                return chosen
        return []


class KeywordPolicy(_Plan):
    """The plain baseline: search for the question's words, fewer each time, read the first hit, copy what fits."""

    _MAX_WORDS: ClassVar[int] = 6

    def actions(self) -> Iterator[str]:
        """Searches until something is found, reads it and answers; "I don't know" where nothing is."""
        question = self.observation
        words = telling_words(question)[: self._MAX_WORDS]
        turns_for_search = max(0, self.env.max_turns - 2)
        hit = None
        for count in range(len(words), 0, -1)[:turns_for_search]:
            yield format_call("search_inbox", {"keywords": words[:count]})
            if hit := _HIT.search(self.observation):
                break
        answer, sources = DONT_KNOW, []
        if hit:
            yield format_call("read_email", {"message_id": hit[1]})
            answer, sources = answer_span(question, self.observation), [hit[1]]
        while True:
            yield format_call("return_final_answer", {"answer": answer, "sources": sources})


class Bm25Policy(_Plan):
    """Retrieval without a search of its own words: the mail that BM25 ranks first for the question, and a span of it.

    It ranks the inbox, as far as the agent may see it, by all telling words of the question at once, which the tools
    do not offer by default.
    """

    def actions(self) -> Iterator[str]:
        """Reads the first mail of the ranking and answers; "I don't know" where no word occurs."""
        question, scenario = self.observation, self.env.scenario
        assert scenario is not None, "the environment was reset"
        answer, sources = DONT_KNOW, []
        best = self._best(telling_words(question), scenario)
        if best and self.env.max_turns > 1:
            yield format_call("read_email", {"message_id": best})
            answer, sources = answer_span(question, self.observation), [best]
        while True:
            yield format_call("return_final_answer", {"answer": answer, "sources": sources})

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


class RandomPolicy:
    """Valid calls by chance: samples of the action space."""

    def __init__(self, env: EmailSearchEnv, *, seed: int = 0) -> None:
        self._space = ToolCallSpace(env.action_space.max_length, seed=seed)  # type: ignore[attr-defined]

    def act(self, observation: str, info: dict[str, Any]) -> str:
        """A random call."""
        return self._space.sample()


SCRIPTED_POLICIES: dict[str, type[ScriptedPolicy]] = {
    "oracle": OraclePolicy,
    "tutor": TutorPolicy,
    "keyword": KeywordPolicy,
    "bm25": Bm25Policy,
    "random": RandomPolicy,
}


def content_words(text: str) -> list[str]:
    """The words of a text that say something, each once, in their order."""
    words = [word for word in _WORD.findall(text) if word.casefold() not in _STOP_WORDS and len(word) > 1]
    return list(dict.fromkeys(words))


def telling_words(question: str) -> list[str]:
    """The content words of a question, names and numbers first, then long words before short ones."""
    first = _WORD.search(question)
    opening = first[0] if first else ""

    def plainness(word: str) -> tuple[bool, int]:
        capital_only = word == opening and not any(map(str.isdigit, word))
        return capital_only or not _named(word), -len(word)

    return sorted(content_words(question), key=plainness)


def _named(words: str) -> bool:
    """Whether a word or phrase looks like a name or a number."""
    return words[0].isupper() or any(map(str.isdigit, words))


def answer_span(question: str, email: str) -> str:
    """The first span of a mail that looks like what the question asks for, else the sentence nearest to it."""
    body = email.partition("\n\n")[2]
    for asked, form in _ANSWER_FORMS:
        if re.search(asked, question, re.IGNORECASE):
            spans = (match[0] for match in re.finditer(form, body))
            if span := next((span for span in spans if span.casefold() not in question.casefold()), None):
                return span
    wanted = {word.casefold() for word in content_words(question)}
    sentences = re.split(r"(?<=[.!?])\s+|\n+", body)
    nearest = max(sentences, key=lambda sentence: len(wanted.intersection(map(str.casefold, content_words(sentence)))))
    return nearest.strip()[:200] or DONT_KNOW


def _step(tool: str, arguments: tuple[str, ...]) -> str:
    if tool == "search":
        return format_call("search_inbox", {"keywords": list(arguments)})
    if tool == "read" and len(arguments) == 1:
        return format_call("read_email", {"message_id": arguments[0]})
    raise ValueError(f'A plan has steps ("search", keywords) and ("read", (message id,)), got {(tool, arguments)!r}.')

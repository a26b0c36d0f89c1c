"""From the questions of a finished mailbox to scenarios.

For every question a day is drawn on which it is asked. The ledger gives the answer and its evidence as of that day.
Then an expert's plan is sought: keyword searches that find each piece of evidence among the newest hits. A question
without such a plan is dropped. The keywords of an easy question are copied from it; of a medium or hard question, at
least one keyword of the first search is.
"""

import random
import sqlite3
from collections.abc import Callable, Sequence
from contextlib import closing
from dataclasses import dataclass
from datetime import date, timedelta

from email_env.demo.mailbox import LAST_DAY, Ask, Mailbox
from email_env.demo.values import UNKNOWN, Value
from email_env.demo.writer import Draft
from email_env.search.query import index_words

Search = tuple[str, ...]
EXPERT_HITS = 5
"""The evidence must be among so many newest hits."""
_INDEX = "CREATE VIRTUAL TABLE mails USING fts5(subject, body, day UNINDEXED)"
_NEWEST = "SELECT rowid FROM mails WHERE mails MATCH ? AND day <= ? ORDER BY rowid LIMIT ?"
_STOP_WORDS = frozenset(
    """
    a an the of for to in on at is are was were be been it its do does did done has have had i we you me my
    our us your he she they what when where which who whom whose how why that this these those than or and
    as by from with about into until will would can could may might must should shall there here if not no
    so up out s t
    """.split()  # noqa: SIM905
)


@dataclass(frozen=True, slots=True)
class Answered:
    """A question with its answer, evidence and plan; a step is a search (keywords) or a mail to read."""

    ask: Ask
    query_date: date
    answer: Value
    evidence: tuple[Draft, ...]
    steps: tuple[Search | Draft, ...]


def answer_all(box: Mailbox) -> list[Answered]:
    """Every question of the mailbox for which a plan exists, in the order in which they were asked, none twice."""
    newest_first = sorted(box.drafts, key=lambda draft: draft.sent, reverse=True)
    answered: dict[str, Answered] = {}
    with closing(sqlite3.connect(":memory:")) as index:
        index.execute(_INDEX)
        rows = [(draft.subject, draft.body, draft.sent.date().isoformat()) for draft in newest_first]
        index.executemany("INSERT INTO mails VALUES (?, ?, ?)", rows)

        def search(keywords: Search, until: date) -> list[Draft]:
            phrases = " ".join(f'"{keyword}"' for keyword in keywords)
            hits = index.execute(_NEWEST, (phrases, until.isoformat(), EXPERT_HITS))
            return [newest_first[number - 1] for (number,) in hits]

        for ask in box.asks:
            found = _answer(box, ask, search) if ask.question not in answered else None
            if found:
                answered[ask.question] = found
    return list(answered.values())


def content_words(question: str) -> list[str]:
    """The question's tokens without stop words, in order, each once."""
    return [word for word in dict.fromkeys(index_words(question)) if word not in _STOP_WORDS]


def choose(
    answered: Sequence[Answered], quotas: dict[str, int], unanswerable: int, rng: random.Random
) -> list[Answered]:
    """Draw questions: so many of each difficulty, among them so many without an answer, in random order.

    Where a difficulty has too few questions, the inbox has fewer.
    """
    drawn = rng.sample(answered, len(answered))
    missing = [item for item in drawn if item.answer is UNKNOWN][:unanswerable]
    room = dict(quotas)
    chosen: list[Answered] = []
    for item in missing + [item for item in drawn if item.answer is not UNKNOWN]:
        if room[item.ask.difficulty] > 0:
            room[item.ask.difficulty] -= 1
            chosen.append(item)
    rng.shuffle(chosen)
    return chosen


def _answer(box: Mailbox, ask: Ask, search: Callable[[Search, date], list[Draft]]) -> Answered | None:
    held = [box.newest(claim, ask.before) for claim in ask.claims]
    drafts = [assertion.draft for assertion in held if assertion]
    if len(drafts) < len(held) - ask.missing:
        return None
    first_day = max([draft.sent.date() + timedelta(days=1) for draft in drafts] + ([ask.after] if ask.after else []))
    last_day = (ask.before or LAST_DAY.date()) - timedelta(days=1)
    if first_day > last_day:
        return None
    span = (last_day - first_day).days
    day = first_day + timedelta(days=box.rng.randint(0, min(span, 40) if box.chance(0.6) else span))
    for query_date in dict.fromkeys((day, first_day)):
        steps = _plan(box, ask, drafts, lambda keywords, until=query_date: search(keywords, until))
        if steps is not None:
            last = held[-1]
            if ask.missing or last is None:
                return Answered(ask, query_date, UNKNOWN, (), steps)
            return Answered(ask, query_date, ask.answer or last.value, tuple(dict.fromkeys(drafts)), steps)
    return None


def _plan(
    box: Mailbox, ask: Ask, drafts: Sequence[Draft], search: Callable[[Search], list[Draft]]
) -> tuple[Search | Draft, ...] | None:
    steps: list[Search | Draft] = []
    for number, hop in enumerate(ask.hops):
        searches = _allowed(ask, box.rng.sample(hop, len(hop)), first=number == 0)
        if number < len(drafts):
            works = next((keywords for keywords in searches if drafts[number] in search(keywords)), None)
            if works is None:
                return None
            if number == 0 and ask.difficulty == "medium" and box.chance(0.2):
                steps += _vain_search(box, ask, works, search)
            steps += [works, drafts[number]]
        else:
            steps += _search_in_vain(ask, searches, search)
    return tuple(steps)


def _allowed(ask: Ask, searches: Sequence[Search], *, first: bool) -> list[Search]:
    if not first:
        return list(searches)
    words = set(index_words(ask.question))
    rule = all if ask.difficulty == "easy" else any
    return [search for search in searches if rule(set(index_words(keyword)) <= words for keyword in search)]


def _vain_search(box: Mailbox, ask: Ask, good: Search, search: Callable[[Search], list[Draft]]) -> list[Search | Draft]:
    """A first try with the question's own words that finds nothing, as an expert would make it too."""
    words = set(index_words(ask.question))
    named = next((keyword for keyword in good if set(index_words(keyword)) <= words), "")
    others = [word for word in content_words(ask.question) if word not in index_words(" ".join(good))]
    if not named or not others:
        return []
    attempt = (named, box.rng.choice(others))
    return [attempt] if not search(attempt) else []


def _search_in_vain(
    ask: Ask, searches: Sequence[Search], search: Callable[[Search], list[Draft]]
) -> list[Search | Draft]:
    """A search, a broader one where it finds nothing, and a look at a mail that leaves the matter open."""
    narrow = next((keywords for keywords in searches if len(keywords) > 1), searches[0])
    steps: list[Search | Draft] = [narrow]
    hits = search(narrow)
    if not hits and len(ask.hops) == 1:
        broad = (next(keyword for keyword in narrow if keyword[0].isupper()),)
        steps.append(broad)
        hits = search(broad)
    return [*steps, ask.open_mail] if ask.open_mail in hits else steps

"""Numbers about a corpus: its size and shape, and how far simple searches get.

`measure` returns the rows of the table in `data/README.md`.
"""

import itertools
import json
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict
from hashlib import sha256
from statistics import median, quantiles

from email_env.demo import DemoCorpus
from email_env.demo.lookup import Lookup, content_words
from email_env.mail import ParsedMail
from email_env.scenarios.scenario import SPLITS, Scenario

HITS = 5
"""A search finds the evidence if one of its mails is among so many newest hits."""

_WRITTEN = (
    "message_id",
    "sent_at",
    "date_ok",
    "from_addr",
    "from_name",
    "to",
    "cc",
    "bcc",
    "subject",
    "body",
    "source",
)
Rate = dict[str, float]
Searches = Callable[[str], list[list[str]]]


class Searcher:
    """Searches the inboxes of a corpus in memory.

    Args:
        corpus: The mails are indexed once per inbox.
    """

    def __init__(self, corpus: DemoCorpus) -> None:
        self._mails: dict[str, list[ParsedMail]] = {scenario.inbox: [] for scenario in corpus.scenarios}
        for mail in corpus.mails:
            for address in {mail.from_addr, *mail.to, *mail.cc} & self._mails.keys():
                self._mails[address].append(mail)
        self._indexes = {
            inbox: Lookup((mail.sent_at, mail.subject, mail.body) for mail in mails)
            for inbox, mails in self._mails.items()
        }

    def search(self, scenario: Scenario, keywords: Sequence[str]) -> list[str]:
        """Ids of the newest hits of an AND search as of the scenario's day."""
        numbers = self._indexes[scenario.inbox].search(keywords, scenario.query_date, HITS)
        return [self._mails[scenario.inbox][number].message_id for number in numbers]

    def finds(self, scenario: Scenario, keywords: Sequence[str]) -> bool:
        """Whether any of the evidence is among the hits."""
        return not set(scenario.message_ids).isdisjoint(self.search(scenario, keywords))


def all_words(question: str) -> list[list[str]]:
    """One search with every content word of the question."""
    return [content_words(question)]


def capitalised_pair(question: str) -> list[list[str]]:
    """One search with the first name-like word and the word after it that is no stop word: a naive baseline."""
    words = content_words(question)
    names = [word.lower() for word in question.replace("?", " ").split()[1:] if word[0].isupper()]
    place = next((index for index, word in enumerate(words) if word in names), 0)
    return [words[place : place + 2]]


def any_pair(question: str) -> list[list[str]]:
    """Every pair of content words: what a lucky guess of two words could find."""
    return [list(pair) for pair in itertools.combinations(content_words(question), 2)]


def find_rates(searcher: Searcher, scenarios: Sequence[Scenario], searches: Searches) -> tuple[Rate, Rate]:
    """How often searches find the evidence of answerable questions, by difficulty.

    Args:
        searcher: Searches the inboxes.
        scenarios: The questions.
        searches: From a question to the searches to try.

    Returns:
        The share of questions that the best of the searches finds, and the mean share of searches that find it.
    """
    totals: Counter[str] = Counter()
    best: Counter[str] = Counter()
    mean: dict[str, float] = dict.fromkeys(("easy", "medium", "hard"), 0.0)
    for scenario in scenarios:
        if scenario.answerable:
            hits = [searcher.finds(scenario, keywords) for keywords in searches(scenario.question)]
            totals[scenario.difficulty] += 1
            best[scenario.difficulty] += any(hits)
            mean[scenario.difficulty] += sum(hits) / max(1, len(hits))
    return {name: best[name] / totals[name] for name in mean}, {name: mean[name] / totals[name] for name in mean}


def measure(corpus: DemoCorpus) -> list[tuple[str, str]]:
    """Rows (what, value) about the mails, the questions and simple searches."""
    return [*_mail_rows(corpus.mails), *_question_rows(corpus.scenarios), *_search_rows(corpus), _checksum_row(corpus)]


def _mail_rows(mails: Sequence[ParsedMail]) -> list[tuple[str, str]]:
    bodies = [len(mail.body) for mail in mails]
    days = sorted(mail.sent_at[:10] for mail in mails)
    lengths = f"{median(bodies):.0f} / {quantiles(bodies, n=20)[-1]:.0f} / {max(bodies)} characters"
    return [
        ("mails", f"{len(mails):,}"),
        ("mails sent", f"{days[0]} to {days[-1]}"),
        ("senders", f"{len({mail.from_addr for mail in mails}):,}"),
        ("replies", _share(sum(mail.subject.startswith("RE: ") for mail in mails), len(mails))),
        ("forwards", _share(sum(mail.subject.startswith("FW: ") for mail in mails), len(mails))),
        ("body length, median / p95 / longest", lengths),
    ]


def _question_rows(scenarios: Sequence[Scenario]) -> list[tuple[str, str]]:
    count = len(scenarios)
    grades = Counter(scenario.difficulty for scenario in scenarios)
    return [
        ("inboxes", _by_split({scenario.inbox: scenario.split for scenario in scenarios}.values())),
        ("questions", _by_split(scenario.split for scenario in scenarios)),
        ("question length, median", f"{median(len(s.question) for s in scenarios):.0f} characters"),
        ("kinds of question", str(len({s.kind for s in scenarios}))),
        ("different questions", f"{len({s.question for s in scenarios}):,}"),
        *((f"{grade} questions", _share(grades[grade], count)) for grade in ("easy", "medium", "hard")),
        ("unanswerable questions", _share(sum(not s.answerable for s in scenarios), count)),
        ("questions with two mails of evidence", _share(sum(len(s.message_ids) == 2 for s in scenarios), count)),
        ("expert's steps before the answer, mean", f"{sum(len(s.plan) for s in scenarios) / count:.2f}"),
    ]


def _search_rows(corpus: DemoCorpus) -> list[tuple[str, str]]:
    searcher, scenarios = Searcher(corpus), corpus.scenarios
    lucky_pair, random_pair = find_rates(searcher, scenarios, any_pair)
    return [
        ("found by all words of the question", _rates(find_rates(searcher, scenarios, all_words)[0])),
        ("found by a name and the word after it", _rates(find_rates(searcher, scenarios, capitalised_pair)[0])),
        ("found by a random pair of its words", _rates(random_pair)),
        ("found by the best pair of its words", _rates(lucky_pair)),
        ("all evidence found by the expert's plan", _planned(searcher, scenarios)),
        ("place of the evidence among the expert's hits", _places(searcher, scenarios)),
    ]


def _checksum_row(corpus: DemoCorpus) -> tuple[str, str]:
    digest = sha256()
    mails = [{name: value for name, value in asdict(mail).items() if name in _WRITTEN} for mail in corpus.mails]
    for record in [*mails, *(scenario.to_dict() for scenario in corpus.scenarios)]:
        digest.update(json.dumps(record, sort_keys=True).encode() + b"\n")
    return "SHA-256 of all mails and questions as JSON lines", digest.hexdigest()


def _planned(searcher: Searcher, scenarios: Sequence[Scenario]) -> str:
    whole = 0
    answerable = [scenario for scenario in scenarios if scenario.answerable]
    for scenario in answerable:
        hits = {hit for tool, words in scenario.plan if tool == "search" for hit in searcher.search(scenario, words)}
        whole += hits.issuperset(scenario.message_ids)
    return f"{100 * whole / len(answerable):.0f} %"


def _places(searcher: Searcher, scenarios: Sequence[Scenario]) -> str:
    places: Counter[int] = Counter()
    for scenario in scenarios:
        for step, following in itertools.pairwise(scenario.plan):
            if step[0] == "search" and following[0] == "read":
                places[searcher.search(scenario, step[1]).index(following[1][0]) + 1] += 1
    total = sum(places.values())
    return ", ".join(f"{place}: {100 * places[place] / total:.0f} %" for place in sorted(places))


def _by_split(splits: Iterable[str]) -> str:
    counts = Counter(splits)
    return f"{counts.total():,} ({', '.join(f'{split} {counts[split]:,}' for split in SPLITS)})"


def _share(part: int, whole: int) -> str:
    return f"{part:,} ({100 * part / whole:.1f} %)"


def _rates(rate: Rate) -> str:
    return ", ".join(f"{difficulty} {100 * share:.0f} %" for difficulty, share in rate.items())

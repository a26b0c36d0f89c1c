"""Plays random tool calls against a mail database and checks every answer.

A call must never raise, must show nothing but mail of the scenario's inbox up to its day, and must leave the file as it
was; memory and open files must not grow with the number of calls.
"""

from __future__ import annotations

import hashlib
import multiprocessing
import os
import random
import threading
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

from email_env.scenarios.scenario import Scenario
from email_env.search.database import MailDatabase
from email_env.search.query import bare_message_id, who
from email_env.tools.toolbox import Toolbox

from .calls import Caller

WARM_UP = 0.2  # share of the calls after which memory and open files are first looked at
MAX_GROWTH_MB = 24.0


class FuzzFailure(AssertionError):
    """A call did what it must not."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """What a run saw: answered calls by kind, and what grew."""

    calls: int
    searches: int
    hits: int
    reads: int
    refused: int
    grown_mb: float
    more_files: int


class Mail:
    """What of a database the checks and the random calls need."""

    def __init__(self, path: Path) -> None:
        self.path = path
        database = MailDatabase(path)
        rows = database.connection().execute("SELECT message_id, sent_at, who, subject FROM emails").fetchall()
        people = database.connection().execute("SELECT id, address FROM addresses")
        names = {who("p", person): address for person, address in people}
        database.close()
        self.seen_by = {
            message_id: (sent_at[:10], {names[token] for token in tokens.split() if token in names})
            for message_id, sent_at, tokens, _ in rows
        }
        self.addresses = sorted(names.values())
        self.days = sorted({day for day, _ in self.seen_by.values()})
        self.words = sorted({word for *_, subject in rows for word in subject.split()}) or ["x"]

    def digest(self) -> str:
        """SHA-256 of the file."""
        with self.path.open("rb") as handle:
            return hashlib.file_digest(handle, "sha256").hexdigest()


def play(mail: Mail, database: MailDatabase, calls: int, seed: int) -> tuple[int, int, int, int]:
    """`calls` calls; returns searches, hits, mails read and calls refused.

    Raises:
        FuzzFailure: an answer shows what it must not.
    """
    generator = random.Random(seed)
    caller = Caller(generator, mail.words, mail.addresses, list(mail.seen_by))
    searches = hits = reads = refused = 0
    scenario, toolbox = _setting(generator, mail, database)
    for number in range(calls):
        if number and number % 50 == 0:
            scenario, toolbox = _setting(generator, mail, database)
        call = caller.call()
        result = toolbox.run(call, scenario)
        if result.error and not result.text.startswith("Error: "):
            raise FuzzFailure(f"{call} was refused without a word: {result}")
        if not result.text.strip():
            raise FuzzFailure(f"{call} was answered by nothing")
        for message_id in (*result.found, *([result.read] if result.read else [])):
            day, people = mail.seen_by[bare_message_id(message_id)]
            if scenario.inbox not in people or day > scenario.query_date:
                raise FuzzFailure(f"{call} of {scenario.inbox} up to {scenario.query_date} showed {message_id}")
        caller.found = result.found or caller.found
        searches += result.searched
        hits += len(result.found)
        reads += bool(result.read)
        refused += bool(result.error)
    return searches, hits, reads, refused


def _setting(generator: random.Random, mail: Mail, database: MailDatabase) -> tuple[Scenario, Toolbox]:
    """An inbox and a day, and what the tools show."""
    inbox, day = generator.choice(mail.addresses), generator.choice(mail.days)
    return Scenario("fuzz", "?", "!", (), (), inbox, day, "train"), Toolbox(
        database,
        max_results=10,
        snippet_words=generator.choice((1, 12, 64)),
        max_body_chars=500,
        order=generator.choice(("newest", "relevance")),
        fallback_any=generator.choice((False, True, "fill")),
        terse=generator.random() < 0.5,
    )


def over_threads(mail: Mail, calls: int, threads: int, seed: int = 0) -> Outcome:
    """`calls` calls over threads that share one `MailDatabase`."""
    with closing(MailDatabase(mail.path)) as database:
        first = max(1, int(calls * WARM_UP) // threads)
        total = _threads(mail, database, first, threads, seed)
        before = _memory_mb(), len(os.listdir("/proc/self/fd"))
        more = _threads(mail, database, max(1, calls // threads - first), threads, seed + 1_000)
        after = _memory_mb(), len(os.listdir("/proc/self/fd"))
    searches, hits, reads, refused = (sum(both) for both in zip(total, more, strict=True))
    return Outcome(calls, searches, hits, reads, refused, after[0] - before[0], after[1] - before[1])


def _threads(mail: Mail, database: MailDatabase, calls: int, threads: int, seed: int) -> list[int]:
    counts: list[tuple[int, int, int, int]] = []
    failures: list[BaseException] = []

    def work(number: int) -> None:
        try:
            counts.append(play(mail, database, calls, seed + number))
        except BaseException as failure:
            failures.append(failure)

    workers = [threading.Thread(target=work, args=(number,)) for number in range(threads)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    if failures:
        raise failures[0]
    return [sum(column) for column in zip(*counts, strict=True)]


def over_processes(mail: Mail, calls: int, processes: int, seed: int = 0) -> Outcome:
    """`calls` calls over processes; the largest growth of one of them counts."""
    with multiprocessing.get_context("spawn").Pool(processes) as pool:
        work = [(mail.path, calls // processes, seed + 10_000 * (number + 1)) for number in range(processes)]
        outcomes = pool.starmap(_process, work, chunksize=1)
    names = ("searches", "hits", "reads", "refused")
    searches, hits, reads, refused = (sum(getattr(o, name) for o in outcomes) for name in names)
    return Outcome(
        calls, searches, hits, reads, refused, max(o.grown_mb for o in outcomes), max(o.more_files for o in outcomes)
    )


def _process(path: Path, calls: int, seed: int) -> Outcome:
    return over_threads(Mail(path), calls, 1, seed)


def check(outcome: Outcome) -> None:
    """Raises `FuzzFailure` where memory or open files grew, or where the calls asked nothing."""
    if outcome.grown_mb > MAX_GROWTH_MB:
        raise FuzzFailure(f"memory grew by {outcome.grown_mb:.1f} MB: {outcome}")
    if outcome.more_files > 0:
        raise FuzzFailure(f"{outcome.more_files} files were left open: {outcome}")
    if not (outcome.hits and outcome.reads and outcome.refused):
        raise FuzzFailure(f"the calls reached nothing: {outcome}")


def _memory_mb() -> float:
    """Resident memory of this process without mapped files."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("RssAnon")) / 1024

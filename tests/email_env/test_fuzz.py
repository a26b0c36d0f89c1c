"""Random tool calls, from sound to hostile: none raises, shows what it must not, or changes a byte of the file."""

import hashlib
import multiprocessing
import os
import random
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path

import pytest

from email_env.ingest.build import build_database
from email_env.ingest.sources import open_source
from email_env.scenarios.scenario import Scenario
from email_env.search.database import MailDatabase
from email_env.search.query import bare_message_id, who
from email_env.tools.schemas import ToolOptions
from email_env.tools.toolbox import Toolbox
from judges.common.tool_calls import Call

HOSTILE = (
    "", " ", "?!*", '"', '""" OR "', "'; DROP TABLE emails; --", "' OR 1=1 --", "who : p1", "p1 f2 t3",
    "{subject body} : x", "NEAR(the of, 2)", "subject:the*", "^the", "-the", "the AND", "AND OR NOT", "a\x00b", "\ud83d",
    "\udc00\ud800", "\u202e\u0000\ufffe", "🦅" * 30, "ß" * 90, "x" * 5_000, "the " * 40, "a-b-c-d-e-f-g", "%s%n{0}",
    "../../etc/passwd", "<b>the</b>", "NaN", "2001-02-30", "0000-00-00", "9999-12-31", "0001-01-01",
    None, True, False, 0, -1, 7, 10**40, 1.5, float("nan"), float("inf"), [], {}, [[]], {"a": []},
)  # fmt: skip
SOUND = {
    "from_addr": lambda draw, mail: person(draw, mail),
    "to_addr": lambda draw, mail: person(draw, mail),
    "sent_after": lambda draw, _: day(draw),
    "sent_before": lambda draw, _: day(draw),
    "max_results": lambda draw, _: draw.randint(1, 10),
    "offset": lambda draw, _: draw.randint(0, 30),
}


class Mail:
    """What of a database the calls and the checks need."""

    def __init__(self, path):
        with closing(MailDatabase(path)) as database:
            rows = database.connection().execute("SELECT message_id, sent_at, who, subject FROM emails").fetchall()
            people = dict(database.connection().execute("SELECT id, address FROM addresses"))
        names = {who("p", person): address for person, address in people.items()}
        self.seen_by = {
            message_id: (sent_at[:10], {names[token] for token in tokens.split() if token in names})
            for message_id, sent_at, tokens, _ in rows
        }
        self.ids = list(self.seen_by)
        self.addresses = sorted(names.values())
        self.days = sorted({day for day, _ in self.seen_by.values()})
        self.words = sorted({word for *_, subject in rows for word in subject.split()})


def anything(draw):
    return "".join(map(chr, draw.choices(range(0x110000), k=8))) if draw.random() < 0.2 else draw.choice(HOSTILE)


def either(draw, sound, odds):
    return anything(draw) if draw.random() < odds else sound


def person(draw, mail):
    address = draw.choice(mail.addresses)
    name = address.partition("@")[0].replace(".", " ")
    return draw.choice((address, name, f"{name} <{address}>"))


def day(draw):
    return f"{draw.randint(1998, 2026)}-{draw.randint(1, 12):02}-{draw.randint(1, 28):02}"


def random_call(draw, mail, found):
    """About half are sound; some read what a search has just shown."""
    pick = draw.random()
    if pick < 0.6:
        phrases = [" ".join(draw.choices(mail.words, k=draw.choice((1, 1, 2, 3)))) for _ in range(draw.randint(0, 4))]
        arguments = {"keywords": either(draw, [either(draw, phrase, 0.08) for phrase in phrases], 0.06)}
        arguments |= {
            name: either(draw, sound(draw, mail), 0.15) for name, sound in SOUND.items() if draw.random() < 0.2
        }
        if draw.random() < 0.03:
            arguments[draw.choice(("max_result", "message_id", "\ud83d"))] = 1
        return Call("search_inbox", arguments)
    if pick < 0.9:
        arguments = {"message_id": either(draw, draw.choice(found or mail.ids), 0.3)}
        return Call("read_email", arguments | ({"offset": anything(draw)} if draw.random() < 0.1 else {}))
    if pick < 0.97:
        sources = [either(draw, draw.choice(mail.ids), 0.2) for _ in range(draw.randint(0, 3))]
        return Call("return_final_answer", {"answer": either(draw, "Thursday", 0.3), "sources": sources})
    return Call(str(anything(draw)), {str(anything(draw)): anything(draw)})


def play(mail, database, calls, seed):
    """Plays and checks; what was answered, by kind."""
    draw, seen, found = random.Random(seed), Counter(), ()
    for number in range(calls):
        if number % 50 == 0:
            inbox, today = draw.choice(mail.addresses), draw.choice(mail.days)
            scenario = Scenario("fuzz", "?", "!", (), (), inbox, today, "train")
            options = ToolOptions(
                max_results=10,
                snippet_words=draw.choice((1, 12, 64)),
                max_body_chars=500,
                order=draw.choice(("newest", "relevance")),
                fallback_any=draw.choice((False, True, "fill")),
                terse=draw.random() < 0.5,
            )
            toolbox = Toolbox(database, options)
        call = random_call(draw, mail, found)
        result = toolbox.run(call, scenario)
        assert result.text.strip(), f"{call} was answered by nothing"
        assert not result.error or result.text.startswith("Error: "), f"{call} was refused without a word: {result}"
        for message_id in (*result.found, *result.read):
            sent, people = mail.seen_by[bare_message_id(message_id)]
            assert inbox in people, f"{call} of {inbox} showed {message_id}"
            assert sent <= today, f"{call} up to {today} showed {message_id}"
        found = result.found or found
        seen += Counter(hits=len(result.found), reads=bool(result.read), refused=bool(result.error))
    return seen


def over_threads(mail, database, calls, threads=8, seed=0):
    with ThreadPoolExecutor(threads) as pool:
        works = [pool.submit(play, mail, database, calls // threads, seed + number) for number in range(threads)]
        return sum((work.result() for work in works), Counter())


def in_a_process(path, calls, seed):
    with closing(MailDatabase(path)) as database:
        return play(Mail(path), database, calls, seed)


@pytest.fixture(scope="module")
def path(tmp_path_factory):
    path = tmp_path_factory.mktemp("fuzz") / "demo.db"
    build_database(open_source("demo").mails, path, source="demo")
    return path


def digest(path):
    return hashlib.sha256(path.read_bytes()).hexdigest()


def memory_mb():
    """Of this process, without mapped files."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("RssAnon")) / 1024


def test_a_hundred_thousand_random_calls_over_threads_do_no_harm_and_change_no_byte(path):
    mail, before = Mail(path), digest(path)
    with closing(MailDatabase(path)) as database:
        seen = over_threads(mail, database, 20_000)
        memory, files = memory_mb(), len(os.listdir("/proc/self/fd"))
        seen += over_threads(mail, database, 80_000, seed=1_000)
        assert memory_mb() - memory < 24
        assert len(os.listdir("/proc/self/fd")) <= files
    assert min(seen["hits"], seen["reads"], seen["refused"]) > 5_000
    assert digest(path) == before
    assert os.listdir(path.parent) == ["demo.db"]


def test_processes_call_at_the_same_time(path):
    before = digest(path)
    with multiprocessing.get_context("spawn").Pool(4) as pool:
        seen = sum(pool.starmap(in_a_process, [(path, 3_000, seed) for seed in range(4)], chunksize=1), Counter())
    assert seen["hits"] > 500
    assert digest(path) == before

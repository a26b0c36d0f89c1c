"""The bundled mailboxes keep what data/README.md promises; searches run on SQLite's own full-text index."""

import hashlib
import itertools
import json
import os
import re
import sqlite3
import subprocess
import sys
from collections import Counter
from dataclasses import asdict
from statistics import correlation, median, quantiles

import pytest

from email_env.demo import SPLITS, DemoCorpus, generate, noise, write_mailbox
from email_env.demo.questions import content_words
from email_env.demo.texts import NAMES, WORDINGS
from email_env.scenarios.scenario import Scenario
from tests import ROOT


class Index:
    """One FTS5 table per inbox, asked as the environment asks: all phrases, newest first, up to a day."""

    def __init__(self, corpus: DemoCorpus) -> None:
        self.connection = sqlite3.connect(":memory:")
        self.connection.execute(
            "CREATE VIRTUAL TABLE mail USING fts5(subject, body, inbox UNINDEXED, sent UNINDEXED, mid UNINDEXED)"
        )
        inboxes = {scenario.inbox for scenario in corpus.scenarios}
        rows = [
            (mail.subject, mail.body, inbox, mail.sent_at, mail.message_id)
            for mail in corpus.mails
            for inbox in inboxes.intersection((mail.from_addr, *mail.to, *mail.cc))
        ]
        self.connection.executemany("INSERT INTO mail VALUES (?, ?, ?, ?, ?)", rows)

    def newest(self, scenario: Scenario, keywords: tuple[str, ...] | list[str], limit: int = 5) -> list[str]:
        rows = self.connection.execute(
            "SELECT mid FROM mail WHERE mail MATCH ? AND inbox = ? AND substr(sent, 1, 10) <= ? ORDER BY sent DESC LIMIT ?",
            (" ".join(f'"{keyword}"' for keyword in keywords), scenario.inbox, scenario.query_date, limit),
        )
        return [row[0] for row in rows]


@pytest.fixture(scope="module")
def index(corpus):
    return Index(corpus)


def test_the_corpus_has_the_promised_size_and_mix(corpus):
    scenarios = corpus.scenarios
    inboxes = {scenario.inbox: scenario.split for scenario in scenarios}
    assert Counter(inboxes.values()) == {"train": 14, "validation": 5, "test": 5}
    assert len(corpus.mails) == 24 * 240
    assert 2_200 <= len(scenarios) <= 24 * 96
    shares = Counter(scenario.difficulty for scenario in scenarios)
    for difficulty, share in {"easy": 0.40, "medium": 0.35, "hard": 0.25}.items():
        assert shares[difficulty] / len(scenarios) == pytest.approx(share, abs=0.02)
    assert 0.06 <= sum(not scenario.answerable for scenario in scenarios) / len(scenarios) <= 0.10
    assert {mail.sent_at[:4] for mail in corpus.mails} == {"2021", "2022", "2023", "2024"}


def test_mail_is_short_and_partly_threads_and_forwards(corpus):
    lengths = [len(mail.body) for mail in corpus.mails]
    assert 250 <= median(lengths) <= 400
    assert quantiles(lengths, n=20)[-1] < 900
    replies = [mail for mail in corpus.mails if mail.subject.startswith("RE: ")]
    assert len(replies) > 500
    assert all("wrote:" in mail.body or "-----Original Message-----" in mail.body for mail in replies)
    assert sum("Forwarded message" in mail.body for mail in corpus.mails) > 100


def test_every_mail_has_a_unique_short_id_and_one_owner(corpus):
    inboxes = {scenario.inbox for scenario in corpus.scenarios}
    assert len({mail.message_id for mail in corpus.mails}) == len(corpus.mails)
    for mail in corpus.mails:
        assert re.fullmatch(r"m\d{4}", mail.message_id)
        assert len(inboxes.intersection((mail.from_addr, *mail.to, *mail.cc))) == 1
        assert len({*mail.to, *mail.cc}) == len(mail.to) + len(mail.cc)
        assert mail.subject == mail.subject.strip() != ""
        assert "{" not in mail.subject + mail.body


def test_no_two_mails_have_the_same_text(corpus):
    texts = Counter((mail.from_addr, mail.subject, mail.body) for mail in corpus.mails)
    assert max(texts.values()) == 1, texts.most_common(2)


def test_message_ids_tell_nothing_about_the_time(corpus):
    times = [
        int(mail.sent_at[:4]) * 400 + int(mail.sent_at[5:7]) * 31 + int(mail.sent_at[8:10]) for mail in corpus.mails
    ]
    assert abs(correlation([int(mail.message_id[1:]) for mail in corpus.mails], times)) < 0.05


def test_the_same_seed_gives_the_same_corpus_whatever_the_hash_seed(corpus):
    def digest(value: DemoCorpus) -> str:
        return hashlib.sha256(repr((value.mails, value.scenarios)).encode()).hexdigest()

    code = (
        "import hashlib; from email_env.demo import generate; value = generate();"
        "print(hashlib.sha256(repr((value.mails, value.scenarios)).encode()).hexdigest())"
    )
    run = subprocess.run(
        [sys.executable, "-c", code],
        cwd=ROOT,
        env={**os.environ, "PYTHONHASHSEED": "7"},
        capture_output=True,
        text=True,
        check=True,
    )
    assert run.stdout.strip() == digest(corpus)
    assert digest(generate(1)) != digest(corpus)


def test_people_projects_and_firms_are_disjoint_between_splits(corpus):
    seen: dict[str, str] = {}
    for split, names in NAMES.items():
        for word in itertools.chain(*names.values()):
            assert word not in seen, f"{word} is in {split} and {seen[word]}"
            seen[word] = split
    split_of = {scenario.inbox.split("@")[1]: scenario.split for scenario in corpus.scenarios}
    owners = {scenario.inbox: scenario.split for scenario in corpus.scenarios}
    for mail in corpus.mails:
        split = next(owners[address] for address in (mail.from_addr, *mail.to, *mail.cc) if address in owners)
        words = {word for word in re.findall(r"[A-Z][a-z]+", mail.body) if word in seen}
        assert {seen[word] for word in words} <= {split}
    assert len(split_of) == 24


def test_every_plan_finds_its_mails_among_the_five_newest_hits(corpus, index):
    for scenario in corpus.scenarios:
        read = [argument[0] for tool, argument in scenario.plan if tool == "read"]
        assert set(scenario.message_ids) <= set(read), scenario
        for before, step in itertools.pairwise((("", ()), *scenario.plan)):
            if step[0] == "read":
                assert before[0] == "search"
                assert step[1][0] in index.newest(scenario, before[1]), scenario
        assert scenario.plan[0][0] == "search"
        assert 1 <= len(scenario.plan) <= 4


def test_all_words_of_the_question_find_at_most_a_quarter_of_medium_and_hard(corpus, index):
    found: Counter[str] = Counter()
    total: Counter[str] = Counter()
    for scenario in corpus.scenarios:
        if scenario.answerable:
            total[scenario.difficulty] += 1
            hits = index.newest(scenario, content_words(scenario.question))
            found[scenario.difficulty] += not set(hits).isdisjoint(scenario.message_ids)
    for difficulty in ("medium", "hard"):
        assert found[difficulty] / total[difficulty] <= 0.25
    assert found["easy"] / total["easy"] > found["medium"] / total["medium"]


def test_noise_refuses_a_mailbox_that_the_stories_have_overfilled():
    box = write_mailbox(0, 0)
    with pytest.raises(AssertionError, match="240"):
        noise.fill(box, 100)


@pytest.mark.parametrize("seed", [1, 2])
def test_other_seeds_keep_the_sizes(seed):
    other = generate(seed)
    assert len(other.mails) == 24 * 240
    assert len(other.scenarios) >= 24 * 92
    assert SPLITS[:3] == ("train", "validation", "test")


WRITTEN = ["message_id", "sent_at", "date_ok", "from_addr", "from_name", "to", "cc", "bcc", "subject", "body", "source"]


def test_the_readmes_statistics_are_those_of_this_corpus(corpus):
    """They were measured once, and the last row is the checksum of what they were measured on."""
    digest = hashlib.sha256()
    mails = [{name: value for name, value in asdict(mail).items() if name in WRITTEN} for mail in corpus.mails]
    for record in [*mails, *(scenario.to_dict() for scenario in corpus.scenarios)]:
        digest.update(json.dumps(record, sort_keys=True).encode() + b"\n")
    text = (ROOT / "data" / "README.md").read_text()
    assert f"| SHA-256 of all mails and questions as JSON lines | {digest.hexdigest()} |\n" in text
    assert all(f"`{kind}`" in text for kind in WORDINGS)

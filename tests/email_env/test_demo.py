"""The bundled mailboxes keep what data/README.md promises; searches run on SQLite's own full-text index."""

import hashlib
import itertools
import os
import random
import re
import sqlite3
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path
from statistics import correlation, median, quantiles

import pytest

from email_env.demo import SPLITS, DemoCorpus, generate, noise, write_mailbox
from email_env.demo.lookup import Lookup, content_words, tokens
from email_env.demo.mailbox import WORDINGS
from email_env.demo.measure import measure
from email_env.demo.names import POOLS
from email_env.demo.questions import answer_all, choose
from email_env.demo.values import DONT_KNOW, UNKNOWN
from email_env.scenarios import Scenario

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def corpus() -> DemoCorpus:
    return generate()


@pytest.fixture(scope="module")
def mails(corpus):
    return {mail.message_id: mail for mail in corpus.mails}


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
    assert digest(generate(1, inboxes=3)) != digest(generate(inboxes=3))


def test_a_smaller_corpus_is_the_beginning_of_the_whole_one(corpus):
    small = generate(inboxes=3)
    assert small.mails == corpus.mails[: len(small.mails)]
    assert small.scenarios == corpus.scenarios[: len(small.scenarios)]
    assert {scenario.split for scenario in small.scenarios} == {"train", "validation", "test"}


@pytest.mark.parametrize("inboxes", [0, -1, 25])
def test_an_impossible_number_of_inboxes_is_refused(inboxes):
    with pytest.raises(ValueError, match=str(inboxes)):
        generate(inboxes=inboxes)


def test_the_corpus_is_made_within_seconds():
    start = time.process_time()
    generate()
    assert time.process_time() - start < 5


def test_people_projects_and_firms_are_disjoint_between_splits(corpus):
    seen: dict[str, str] = {}
    for split, pools in POOLS.items():
        for word in itertools.chain(pools.first, pools.last, pools.projects, pools.stems, pools.companies):
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


def test_the_generators_lookup_agrees_with_sqlite(corpus, index):
    inbox = corpus.scenarios[0].inbox
    mine = [mail for mail in corpus.mails if inbox in (mail.from_addr, *mail.to, *mail.cc)]
    lookup = Lookup((mail.sent_at, mail.subject, mail.body) for mail in mine)
    rng, answered = random.Random(5), 0
    for scenario in [scenario for scenario in corpus.scenarios if scenario.inbox == inbox]:
        words = tokens(rng.choice(mine).body)
        place = rng.randrange(len(words) - 2)
        for keywords in (scenario.plan[0][1], (" ".join(words[place : place + 2]),), (words[place], words[place + 2])):
            hits = [mine[number].message_id for number in lookup.search(keywords, scenario.query_date)]
            assert hits == index.newest(scenario, keywords)
            answered += bool(hits)
    assert answered > 100


def test_lookup_ignores_case_and_accents_and_keeps_phrases_within_a_field():
    lookup = Lookup(
        [("2024-01-02T00:00:00Z", "Café plan", "Budget 4.2 is fine"), ("2024-01-03T00:00:00Z", "Plan", "cafe")]
    )
    assert lookup.search(["CAFE"], "2024-12-31") == [1, 0]
    assert lookup.search(["CAFE"], "2024-01-02") == [0]
    assert lookup.search(["budget 4.2"], "2024-12-31") == [0]
    assert lookup.search(["plan budget"], "2024-12-31") == []
    assert lookup.search(["plan", "budget"], "2024-12-31") == [0]
    assert lookup.search([], "2024-12-31") == []


def test_keywords_are_copied_from_easy_questions_and_partly_from_the_others(corpus):
    for scenario in corpus.scenarios:
        words = set(tokens(scenario.question))
        searches = [keywords for tool, keywords in scenario.plan if tool == "search"]
        copied = [set(tokens(keyword)) <= words for keyword in searches[0]]
        assert any(copied)
        if scenario.difficulty == "easy":
            assert all(set(tokens(keyword)) <= words for keywords in searches for keyword in keywords)
        assert all(1 <= len(keywords) <= 3 for keywords in searches)


def test_answers_are_spans_of_the_evidence_and_evidence_comes_before_the_question(corpus, mails):
    for scenario in corpus.scenarios:
        assert all(mails[message_id].sent_at[:10] <= scenario.query_date for message_id in scenario.message_ids)
        if not scenario.answerable:
            assert scenario.answer == DONT_KNOW
        elif scenario.kind.endswith("_compare"):
            assert scenario.answer in scenario.question
            assert len(scenario.message_ids) == 2
        else:
            assert scenario.answer in mails[scenario.message_ids[-1]].body
            assert len(scenario.message_ids) == (2 if len(WORDINGS[scenario.kind].hops) == 2 else 1)


def test_amounts_and_codes_stand_in_no_other_mail_that_could_be_read(corpus):
    by_inbox = {scenario.inbox: [] for scenario in corpus.scenarios}
    for mail in corpus.mails:
        by_inbox[next(address for address in (mail.from_addr, *mail.to, *mail.cc) if address in by_inbox)].append(mail)
    checked = 0
    for scenario in corpus.scenarios:
        if re.fullmatch(r"\$[\d,]+|[A-Z]{2}\d{3}|555-\d{4}", scenario.answer):
            holders = {
                mail.message_id
                for mail in by_inbox[scenario.inbox]
                if scenario.answer in mail.body and mail.sent_at[:10] <= scenario.query_date
            }
            assert holders <= set(scenario.message_ids), scenario
            checked += 1
    assert checked > 500


@pytest.mark.parametrize("number", [0, 1, 2, 11, 20])
def test_the_ledger_holds_one_answer_for_every_question(number):
    box = write_mailbox(0, number)
    answered = answer_all(box)
    assert len(answered) > 96
    for item in answered:
        for position, (topic, field) in enumerate(item.ask.claims):
            known = [
                assertion
                for assertion in box.ledger
                if (assertion.topic, assertion.field) == (topic, field)
                and assertion.draft.sent.date() <= item.query_date
            ]
            known.sort(key=lambda assertion: assertion.draft.sent)
            assert len({assertion.value.text for assertion in known}) == len(known), "a statement was repeated"
            last = position == len(item.ask.claims) - 1
            if item.answer is UNKNOWN:
                assert bool(known) != last
            else:
                assert known[-1].draft in item.evidence
                if last and not item.ask.answer:
                    assert item.answer == known[-1].value


def test_comparisons_name_the_right_side():
    ranks = {"budget_compare": max, "contract_compare": max, "deadline_compare": min, "quote_compare": min}
    checked = set()
    for number in range(6):
        box = write_mailbox(0, number)
        for item in answer_all(box):
            if item.ask.kind in ranks:
                values = {topic[1]: box.stated(topic, field).rank for topic, field in item.ask.claims}
                assert item.answer.text == ranks[item.ask.kind](values, key=lambda name: values[name])
                checked.add(item.ask.kind)
    assert checked == set(ranks)


def test_questions_of_an_inbox_are_all_different(corpus):
    asked = [(scenario.inbox, scenario.question) for scenario in corpus.scenarios]
    assert len(set(asked)) == len(asked)
    assert len({scenario.scenario_id for scenario in corpus.scenarios}) == len(asked)


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


def _patterns(new: bool) -> re.Pattern[str]:
    frames = [frame for wording in WORDINGS.values() for style in wording.frames.values() for frame in style[new]]
    return re.compile("|".join(re.sub(r"\\{\w+\\}", ".+", re.escape(frame)) for frame in frames))


def test_a_third_of_the_held_out_questions_use_wordings_training_never_shows(corpus):
    known, new = _patterns(False), _patterns(True)
    share: Counter[str] = Counter()
    for scenario in corpus.scenarios:
        assert known.fullmatch(scenario.question) or new.fullmatch(scenario.question)
        share[scenario.split] += not known.fullmatch(scenario.question)
    assert share["train"] == 0
    for split in ("validation", "test"):
        assert 0.25 <= share[split] / sum(scenario.split == split for scenario in corpus.scenarios) <= 0.45


def test_every_kind_has_four_known_and_two_new_wordings(corpus):
    assert set(WORDINGS) == {scenario.kind for scenario in corpus.scenarios}
    assert len(WORDINGS) >= 12
    for wording in WORDINGS.values():
        for known, new in wording.frames.values():
            assert len(set(known)) >= 4
            assert len(set(new)) >= 2
            assert not set(known) & set(new)


def test_changes_of_mind_are_asked_about_before_and_after_the_change():
    before = after = 0
    for number in range(3):
        box = write_mailbox(0, number)
        for item in answer_all(box):
            if len(item.ask.claims) == 1 and item.evidence:
                stated = [
                    assertion.draft
                    for assertion in box.ledger
                    if (assertion.topic, assertion.field) == item.ask.claims[0]
                ]
                before += any(draft.sent > item.evidence[0].sent for draft in stated)
                after += any(draft.sent < item.evidence[0].sent for draft in stated)
    assert before > 15
    assert after > 40


def test_noise_refuses_a_mailbox_that_the_stories_have_overfilled():
    box = write_mailbox(0, 0)
    with pytest.raises(AssertionError, match="240"):
        noise.fill(box, 100)


def test_choose_keeps_the_quotas_and_takes_unanswerable_questions_first():
    answered = answer_all(write_mailbox(0, 0))
    chosen = choose(answered, {"easy": 3, "medium": 10, "hard": 4}, 5, random.Random(0))
    assert Counter(item.ask.difficulty for item in chosen) == {"easy": 3, "medium": 10, "hard": 4}
    assert sum(item.answer is UNKNOWN for item in chosen) == 5


@pytest.mark.parametrize("seed", [1, 2])
def test_other_seeds_keep_the_sizes(seed):
    other = generate(seed, inboxes=3)
    assert len(other.mails) == 3 * 240
    assert len(other.scenarios) >= 3 * 92
    assert SPLITS[:3] == ("train", "validation", "test")


def test_the_readme_shows_the_measured_statistics(corpus):
    text = (ROOT / "data" / "README.md").read_text()
    for what, value in measure(corpus):
        assert f"| {what} | {value} |" in text, (
            f"run scripts/demo_stats and put its table into data/README.md: {what} is {value}"
        )
    assert all(f"`{kind}`" in text for kind in WORDINGS)

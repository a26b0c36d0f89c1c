"""The questions of the bundled mailboxes: their words, answers and wordings are what data/README.md promises."""

import random
import re
from collections import Counter

import pytest

from email_env.demo import write_mailbox
from email_env.demo.questions import answer_all, choose
from email_env.demo.texts import WORDINGS
from email_env.demo.values import UNKNOWN
from email_env.scenarios.scenario import DONT_KNOW
from email_env.search.query import index_words

STYLES = ("easy", "medium", "hard")


def test_keywords_are_copied_from_easy_questions_and_partly_from_the_others(corpus):
    for scenario in corpus.scenarios:
        words = set(index_words(scenario.question))
        searches = [keywords for tool, keywords in scenario.plan if tool == "search"]
        copied = [set(index_words(keyword)) <= words for keyword in searches[0]]
        assert any(copied)
        if scenario.difficulty == "easy":
            assert all(set(index_words(keyword)) <= words for keywords in searches for keyword in keywords)
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
            assert len(scenario.message_ids) == (2 if "second_searches" in WORDINGS[scenario.kind] else 1)


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


def _patterns(new: bool) -> re.Pattern[str]:
    styles = [f"{style}{'_held_out' if new else ''}" for style in STYLES]
    frames = [frame for wording in WORDINGS.values() for style in styles for frame in wording.get(style, ())]
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
        for style in wording.keys() & set(STYLES):
            known, new = set(wording[style]), set(wording[f"{style}_held_out"])
            assert len(known) >= 4
            assert len(new) >= 2
            assert not known & new


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


def test_choose_keeps_the_quotas_and_takes_unanswerable_questions_first():
    answered = answer_all(write_mailbox(0, 0))
    chosen = choose(answered, {"easy": 3, "medium": 10, "hard": 4}, 5, random.Random(0))
    assert Counter(item.ask.difficulty for item in chosen) == {"easy": 3, "medium": 10, "hard": 4}
    assert sum(item.answer is UNKNOWN for item in chosen) == 5

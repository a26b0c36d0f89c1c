"""A word is found with and without its accents, in every script that has them, and shown as it was sent."""

import unicodedata

import pytest

from tests.email_env.mails import BEN, mail

TEXTS = {
    "ru": ("Отчёт", "Счёт придёт от Алёны, твой Сергей."),
    "el": ("Συνάντηση", "Η συνάντηση στην Αθήνα αναβλήθηκε, ΠΡΟΫΠΟΛΟΓΙΣΜΌΣ 900 €."),
    "vi": ("Hợp đồng", "Hợp đồng gửi cho Nguyễn Việt Hà, trang 4."),
    "pl": ("Łódź", "Biuro w Łodzi, Søren Đặng, Iğdır ve Isparta."),
    "pdf": ("Ｑ３", "予算は１２３４円。 The oﬃce of ﬁnance, né."),
    "de": ("Grüße", "Zürich, Straße 5, Café."),
    "ja": ("会議", "予算ががんばる部の資料です。"),
}


@pytest.fixture(scope="module")
def db(built_once):
    sent = [mail(name, subject, body) for name, (subject, body) in TEXTS.items()]
    in_parts = [
        mail(f"{m.message_id}-mac", *(unicodedata.normalize("NFD", t) for t in (m.subject, m.body))) for m in sent
    ]
    return built_once(*sent, *in_parts, mail("file", attachments=("Счёт за ёлку.pdf",)))


@pytest.mark.parametrize(
    ("keyword", "name"),
    [
        ("Алены", "ru"),
        ("алёны", "ru"),
        ("отчет", "ru"),
        ("придет от алены", "ru"),
        ("Сергей", "ru"),
        ("αθηνα", "el"),
        ("Αθήνα", "el"),
        ("ΑΘΗΝΑ", "el"),
        ("προυπολογισμος", "el"),
        ("Προϋπολογισμός", "el"),
        ("στην αθηνα", "el"),
        ("nguyen viet", "vi"),
        ("Nguyễn Việt", "vi"),
        ("lodz", "pl"),
        ("Łodzi", "pl"),
        ("soren dang", "pl"),
        ("ığdır", "pl"),
        ("IGDIR", "pl"),
        ("q3", "pdf"),
        ("1234", "pdf"),
        ("１２３４円", "pdf"),
        ("office of finance", "pdf"),
        ("zurich", "de"),
        ("Cafe", "de"),
        ("がんばる", "ja"),
    ],
)
@pytest.mark.parametrize("form", ["NFC", "NFD"])
def test_a_word_is_found_with_and_without_its_accents(db, keyword, name, form):
    keyword = unicodedata.normalize(form, keyword)
    hits = db.search(inbox=BEN, keywords=[keyword], until="9999-12-31")
    assert {hit.message_id for hit in hits} == {name, f"{name}-mac"}


@pytest.mark.parametrize("keyword", ["Сергеи", "твои", "office＂ OR ＂zurich"])
def test_a_letter_that_is_another_one_without_its_mark_and_a_wide_quotation_mark_find_nothing(db, keyword):
    assert db.search(inbox=BEN, keywords=[keyword], until="9999-12-31") == []


def test_the_hit_shows_the_words_as_they_were_sent(db):
    (hit,) = db.search(inbox=BEN, keywords=["елку"], until="9999-12-31")
    assert hit.message_id == "file"
    hits = db.search(inbox=BEN, keywords=["алены"], until="9999-12-31", snippet_words=3)
    assert [hit.snippet for hit in hits if hit.message_id == "ru"] == ["...от Алёны, твой..."]
    email = db.read("el", inbox=BEN, until="9999-12-31")
    assert (email.subject, email.body) == TEXTS["el"]


def test_common_words_are_counted_without_accents(built):
    database = built(*(mail(f"m{n}", body=f"Счёт {n}") for n in range(1_100)))
    counted = dict(database.connection().execute("SELECT word, mails FROM common_words"))
    assert counted["счет"] == 1_100

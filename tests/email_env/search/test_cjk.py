"""Words of Chinese, Japanese and Korean are found inside sentences, and other searches see nothing of it."""

import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from email_env.errors import ToolInputError
from email_env.search import query
from email_env.search.cjk import SEPARATOR, is_cjk, joined, separated
from email_env.tools.prompts import whole_email
from tests.email_env.mails import ANNA, BEN, mail

TEXTS = {
    "zh": ("季度报告", "明天下午三点在北京总部开会，请带上GPU预算表。"),
    "ja": ("会議の件", "来週の火曜日に東京タワーで打ち合わせがあります。"),
    "ko": ("회의 일정", "내일 오전 10시에 서울에서 회의가 있습니다."),
    "th": ("งบ", "งบประมาณโครงการทั้งหมดคือห้าร้อยบาท"),
    "mixed": ("Tokyo trip", "Flight to 東京 at 10:30, hotel 新宿ホテル. Café at noon."),
    "de": ("Grüße", "Die Straße ist naß, 5 € für Ärger."),
}


@pytest.fixture(scope="module")
def db(built_once):
    return built_once(
        *(mail(name, subject, body, from_name="山田太郎") for name, (subject, body) in TEXTS.items()),
        mail("file", "See", "attached", attachments=("会議資料.pdf",), attached="[a.txt]\n添付の本文"),
    )


def found(db, *keywords, **search):
    hits = db.search(inbox=BEN, keywords=list(keywords), until="9999-12-31", **search)
    return sorted(hit.message_id for hit in hits)


@pytest.mark.parametrize(
    ("keywords", "ids"),
    [
        (["北京"], ["zh"]),
        (["下午三点"], ["zh"]),
        (["GPU预算"], ["zh"]),
        (["GPU"], ["zh"]),
        (["gpu", "开会"], ["zh"]),
        (["报告"], ["zh"]),
        (["東京"], ["ja", "mixed"]),
        (["東京タワー"], ["ja"]),
        (["ホテル", "Café"], ["mixed"]),
        (["cafe"], ["mixed"]),
        (["회의"], ["ko"]),
        (["서울에서 회의"], ["ko"]),
        (["10시"], ["ko"]),
        (["会議"], ["file", "ja"]),
        (["資料.pdf"], ["file"]),
        (["添付"], ["file"]),
        (["โครงการ"], ["th"]),
        (["ทั้งหมด", "ห้าร้อย"], ["th"]),
        (["ห้าพัน"], []),
        (["京東"], []),
        (["会開"], []),
        (["strasse"], []),
        (["straße", "arger"], ["de"]),
        (["山田", "東京"], ["ja", "mixed"]),
    ],
)
def test_a_word_is_found_wherever_it_stands(db, keywords, ids):
    assert found(db, *keywords) == ids
    assert found(db, *keywords, order="relevance") == ids
    assert db.count(inbox=BEN, keywords=keywords, until="9999-12-31") == len(ids)


def test_a_part_of_a_name_finds_the_person(db):
    assert found(db, "東京", from_addr="山田") == found(db, "東京", from_addr="山田太郎") == ["ja", "mixed"]
    assert found(db, "東京", from_addr="鈴木") == []


def test_what_is_shown_is_as_it_was_sent(db):
    for name, (subject, body) in TEXTS.items():
        email = db.read(name, inbox=ANNA, until="9999-12-31")
        assert (email.subject, email.body) == (subject, body)
    (hit,) = db.search(inbox=BEN, keywords=["東京タワー"], until="9999-12-31")
    assert (hit.subject, hit.snippet, hit.from_name) == (*TEXTS["ja"], "山田太郎")
    shown = whole_email(db.read("file", inbox=BEN, until="9999-12-31"), 4000)
    assert "Attachments: 会議資料.pdf\n\nattached\n\n[a.txt]\n添付の本文" in shown


def test_a_snippet_shows_as_much_as_one_of_words(built):
    sentence = "明天下午三点在北京总部开会" * 20 + "请带上护照" + "明天下午三点在北京总部开会" * 20
    database = built(mail("m1", body=sentence))
    (hit,) = database.search(inbox=BEN, keywords=["护照"], until="9999-12-31")
    assert "请带上护照" in hit.snippet
    assert 30 <= len(hit.snippet) <= 45


def test_a_search_may_have_twice_as_many_characters_as_words():
    assert len(query.phrases(["会議" * 12, "東京" * 12])) == 2
    with pytest.raises(ToolInputError, match=r"At most 24 words over all keywords, got 24\.5"):
        query.phrases(["会議" * 12, "東京" * 12, "駅"])


@given(st.text(max_size=40))
def test_separating_keeps_the_text_and_touches_no_other_script(text):
    text = unicodedata.normalize("NFC", text.replace(SEPARATOR, ""))
    assert joined(separated(text)) == text
    if not any(map(is_cjk, text)):
        assert separated(text) == text

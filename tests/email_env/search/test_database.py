import re
import sqlite3

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from email_env.errors import ToolInputError, UnknownInboxError
from email_env.search import query
from tests.email_env.mails import ANNA, BEN, CARO, DAN
from tests.email_env.search.falcon import MAILS, ids


def test_all_keywords_are_required_and_the_newest_comes_first(db):
    assert ids(db, ["falcon", "budget"]) == ["m3", "m2", "m1"]
    assert ids(db, ["falcon"], max_results=1) == ["m3"]
    assert ids(db, ["falcon", "friday"]) == ["m1"]
    assert ids(db, ["falcon", "giraffe"]) == []


def test_any_of_the_keywords_can_be_asked_for(db):
    assert ids(db, ["friday", "giraffe"], match="any") == ["m1"]
    assert ids(db, ["lunch", "friday", "secret"], match="any") == ["m3", "m1"]
    assert ids(db, ["falcon", "friday"], match="any", order="relevance")[0] == "m1"
    assert ids(db, ["giraffe"], match="any") == []


def test_a_keyword_of_several_words_is_a_phrase(db):
    assert ids(db, ["falcon budget"]) == ids(db, "falcon budget") == ["m2", "m1"]
    assert ids(db, ["40,000 dollars"]) == ["m1"]


def test_an_inbox_shows_what_it_sent_and_received_in_to_cc_and_bcc_and_nothing_else(db):
    assert ids(db, ["falcon"], inbox=ANNA) == ["m5", "m3", "m2", "m1", "m6"]
    assert ids(db, ["falcon"], inbox=CARO) == ["m5", "m1"]
    assert ids(db, ["falcon"], inbox=DAN) == ["m3"]
    assert ids(db, ["budgets"], inbox=BEN) == ["m4"]
    assert ids(db, ["falcon"], inbox=" Caro@X.com ") == ["m5", "m1"]


def test_nothing_after_the_query_date_exists(db):
    assert ids(db, ["falcon"], until="2001-05-15") == ["m2", "m1", "m6"]
    assert ids(db, ["falcon"], until="2001-05-14") == ["m1", "m6"]
    assert ids(db, ["falcon"], until="2001-05-13") == ["m6"]
    assert db.read("m3", inbox=BEN, until="2001-05-16") is not None
    assert db.read("m3", inbox=BEN, until="2001-05-15") is None


def test_a_hit_shows_one_line_around_the_words(db):
    (hit,) = db.search(inbox=BEN, keywords=["friday"], until="2001-12-31", snippet_words=3)
    assert (hit.sent_at, hit.from_addr, hit.from_name) == ("2001-05-14T09:00:00Z", ANNA, "Anna Keller")
    assert hit.subject == "Falcon budget"
    assert hit.snippet == "...Meet on Friday."
    assert "\n" not in hit.snippet


def test_relevance_puts_a_hit_in_the_subject_first(db):
    assert ids(db, ["falcon"], order="relevance")[:2] != ids(db, ["falcon"])[:2]
    assert set(ids(db, ["falcon"], order="relevance")) == set(ids(db, ["falcon"]))
    assert ids(db, ["falcon"], order="relevance")[0] in {"m1", "m2"}


def test_read_gives_the_whole_mail_with_or_without_angle_brackets(db):
    email = db.read(" <m1> ", inbox=CARO, until="2001-12-31")
    assert email == db.read("m1", inbox=CARO, until="2001-12-31")
    assert email is not None
    assert (email.message_id, email.sent_at, email.from_addr) == ("m1", "2001-05-14T09:00:00Z", ANNA)
    assert (email.to, email.cc, email.bcc) == ((BEN,), (CARO,), ())
    assert (email.subject, email.body) == (MAILS[0].subject, MAILS[0].body)


@pytest.mark.parametrize("message_id", ["m5", "m99", "", "m1\x00", "\ud800", "' OR 1=1 --", "m" * 1_000_000])
def test_read_shows_nothing_of_other_inboxes_and_of_unknown_ids(db, message_id):
    assert db.read(message_id, inbox=BEN, until="2001-12-31") is None


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"keywords": None}, "keywords must be a list"),
        ({"keywords": {"a": 1}}, "keywords must be a list"),
        ({"keywords": [""]}, "no letters or digits"),
        ({"keywords": ["budget", "?!*"]}, r"'\?!\*' has no letters"),
        ({"keywords": ["bud\x00get"]}, "plain words"),
        ({"keywords": ["\ud83d"]}, "plain words"),
        ({"keywords": [7]}, "must be a string, got 7"),
        ({"keywords": ["x" * (query.MAX_KEYWORD_CHARS + 1)]}, "200 characters, got 201"),
        ({"keywords": ["x"] * (query.MAX_KEYWORDS + 1)}, "At most 12 keywords, got 13"),
        ({"keywords": ["a b c d e"] * 5}, "At most 24 words over all keywords, got 25"),
        ({"from_addr": "K."}, "from_addr must be a person's name or email address.*'K.'"),
        ({"to_addr": 5}, "to_addr must be a person's name or email address"),
        ({"sent_after": "last May"}, "sent_after must be a date like 2001-05-14, got 'last May'"),
        ({"sent_before": "20010514"}, "sent_before must be a date"),
        ({"sent_before": 10**6000}, "a huge int"),
        ({"sent_after": "2001-02-30"}, "sent_after must be a date"),
        ({"sent_after": "2001-05-16", "sent_before": "2001-05-16"}, "must be earlier than sent_before"),
    ],
)
def test_arguments_that_cannot_be_used_are_explained(db, arguments, words):
    with pytest.raises(ToolInputError, match=words):
        db.search(**({"inbox": BEN, "keywords": ["budget"], "until": "2001-12-31"} | arguments))


@pytest.mark.parametrize(
    "keyword",
    [
        '"',
        'a" OR "b',
        "who : p1",
        "falcon*",
        "NEAR(falcon budget)",
        "subject:falcon",
        "^falcon",
        "-falcon",
        "falcon AND x",
    ],
)
def test_fts_syntax_is_plain_text(db, keyword):
    # a quoted phrase: what is no word falls away, and what is left must stand side by side in a mail
    words = re.findall(r"\w+", keyword)
    expected = ["m3", "m2", "m1", "m6"] if words == ["falcon"] else []
    if words:
        assert ids(db, [keyword]) == expected
    else:
        with pytest.raises(ToolInputError):
            ids(db, [keyword])


def test_an_unknown_inbox_is_the_harness_fault(db):
    with pytest.raises(UnknownInboxError, match=re.escape("'eve@x.com'")):
        ids(db, ["falcon"], inbox="eve@x.com")


LATIN = st.text(
    st.characters(max_codepoint=0x17F, exclude_characters="\x00") | st.sampled_from("Ωωжя²½_\u0301\u2028 -'."),
    max_size=20,
)
ASIAN = st.text(alphabet="東京会議カナ한국어ab1é ,.ー々ทั้งำเລັကိកិ", max_size=20)


@settings(max_examples=200)
@given(LATIN | ASIAN)
def test_the_words_of_a_keyword_are_those_of_the_index(text):
    connection = sqlite3.connect(":memory:")
    connection.execute("CREATE VIRTUAL TABLE t USING fts5(body)")
    connection.execute("CREATE VIRTUAL TABLE words USING fts5vocab(t, instance)")
    connection.execute("INSERT INTO t VALUES (?)", (query.index_text(text),))
    indexed = [term for (term,) in connection.execute("SELECT term FROM words ORDER BY offset")]
    connection.close()
    if indexed:
        (phrase,) = query.phrases([text])
        assert list(phrase.words) == indexed
    else:
        with pytest.raises(ToolInputError, match="has no letters or digits"):
            query.phrases([text])

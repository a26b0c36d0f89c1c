"""The bounds on what one search costs: common words are counted, and a ranking looks at little."""

import pytest

from email_env.errors import ToolInputError
from email_env.ingest import build as builder
from email_env.search import database, query
from tests.email_env.mails import BEN, CARO, mail

MAILS = (
    *(mail(f"a{number}", "Report", f"The gas report {number}.", sent_at=f"2001-05-1{number}T09:00:00Z") for number in range(9)),
    mail("b1", "Falcon", "The falcon flies.", sent_at="2001-05-01T09:00:00Z"),
    mail("b2", "Birds", "A falcon, no gas.", sent_at="2001-05-02T09:00:00Z"),
    mail("b3", "The Falcon gas", "Falcon falcon.", sent_at="2001-05-03T09:00:00Z"),
    mail("c1", "Caro", "The gas of Caro.", to=(CARO,), sent_at="2001-05-20T09:00:00Z"),
)  # fmt: skip


@pytest.fixture
def db(built, monkeypatch):
    """A database in which a word of more than five mails is common: the (12), gas (12), report (9)."""
    monkeypatch.setattr(builder, "COMMON_MAILS", 5)
    monkeypatch.setattr(query, "MAX_RANKED_MAILS", 9)
    return built(*MAILS)


def ids(db, *keywords, **options):
    hits = db.search(inbox=BEN, keywords=list(keywords), until="2001-12-31", **options)
    return [hit.message_id for hit in hits]


def test_the_database_knows_the_number_of_mails_of_every_common_word(db):
    words = dict(db.connection().execute("SELECT word, mails FROM common_words"))
    assert words == {"the": 12, "gas": 12, "report": 9, "anna": 13, "keller": 13, "ben": 12}


def test_a_small_database_has_no_common_words(built):
    assert built(*MAILS)._common == {}


@pytest.mark.parametrize("order", ["newest", "relevance"])
@pytest.mark.parametrize("match", ["all", "any"])
def test_a_search_that_would_read_too_much_is_refused_and_the_words_are_named(db, monkeypatch, order, match):
    monkeypatch.setattr(query, "MAX_SEARCH_MAILS", 33)
    assert ids(db, "The GAS report", order=order, match=match)  # 12 + 12 + 9
    monkeypatch.setattr(query, "MAX_SEARCH_MAILS", 32)
    with pytest.raises(
        ToolInputError,
        match=r"Too many words that very many mails have: the, gas, report\. Leave out the least telling ones",
    ):
        ids(db, "The GAS", "falcon", "réport", order=order, match=match)
    assert ids(db, "the gas falcon", order=order, match=match) == []
    assert ids(db, "falcon", "the", order=order) == ["b3", "b1"]


def test_the_most_common_words_are_required_but_not_ranked_by(db):
    assert ids(db, "falcon", "gas", order="relevance") == ["b3", "b2"]
    assert ids(db, "falcon", "the", "gas", order="relevance") == ["b3"]
    assert ids(db, "falcon", order="relevance") == ["b3", "b1", "b2"]


def test_where_all_words_are_common_the_newest_mail_comes_first(db):
    newest = [f"a{number}" for number in reversed(range(9))]
    assert ids(db, "the", "gas", order="relevance") == ids(db, "the", "gas") == [*newest, "b3"]
    assert ids(db, "the gas", order="relevance") == newest


def test_any_of_the_keywords_means_the_telling_ones_as_long_as_there_is_such_mail(db):
    assert ids(db, "falcon", "gas", match="any", order="relevance") == ["b3", "b1", "b2"]
    assert ids(db, "zebra", "gas", match="any", order="relevance")[:2] == ["a8", "a7"]
    assert ids(db, "zebra", match="any", order="relevance") == []


def test_of_very_many_matches_the_newest_are_ranked(db, monkeypatch):
    assert ids(db, "falcon", order="relevance", max_results=2) == ["b3", "b1"]
    monkeypatch.setattr(database, "MAX_RANKED_HITS", 2)
    assert ids(db, "falcon", order="relevance") == ["b3", "b2"]
    assert ids(db, "falcon", order="relevance", sent_before="2001-05-03") == ["b1", "b2"]


def test_of_many_mails_a_sample_is_counted(built, monkeypatch):
    monkeypatch.setattr(builder, "COMMON_MAILS", 5)
    monkeypatch.setattr(builder, "_SAMPLED_MAILS", 10)
    day = "2001-05-{:02}T09:00:00Z"
    mails = [
        mail(f"m{n}", "", f"all n{n} {'half' if n % 2 else ''} {'few' if n < 3 else ''}", sent_at=day.format(n))
        for n in range(1, 21)
    ]
    names = {"anna": 20, "keller": 20, "ben": 20}
    assert built(*mails)._common == names | {
        "all": 20,
        "half": 20,
    }  # the sample is every second mail, which all say half

"""People are found by name: as a keyword, as sender and as recipient, whatever form mail and searcher use."""

import pytest

from email_env.errors import ToolInputError
from email_env.ingest.people import People, address_form, index_form
from tests.email_env.mails import mail

BOX = "box@x.com"
KIM, PHILLIP, JO, KELLY = "kward@x.com", "k..allen@x.com", "jo_baker@y.org", "kelly.higgason@x.com"
MAILS = (
    mail("m1", from_addr=KIM, from_name="Ward, Kim S. (Houston)", to=(BOX,), sent_at="2001-05-01T09:00:00Z"),
    mail("m2", from_addr=BOX, from_name="", to=(KIM, JO), sent_at="2001-05-02T09:00:00Z"),
    mail("m3", from_addr=PHILLIP, from_name="Phillip K Allen", to=(BOX,), cc=(KIM,), sent_at="2001-05-03T09:00:00Z"),
    mail(
        "m4", from_addr=BOX, from_name="", to=(KELLY,), names=((KELLY, "Kelly Noel Higgason"),),
        sent_at="2001-05-04T09:00:00Z",
    ),
    mail("m5", "From Kim Ward", "Kim Ward said no.", from_addr=JO, from_name="", to=(BOX,), sent_at="2001-05-05T09:00:00Z"),
)  # fmt: skip


@pytest.fixture(scope="module")
def db(built_once):
    return built_once(*MAILS)


def ids(db, *keywords, **options):
    return [hit.message_id for hit in db.search(inbox=BOX, keywords=keywords, until="2001-12-31", **options)]


@pytest.mark.parametrize(
    "keyword", ["Kim Ward", "kim ward", "Ward, Kim", "Ward, Kim S.", "Kim S. Ward", "Ward, Kim (Houston)", "ward"]
)
def test_a_name_is_a_keyword_in_every_form_and_finds_all_mail_of_the_person(db, keyword):
    assert ids(db, keyword) == ["m5", "m3", "m2", "m1"]  # in the text, as Cc, To and From


def test_names_and_words_are_searched_together(db):
    assert ids(db, "Kim Ward", "said") == ["m5"]
    assert ids(db, "Kim Ward", "Nothing much") == ["m3", "m2", "m1"]
    assert ids(db, "Ward Kim") == []  # a phrase stays word for word
    assert ids(db, "allen", "ward") == ["m3"]


@pytest.mark.parametrize(
    "name",
    [
        "Kim Ward",
        "Ward, Kim",
        "WARD Kim",
        "kim",
        KIM,
        f"Ward, Kim S. <{KIM}>",
        f"<{KIM.upper()}>",
        f"Ward, Kim (Houston) [mailto:{KIM}]",
        f"'Kim Ward' (smtp:{KIM})",
        f"'{KIM}'",
        "Ward, Kim (Houston)",
        "Kim Ward @ X",
    ],
)
def test_a_sender_is_a_name_an_address_or_both(db, name):
    assert ids(db, from_addr=name) == ["m1"]
    assert ids(db, to_addr=name) == ["m3", "m2"]


def test_a_name_may_be_read_from_an_address_and_lack_its_middle(db):
    assert ids(db, "Jo Baker") == ids(db, from_addr="Jo Baker") + ids(db, to_addr="baker") == ["m5", "m2"]
    assert ids(db, "Kelly Higgason") == ids(db, "Kelly Noel Higgason") == ids(db, to_addr="Higgason, Kelly") == ["m4"]
    assert ids(db, from_addr="Phillip Allen") == ids(db, from_addr="Phillip K. Allen") == ["m3"]
    assert ids(db, from_addr="Jo Ward") == ids(db, from_addr="nobody@x.com") == []


def test_an_address_as_keyword_finds_the_mail_of_its_owner(db):
    assert ids(db, KIM) == ["m3", "m2", "m1"]
    assert ids(db, KIM, "Nothing") == ids(db, KIM)
    assert ids(db, f"Ward, Kim S. <{KIM}>") == ids(db, f"<{KIM}>") == ids(db, KIM)
    assert ids(db, "nobody@x.com") == []


TEA = (
    mail("t1", "Tea", from_addr="ann@tea-house.com", from_name="Ann Keller", to=(BOX,)),
    mail("t2", "Post", from_addr="bo@post.tea-house.com", from_name="Bo Lee", to=(BOX,)),
    mail("t3", "Ask", from_addr=BOX, from_name="", to=("ann@tea-house.com", "cy@house.com")),
    mail("t4", "Trap", from_addr="ann@tea-house.com.example", from_name="Ann Keller", to=(BOX,)),
    mail("t5", "Path", from_addr="9f3a-akeller", from_name="Ann Keller", to=(BOX,)),
    mail("t6", "Name", from_addr="bo.lee", from_name="Bo Lee", to=(BOX,)),
)


@pytest.mark.parametrize(
    ("domain", "sent", "received"),
    [
        ("@tea-house.com", "t1 t2", "t3"),
        ("TEA-HOUSE.com", "t1 t2", "t3"),
        ("*@tea-house.com", "t1 t2", "t3"),
        ("@post.tea-house.com", "t2", ""),
        ("@tea-house", "t1 t2 t4", "t3"),
        ("tea-house", "", ""),
        ("@house.com", "", "t3"),
        ("@nowhere.com", "", ""),
        ("Cy", "", "t3"),
        ("bo@", "t2", ""),
        ("/O=TEA/OU=X (Y)/CN=RECIPIENTS/CN=9F3A-AKELLER", "t5", ""),
        ("Keller, Ann </o=tea/cn=recipients/cn=9f3a-akeller>", "t5", ""),
        ("9f3a-akeller", "t5", ""),
        ("CN=Bo Lee/OU=Oslo/O=Tea", "t6", ""),
        ("Bo Lee/Oslo/Tea@TEA", "t6", ""),
    ],
)
def test_people_are_found_by_their_domain_and_by_addresses_without_one(built_once, domain, sent, received):
    database = built_once(*TEA)
    assert sorted(ids(database, from_addr=domain)) == sent.split()
    assert sorted(ids(database, to_addr=domain)) == received.split()
    if domain.startswith(("@", "/")):
        assert sorted(ids(database, domain)) == sorted(f"{sent} {received}".split())
        assert ids(database, domain, "Nowhere") == []


def test_a_domain_of_very_many_people_is_refused(built, monkeypatch):
    monkeypatch.setattr("email_env.search.query.MAX_PEOPLE", 2)
    database = built(mail("m1", from_addr="a@x.com", to=(BOX, "c@x.com", "d@y.org")))
    with pytest.raises(ToolInputError, match=r"More than 2 people have an address with @x\.com\. Name one of them"):
        ids(database, from_addr="@x.com")
    assert ids(database, to_addr="@y.org") == ["m1"]


@pytest.mark.parametrize(
    ("name", "others"),
    [
        ("Сергей Королёв", ["сергей", "Королёв", "Королев", "Королёв, Сергей"]),
        ("Στέλιος Παπάς", ["Στέλιος", "Στελιος"]),
        ("Nguyễn Văn Đức", ["Nguyễn", "Nguyen", "nguyen van"]),
        ("Jürgen Groß", ["Jurgen", "groß"]),
        ("प्रिया शर्मा", ["प्रिया"]),
        ("יוֹסִי כהן", ["כהן"]),
        ("สมชาย ใจดี", ["สมชาย"]),
    ],
)
def test_a_name_of_any_script_is_a_keyword_and_a_sender(built, name, others):
    db = built(mail("m1", from_addr="p17@x.com", from_name=name, to=(BOX,)), mail("m2", to=(BOX,)))
    for form in (name, *name.split(), *others, f"{name} <p17@x.com>"):
        assert (form, ids(db, form), ids(db, from_addr=form)) == (form, ["m1"], ["m1"])


def test_a_name_with_an_apostrophe_is_a_keyword_by_itself(built):
    bob, joan = "bob2@x.com", "jd@x.com"
    database = built(
        mail("m1", "To Bob", to=(BOX, bob), names=((bob, "Bob O'Brien"),), sent_at="2001-05-01T09:00:00Z"),
        mail("m2", "From Joan", from_addr=joan, from_name="Joan d\u2019Arc", to=(BOX,), sent_at="2001-05-02T09:00:00Z"),
        mail("m3", "Text", "Ask O'Brien. Brien knows Arc.", to=(BOX,), sent_at="2001-05-03T09:00:00Z"),
        mail("m4", "Brien", "Arc", to=(BOX,), sent_at="2001-05-04T09:00:00Z"),
        mail("m5", "From John", from_addr="j@x.com", from_name="John Doe", to=(BOX,), sent_at="2001-05-05T09:00:00Z"),
    )
    for keyword in ("O'Brien", "o\u2019brien", "O'Brien's", "O'BRIEN, B."):
        found = ids(database, keyword)
        assert "m1" in found, keyword
        assert "m4" not in found, "the word alone counts among names only"
    assert ids(database, "O'Brien") == ids(database, "O\u2019Brien") == ["m3", "m1"]
    assert sorted(ids(database, "O'Brien", order="relevance")) == ["m1", "m3"]
    assert ids(database, "d'Arc") == ids(database, "D\u2019Arc", "From Joan") == ["m2"]
    assert ids(database, "Bob O'Brien") == ids(database, "O'Brien", to_addr=bob) == ["m1"]
    assert ids(database, "John's") == [], "what follows an apostrophe is no name"


def test_a_name_that_is_no_name_of_the_mail_finds_nothing(db):
    assert ids(db, "Kim Allen") == ids(db, from_addr="Kim Allen") == []


@pytest.mark.parametrize(
    ("name", "form"),
    [
        ("Ward, Kim S. (Houston)", "kim ward"),
        ("Phillip K Allen", "phillip allen"),
        ("Presto III, Kevin M.", "kevin presto iii"),
        ("Stan Horton, Chairman@ENRON", "chairman stan horton"),
        ("Jen Fraser/ENRON@enronXgate", "jen fraser"),
        ("O'Neil, Murray P.", "murray neil"),
        ("山田", "山 田"),
        ("K.", ""),
        ("", ""),
    ],
)
def test_a_display_name_is_indexed_first_name_first_and_without_initials(name, form):
    assert index_form(name) == form


@pytest.mark.parametrize(
    ("address", "form"),
    [("kim.ward@x.com", "kim ward"), ("k..allen@x.com", "allen"), ("jo_baker-smith2@y.org", "jo baker smith"), ("8774820206@p.net", "")],
)  # fmt: skip
def test_the_words_of_an_address_are_a_name(address, form):
    assert address_form(address) == form


def test_the_name_that_most_mails_give_an_address_counts():
    people = People()
    bob, role, kim, _ = map(people.number, ("robert.quick@x.com", "no.address@x.com", "kim_ward7@x.com", "7@x.com"))
    for name in ("Bob Quick", "Office of Bob", "Quick, Bob", "Office of Bob", "Bob Quick"):
        people.note([("robert.quick@x.com", name), ("no.address@x.com", "The Chairman"), ("", "Nobody")])
    assert people.forms() == {bob: "bob quick robert quick", role: "the chairman", kim: "kim ward"}


def test_who_has_no_name_is_found_by_the_words_of_the_domain(built):
    unnamed, named = {"from_addr": "noreply@news.bank.co.uk"}, {"from_addr": "ann@tea-house.com", "to": (BOX,)}
    mails = (mail("m1", from_name="", to=(BOX,), **unnamed), mail("m2", from_name="Ann Keller", **named))
    database = built(*mails)
    for name in ("bank", "News Bank", "noreply"):
        assert ids(database, name) == ids(database, from_addr=name) == ["m1"]
    for name in ("uk", "co", "house", "tea house"):  # the mail calls her Ann
        assert ids(database, name) == ids(database, from_addr=name) == []


def test_what_one_mail_calls_its_sender_counts_for_that_mail(built):
    role = {"from_addr": "office@x.com", "to": (BOX,)}
    database = built(
        *(mail(f"m{n}", f"S{n}", from_name=("Ken Lay", "Ken Lay", "Stan Horton")[n], **role) for n in range(3)),
    )
    assert ids(database, "Stan Horton") == ids(database, from_addr="Stan Horton") == ["m2"]

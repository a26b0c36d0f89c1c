"""What both tools show, against a plain loop over the mail: the inbox up to the day, and words as words."""

import re
import tempfile
from datetime import datetime
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from email_env.errors import ToolInputError
from email_env.ingest.build import build_database
from email_env.ingest.staging import Filters
from email_env.search import query
from email_env.search.database import MailDatabase
from tests.email_env.mails import ANNA, BEN, CARO, DAN, mail

PEOPLE = (ANNA, BEN, CARO, DAN)
DAYS = tuple(f"2001-05-{day}" for day in range(10, 15))
SYNTAX = st.text(alphabet=st.sampled_from("abAB \"'():*^-+{}.;,%_\\/|&<>")) | st.sampled_from(
    [
        "a AND b",
        "a OR b",
        "NOT a",
        "NEAR(a b)",
        "subject : a",
        "{subject body} : a",
        "who : p1",
        "p1",
        '"a" OR "b"',
        "a*",
    ]
)
some = st.lists(st.sampled_from(PEOPLE), max_size=3, unique=True).map(tuple)
sent_mail = st.builds(
    dict,
    from_addr=st.sampled_from(PEOPLE),
    to=some,
    cc=some,
    bcc=some,
    sent_at=st.builds(
        lambda day, hour, zone: f"{day}T{hour:02}:00:00{zone}",
        st.sampled_from(DAYS),
        st.integers(0, 23),
        st.sampled_from(["Z", "-08:00", "+05:30", "-11:00", "+14:00"]),
    ),
    subject=st.text(alphabet="ab ", max_size=8),
    body=st.text(alphabet="abp1 .\n", max_size=20),
)


def words(text):
    return re.findall(r"[a-z0-9]+", text.lower())


def holds(text, phrase):
    have = words(text)
    return any(have[at : at + len(phrase)] == phrase for at in range(len(have) - len(phrase) + 1))


def people(m):
    return {m.from_addr, *m.to, *m.cc, *m.bcc}


@settings(max_examples=30, deadline=None)
@given(
    drawn=st.lists(sent_mail, min_size=1, max_size=12),
    asked=st.lists(
        st.fixed_dictionaries(
            {
                "inbox": st.sampled_from(PEOPLE),
                "until": st.sampled_from(DAYS),
                "keywords": st.lists(SYNTAX, max_size=2),
            },
            optional={
                "from_addr": st.sampled_from(PEOPLE),
                "to_addr": st.sampled_from(PEOPLE),
                "sent_after": st.sampled_from(DAYS),
                "sent_before": st.sampled_from(DAYS),
            },
        ),
        max_size=12,
    ),
)
def test_both_tools_show_exactly_what_a_loop_over_the_mail_finds(drawn, asked):
    mails = [mail(f"m{number:02}", **fields) for number, fields in enumerate(drawn)]
    with tempfile.TemporaryDirectory() as name:
        path = Path(name) / "mail.db"
        build_database(mails, path, source="test", filters=Filters(drop_duplicates=False))
        database = MailDatabase(path)
        for arguments in asked:
            check_search(database, mails, arguments)
        for inbox in known(mails):
            for day in DAYS:
                seen = [m.message_id for m in mails if database.read(m.message_id, inbox=inbox, until=day)]
                assert seen == [m.message_id for m in mails if inbox in people(m) and m.sent_at[:10] <= day]
        database.close()


def known(mails):
    return [person for person in PEOPLE if any(person in people(m) for m in mails)]


def check_search(database, mails, arguments):
    if arguments["inbox"] not in known(mails):
        return
    phrases = [words(keyword) for keyword in arguments["keywords"]]
    after, before = arguments.get("sent_after", ""), arguments.get("sent_before", "9999")
    if not all(phrases) or (after and after >= before):
        with pytest.raises(ToolInputError):
            database.search(**arguments)
        return
    expected = [
        m
        for m in mails
        if arguments["inbox"] in people(m)
        and max(after, "") <= m.sent_at[:10] <= arguments["until"]
        and m.sent_at[:10] < before
        and arguments.get("from_addr", m.from_addr) == m.from_addr
        and ("to_addr" not in arguments or arguments["to_addr"] in (*m.to, *m.cc, *m.bcc))
        and all(holds(m.subject, phrase) or holds(m.body, phrase) for phrase in phrases)
    ]
    expected.sort(key=lambda m: m.message_id)
    expected.sort(key=lambda m: datetime.fromisoformat(m.sent_at), reverse=True)
    assert [hit.message_id for hit in database.search(**arguments)] == [m.message_id for m in expected[:10]]
    assert [hit.message_id for hit in database.search(**arguments, offset=1, max_results=3)] == [
        m.message_id for m in expected[1:4]
    ]
    assert database.count(**arguments) == len(expected)


@pytest.mark.parametrize("letter", "pft")
def test_neither_keywords_nor_mail_can_pass_for_the_people_of_a_mail(built, letter):
    tokens = " ".join(query.who(letter, person) for person in range(1, 4))
    database = built(mail("m1", tokens, f"falcon {tokens}"), mail("m2", to=(BEN, CARO)))
    for keyword in (query.who(letter, 1), f"{letter}1", f"hello {query.who(letter, 1)}"):
        assert database.search(inbox=BEN, keywords=[keyword], until="2002-01-01") == []
    assert [hit.message_id for hit in database.search(inbox=BEN, keywords=["falcon"], until="2002-01-01")] == ["m1"]
    for more in ({"inbox": CARO}, {"inbox": BEN, "from_addr": BEN}, {"inbox": BEN, "to_addr": CARO}):
        assert database.search(keywords=["falcon"], until="2002-01-01", **more) == []  # what m1 says of them is text

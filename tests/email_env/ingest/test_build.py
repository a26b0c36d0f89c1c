import random
import re
import sqlite3
from contextlib import closing

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from email_env.errors import BuildError, SourceError
from email_env.ingest.build import build_database
from email_env.ingest.staging import Filters
from email_env.mail import Skip, SkipReason
from email_env.scenarios.sets import stored_scenarios
from email_env.search.database import MailDatabase
from email_env.versions import BUILDER_VERSION, SCHEMA_VERSION
from tests.email_env.mails import BEN, CARO, DAN, build, mail, question


def all_ids(path):
    connection = sqlite3.connect(path)
    rows = connection.execute("SELECT message_id FROM emails ORDER BY id").fetchall()
    connection.close()
    return [row[0] for row in rows]


def test_mail_is_numbered_newest_first_whatever_its_order(tmp_path):
    mails = [mail(f"m{n:02}", f"S{n}", sent_at=f"2001-05-{1 + n // 2:02}T00:00:00Z") for n in range(20)]
    expected = [
        m.message_id for m in sorted(sorted(mails, key=lambda m: m.message_id), key=lambda m: m.sent_at, reverse=True)
    ]
    for seed in range(3):
        random.Random(seed).shuffle(mails)
        build(tmp_path / "mail.db", *mails)
        assert all_ids(tmp_path / "mail.db") == expected


def test_every_mail_in_is_a_mail_out_or_a_counted_skip(tmp_path):
    many = tuple(f"p{n}@x.com" for n in range(31))
    report = build(
        tmp_path / "mail.db",
        mail("m1"),
        mail("m1"),
        mail("m2"),
        mail("m3", body="x" * 5001),
        mail("m4", body="y" * 5000),
        mail("m5", "news", to=many),
        mail("m6", "news", to=many[:15], cc=many[15:30]),
        mail("m7", "nobody", from_addr="", to=()),
        mail("m8", "no sender", from_addr=""),
        mail("m9", "no recipient", to=()),
        Skip("a/10.", SkipReason.UNREADABLE),
        mail("m11", "undated", date_ok=False),
    )
    assert (report.read, report.kept) == (12, 6)
    assert report.skipped == {
        "no_addresses": 1,
        "unreadable": 1,
        "body_too_long": 1,
        "too_many_recipients": 1,
        "duplicate_message_id": 1,
        "duplicate_content": 1,
    }
    assert set(all_ids(tmp_path / "mail.db")) == {"m1", "m4", "m6", "m8", "m9", "m11"}
    assert (report.uncertain_dates, report.bytes) == (1, (tmp_path / "mail.db").stat().st_size)


def test_a_copy_is_dropped_only_when_everyone_on_it_has_the_mail_by_then(tmp_path):
    path = tmp_path / "mail.db"
    copies = [
        mail("early", to=(BEN,), sent_at="2001-05-01T00:00:00Z"),
        mail("again", to=(BEN,), sent_at="2001-05-02T00:00:00Z"),  # Ben has it
        mail("caro", to=(BEN, CARO), sent_at="2001-05-03T00:00:00Z"),  # new to Caro
        mail("both", to=(CARO, BEN), sent_at="2001-05-04T00:00:00Z"),  # both have it
        mail("other", "Another subject", to=(BEN,)),
        mail("sender", from_addr=DAN, to=(BEN,)),
    ]
    for seed in range(3):
        random.Random(seed).shuffle(copies)
        report = build(path, *copies)
        assert set(all_ids(path)) == {"early", "caro", "other", "sender"}
        assert report.skipped == {"duplicate_content": 2}


FOOTER = "\n_______\nTo leave the list, write to it."


@pytest.mark.parametrize(
    ("first", "second", "kept"),
    [
        (("Roof", "The roof is slate."), ("Roof", f"The  roof is slate.\n{FOOTER}"), ["b", FOOTER]),
        (("Roof", "The roof is slate."), ("[dev] Roof", f"The roof is slate.{FOOTER}"), ["b", FOOTER]),
        (("Re: [1] Roof", "The roof is slate."), ("Re: [dev] [1] Roof", f"The roof is slate.{FOOTER}"), ["b", FOOTER]),
        (("Roof", "The roof is slate."), ("***SPAM*** [dev] Roof", f"The roof is slate.{FOOTER}"), ["b", FOOTER]),
        (("Roof", "Yes"), ("Re: Roof", "Yes to slate."), ["a", "b"]),
        (("[1] Roof", "Slate."), ("[2] Roof", "Slate."), ["a", "b"]),
        (("Roof", "The roof   is slate.\n"), ("Roof", "The roof is  slate."), ["a"]),
        (("Roof", ""), ("Roof", "The roof is slate."), ["b"]),
        (("Roof", "Roof 1"), ("Roof", "Roof 12"), ["a", "b"]),
        (("Roof", "The roof is slate."), ("Roof", "The roof is zinc."), ["a", "b"]),
        (("Roof", "The roof is slate."), ("Roof again", "The roof is slate."), ["a", "b"]),
        (("", "The roof is slate."), ("Roof", "The roof is slate."), ["a", "b"]),
    ],
)
@pytest.mark.parametrize("is_reversed", [False, True])
def test_mails_of_one_id_are_one_where_one_says_what_the_other_says(tmp_path, first, second, kept, is_reversed):
    mails = [mail("m1", *first, source="a"), mail("m1", *second, source="b")]
    report = build(tmp_path / "mail.db", *mails[:: -1 if is_reversed else 1])
    connection = sqlite3.connect(tmp_path / "mail.db")
    rows = connection.execute("SELECT source, message_id, body FROM emails ORDER BY source").fetchall()
    connection.close()
    assert [source for source, *_ in rows] == [name for name in kept if len(name) == 1]
    assert all(kept[-1] in body for *_, body in rows if len(kept[-1]) > 1)
    assert report.skipped == ({"duplicate_message_id": 1} if len(rows) == 1 else {})
    ids = sorted(message_id for _, message_id, _ in rows)
    assert ids[0] == "m1"
    assert all(re.fullmatch(r"m1\.[0-9a-f]{8}", name) for name in ids[1:])


def test_of_mails_that_say_the_same_that_with_the_attachments_is_kept(tmp_path):
    path = tmp_path / "mail.db"
    own = mail("m1", "Roof", "Slate.", attachments=("plan.pdf",))
    other = mail("m1", "Roof", "Slate.", attachments=("bill.pdf",))
    assert build(path, mail("m1", "[dev] Roof", f"Slate.{FOOTER}"), own).skipped == {"duplicate_message_id": 1}
    connection = sqlite3.connect(path)
    assert connection.execute("SELECT body, attachments FROM emails").fetchall() == [("Slate.", "plan.pdf")]
    connection.close()
    assert build(path, own, other).kept == 2


def test_ids_of_their_own_are_the_same_in_every_order_and_no_mail_has_them_already(tmp_path):
    path = tmp_path / "mail.db"
    days = [mail("0@x", "Alarm", f"Floor {n}", sent_at=f"2001-05-0{n}T00:00:00Z") for n in (1, 2, 3)]
    build(path, *days)
    third, second, first = all_ids(path)
    build(path, *reversed(days))
    assert all_ids(path) == [third, second, first] != sorted({first})
    assert first == "0@x"
    assert build(path, *days, mail(second, "Forged", to=(CARO,))).kept == 4
    assert len(set(all_ids(path))) == 4


def test_mails_of_one_id_in_several_mailboxes_are_in_the_inbox_of_each_owner(tmp_path):
    path = tmp_path / "mail.db"
    files = [("a", "Roof", "Slate."), ("b", "Roof", f"Slate.{FOOTER}"), ("c", "Roof", "Zinc."), ("d", "Roof", "Zinc.")]
    lists = [mail("m1", *said, to=("dev@x.com",), listed=True, source=f"{box}/in/1") for box, *said in files]
    own = [mail(f"{box}1", box, to=(f"{box}@x.com",), source=f"{box}/in/2") for box in "abcd"]
    assert build(path, *lists, *own).skipped == {"duplicate_message_id": 2}
    database = MailDatabase(path)
    for box, words in zip("abcd", ("Slate", "Slate", "Zinc", "Zinc"), strict=True):
        found = database.search(inbox=f"{box}@x.com", keywords=["Roof"], until="2002-01-01")
        assert [hit.snippet.split(".")[0] for hit in found] == [words]
    database.close()


@settings(max_examples=50, deadline=None)
@given(
    st.lists(
        st.tuples(st.sets(st.sampled_from([BEN, CARO, DAN])), st.integers(1, 4), st.integers(0, 1)),
        min_size=1,
        max_size=8,
    )
)
def test_no_inbox_loses_a_mail_to_the_duplicate_filter_on_any_day(tmp_path_factory, drawn):
    path = tmp_path_factory.mktemp("copies") / "mail.db"
    mails = [
        mail(f"m{n}", f"S{s}", to=tuple(sorted(to)), sent_at=f"2001-05-0{day}T00:00:00Z")
        for n, (to, day, s) in enumerate(drawn)
    ]
    build(path, *mails)
    kept = set(all_ids(path))
    for person in (BEN, CARO, DAN):
        for day in range(1, 5):
            due = [m for m in mails if person in m.to and m.sent_at < f"2001-05-0{day}T23"]
            assert {m.subject for m in due} == {m.subject for m in due if m.message_id in kept}


def test_evidence_is_never_filtered_out(tmp_path):
    mails = [mail("m0"), mail("m1"), mail("m2", body="z" * 6000)]
    report = build(tmp_path / "mail.db", *mails, scenarios=[question("a"), question("b", message_ids=("m2",))])
    assert set(all_ids(tmp_path / "mail.db")) == {"m0", "m1", "m2"}
    assert (report.scenarios, report.scenario_misfits) == (2, {})


def test_only_mail_of_the_inboxes_asked_for_is_taken(tmp_path):
    path = tmp_path / "mail.db"
    mails = [
        mail("m1", to=(BEN,)),
        mail("m2", "S2", to=(CARO,)),
        mail("m3", "S3", cc=(DAN,), to=(CARO,)),
        mail("m4", "S4", from_addr=DAN),
    ]
    report = build(path, *mails, filters=Filters(inboxes=(BEN, DAN)))
    assert set(all_ids(path)) == {"m1", "m3", "m4"}
    assert report.skipped == {"other_inbox": 1}


def test_every_skip_is_reported_with_where_it_came_from(tmp_path):
    seen = []
    build(
        tmp_path / "mail.db",
        mail("m1", source="a/1."),
        mail("m2", source="a/2.", sent_at="2001-05-15T00:00:00Z"),
        mail("m3", source="a/3.", body="x" * 5001),
        Skip("a/4.", SkipReason.UNREADABLE),
        on_skip=seen.append,
    )
    assert seen == [
        Skip("a/3.", SkipReason.BODY_TOO_LONG),
        Skip("a/4.", SkipReason.UNREADABLE),
        Skip("a/2.", SkipReason.DUPLICATE_CONTENT),
    ]


def test_the_database_says_what_it_was_built_from(tmp_path):
    build(tmp_path / "mail.db", mail("m1"), mail("m2"), checksum=lambda: "c0ffee", command="build-enron-db x")
    database = MailDatabase(tmp_path / "mail.db")
    assert database.metadata == {
        "schema_version": SCHEMA_VERSION,
        "builder_version": BUILDER_VERSION,
        "source": "test",
        "source_sha256": "c0ffee",
        "command": "build-enron-db x",
        "filters": '{"max_body_chars":5000,"max_recipients":30,"drop_duplicates":true,'
        '"marks":["deleted","spam","draft","trash","bin","drafts"],"inboxes":[]}',
        "read": "2",
        "kept": "1",
        "skipped": '{"duplicate_content":1}',
        "scenarios": "0",
    }
    database.close()


def test_questions_that_the_mail_cannot_serve_are_left_out_with_the_reason(tmp_path):
    path = tmp_path / "mail.db"
    report = build(
        path,
        mail("m1"),
        scenarios=[
            question("fits"),
            question("fits"),
            question("gone", message_ids=("m1", "m9")),
            question("other", inbox=CARO),
            question("early", query_date="2001-05-13"),
            question("unanswerable", message_ids=()),
        ],
    )
    database = MailDatabase(path)
    assert [scenario.scenario_id for scenario in stored_scenarios(database)] == ["fits", "unanswerable"]
    database.close()
    assert report.scenario_misfits == {
        "fits": "its id occurs twice",
        "gone": "no mail m9",
        "other": f"no mail of {CARO}",
        "early": "m1 was sent on 2001-05-14, after 2001-05-13",
    }


class Broken(Exception):
    """What a source might raise."""


@pytest.mark.parametrize("failure", [Broken, KeyboardInterrupt, SourceError])
@pytest.mark.parametrize("is_there", [False, True])
def test_a_build_that_fails_leaves_what_was_there(tmp_path, failure, is_there):
    out = tmp_path / "mail.db"
    if is_there:
        build(out, mail("m1"))
    before = [(path.name, path.read_bytes()) for path in tmp_path.iterdir()]

    def mails():
        yield from (mail(f"m{n}", f"S{n}") for n in range(1200))
        raise failure("stop")

    with pytest.raises(failure):
        build_database(mails(), out, source="test")
    assert [(path.name, path.read_bytes()) for path in tmp_path.iterdir()] == before


def test_a_build_replaces_the_old_database_while_readers_keep_theirs(tmp_path):
    path = tmp_path / "mail.db"
    build(path, mail("m1", "falcon"))
    reader = MailDatabase(path)
    build(path, mail("m2", "falcon"))
    again = MailDatabase(path)
    find = {"inbox": BEN, "keywords": ["falcon"], "until": "2002-01-01"}
    assert [hit.message_id for hit in reader.search(**find)] == ["m1"]
    assert [hit.message_id for hit in again.search(**find)] == ["m2"]
    reader.close()
    again.close()
    assert [p.name for p in tmp_path.iterdir()] == ["mail.db"]


def test_a_place_that_cannot_be_written_is_a_clear_error(tmp_path):
    (tmp_path / "file").touch()
    with pytest.raises(BuildError, match="Nothing was written"):
        build(tmp_path / "file" / "mail.db", mail("m1"))
    with pytest.raises(BuildError, match="is a folder"):
        build(tmp_path, mail("m1"))


def database_of_another_program(statements):
    with closing(sqlite3.connect(":memory:")) as connection:
        connection.executescript(statements)
        return connection.serialize()


@pytest.mark.parametrize(
    "content",
    [
        b"From a@x.com Mon May 14 16:39:00 2001\n",
        b"SQLite",
        b"SQLite format 3\0and no more",
        database_of_another_program("CREATE TABLE notes (text)"),
        database_of_another_program("CREATE TABLE meta (key, value); INSERT INTO meta VALUES ('version', '7')"),
        database_of_another_program("PRAGMA user_version = 1"),
        None,
    ],
)
def test_what_is_no_mail_database_is_not_replaced(tmp_path, content):
    out = tmp_path / "takeout 100%?.mbox"
    if content is None:
        out.symlink_to("/dev/zero")
    else:
        out.write_bytes(content)
    with pytest.raises(BuildError, match=r"\.mbox' is there and is no mail database"):
        build(out, mail("m1"))
    assert out.is_symlink() if content is None else out.read_bytes() == content
    assert [path.name for path in tmp_path.iterdir()] == [out.name]


def test_an_old_an_incomplete_and_an_empty_mail_database_are_replaced(tmp_path):
    out = tmp_path / "mail.db"
    build(out, *(mail(f"m{n}", f"S{n}", body=f"word{n} " * 500) for n in range(30)))
    half = out.read_bytes()[: out.stat().st_size // 2]
    with closing(sqlite3.connect(out)) as connection:
        connection.execute("UPDATE meta SET value = '1' WHERE key = 'schema_version'")
        connection.commit()
    for before in (out.read_bytes(), half, b""):
        out.write_bytes(before)
        build(out, mail("m1"))
        assert all_ids(out) == ["m1"]


def test_the_same_mail_gives_the_same_bytes(tmp_path):
    mails = [mail(f"m{n}", f"S{n}") for n in range(50)]
    build(tmp_path / "one.db", *mails)
    build(tmp_path / "two.db", *mails)
    assert (tmp_path / "one.db").read_bytes() == (tmp_path / "two.db").read_bytes()


def test_a_source_of_which_no_mail_is_left_leaves_what_was_there(tmp_path):
    out = tmp_path / "mail.db"
    build(out, mail("m1"))
    before = out.read_bytes()
    with pytest.raises(BuildError, match=r"No mail is left of 0 from test \(it is empty\)"):
        build(out)
    with pytest.raises(BuildError, match=r"No mail is left of 2 from test \(1 unreadable, 1 body too long\)"):
        build(out, Skip("line 1", SkipReason.UNREADABLE), mail("m2", body="x" * 6000))
    assert [(p.name, p.read_bytes()) for p in tmp_path.iterdir()] == [("mail.db", before)]


def test_progress_counts_to_the_end(tmp_path):
    seen = []
    build(
        tmp_path / "mail.db",
        *(mail(f"m{n}", f"S{n}") for n in range(1100)),
        mail("long", body="x" * 6000),
        progress=lambda read, skipped: seen.append((read, skipped)),
    )
    assert seen == [(500, 0), (1000, 0), (1101, 1)]

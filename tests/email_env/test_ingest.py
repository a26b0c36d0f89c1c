import random
import sqlite3
import textwrap
import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from email_env.database import SCHEMA_VERSION, MailDatabase
from email_env.errors import BuildError, SourceError
from email_env.ingest import ParsedMail, Skip, SkipReason
from email_env.ingest.addresses import parse_addresses, parse_mailbox, parse_sender
from email_env.ingest.build import build_database
from email_env.ingest.dates import NO_DATE, parse_date
from email_env.ingest.parse import parse_message
from email_env.ingest.staging import Filters
from email_env.ingest.versions import BUILDER_VERSION
from tests.email_env.mails import BEN, CARO, DAN, build, mail, question, raw

PLAIN = """
        Message-ID: <18.107@thyme>
        Date: Mon, 14 May 2001 16:39:00 -0700 (PDT)
        From: Anna.Keller@X.com
        To: ben@x.com, CARO@x.com,
        \tben@x.com
        Subject: Our
         forecast
        Cc: dan@y.org
        Bcc: dan@y.org
        Content-Type: text/plain; charset=us-ascii
        Content-Transfer-Encoding: 7bit
        X-From: "Keller, Anna" </O=ENRON/OU=NA/CN=AKELLE>
        X-To: Ben <Ben/Enron@EnronXGate>
"""


# ---- parsing ----


@pytest.mark.parametrize("end", ["\n", "\r\n"])
def test_a_plain_message_is_read_whole(end):
    parsed = parse_message(raw(PLAIN, "Here it is.\n\nAnna\n", end), "allen-p/sent/1.")
    assert parsed == ParsedMail(
        message_id="18.107@thyme",
        sent_at="2001-05-14T23:39:00Z",
        date_ok=True,
        from_addr="anna.keller@x.com",
        from_name="Keller, Anna",
        to=("ben@x.com", "caro@x.com"),
        cc=("dan@y.org",),
        bcc=(),
        subject="Our forecast",
        body="Here it is.\n\nAnna",
        source="allen-p/sent/1.",
    )


def test_headers_after_an_unindented_subject_line_are_still_read():
    parsed = parse_message(raw("From: a@x.com\nSubject: One\ntwo, three\nTo: b@x.com\nCc: c@x.com"))
    assert (parsed.subject, parsed.to, parsed.cc) == ("One two, three", ("b@x.com",), ("c@x.com",))
    assert parsed.body == "Text."


def test_bytes_that_are_not_utf8_survive_in_headers_as_text():
    parsed = parse_message(b"From: a@x.com\nSubject: Caf\xe9 \x93now\x94\nTo: b@x.com\n\nx")
    assert parsed.subject == "Café “now”"


def test_line_ends_may_differ_between_headers_and_body():
    headers = b"From: a@x.com\r\nTo: b@x.com,\r\n\tc@x.com\r\n\r\n"
    parsed = parse_message(headers + b"One\n\nTwo\r\nThree\n")
    assert (parsed.to, parsed.body) == (("b@x.com", "c@x.com"), "One\n\nTwo\nThree")


def test_names_in_x_to_are_no_addresses():
    parsed = parse_message(
        raw("From: a@x.com\nSubject: Lunch\nX-To: Keller, Anna </O=ENRON/CN=AKELLE>, ben@x.com\nX-cc: c@x.com")
    )
    assert (parsed.to, parsed.cc, parsed.bcc) == ((), (), ())


@pytest.mark.parametrize("charset", ["ANSI_X3.4-1968", "us-ascii", '"US-ASCII"', "no-such-charset"])
def test_old_and_unknown_names_of_charsets_do_no_harm(charset):
    parsed = parse_message(raw(f"From: a@x.com\nContent-Type: text/plain; charset={charset}", "caf\xe9 for 5\n"))
    assert parsed.body == "café for 5"


@pytest.mark.parametrize("header", ["Subject:", "Subject: ", "X-Other: x"])
def test_a_subject_may_be_empty_or_missing(header):
    parsed = parse_message(raw(f"From: a@x.com\n{header}\nTo: b@x.com"))
    assert (parsed.subject, parsed.to) == ("", ("b@x.com",))


def test_forwarded_and_quoted_mail_stays_in_the_body():
    body = (
        "FYI\n\n---------------------- Forwarded by Anna Keller/HOU on 05/14/2001 -----\nTo: ben@x.com\nSubject: Old\n\n"
        " -----Original Message-----\nFrom: Caro\nSent: Monday\n\nWords"
    )
    parsed = parse_message(raw("From: a@x.com\nTo: b@x.com\nSubject: New", body))
    assert (parsed.body, parsed.subject, parsed.to) == (body, "New", ("b@x.com",))


def test_html_in_plain_text_is_left_as_it_is():
    page = "<html><b>Hello</b> &amp; more</html>"
    assert parse_message(raw("From: a@x.com\nContent-Type: text/plain", page)).body == page


def test_control_characters_are_taken_out():
    parsed = parse_message(b"From: a@x.com\nSubject: a\x07b\x00\nTo: b\x01@x.com\n\nx\x00y\x1bz\ttab")
    assert (parsed.subject, parsed.to, parsed.body) == ("ab", ("b@x.com",), "xyz\ttab")


@pytest.mark.parametrize(
    ("encoding", "body"), [("quoted-printable", "a=b c"), ("7bit", "a=3Db=20c"), ("", "a=3Db=20c")]
)
def test_quoted_printable_is_decoded_only_where_declared(encoding, body):
    parsed = parse_message(raw(f"From: a@x.com\nContent-Transfer-Encoding: {encoding}", "a=3Db=20c"))
    assert parsed.body == body


def test_encoded_words_are_decoded():
    parsed = parse_message(raw("From: =?utf-8?q?J=C3=B6rg?= <j@x.com>\nSubject: =?iso-8859-1?b?Q2Fm6Q==?= =?bad"))
    assert (parsed.from_addr, parsed.from_name) == ("j@x.com", "Jörg")
    assert parsed.subject.startswith("Café")


def test_of_alternatives_the_plain_text_is_taken_and_attachments_are_left_out():
    parsed = parse_message(
        raw(
            'From: a@x.com\nMIME-Version: 1.0\nContent-Type: multipart/mixed;\n boundary="B"',
            textwrap.dedent("""\
                --B
                Content-Type: multipart/alternative; boundary=C

                --C
                Content-Type: text/plain; charset=utf-8
                Content-Transfer-Encoding: base64

                TcO8bGxlcg==
                --C
                Content-Type: text/html

                <p>never shown</p>
                --C--
                --B
                Content-Type: text/plain
                Content-Disposition: attachment; filename=x.txt

                attached
                --B--
                """),
        )
    )
    assert parsed.body == "Müller"


def test_a_message_of_html_alone_becomes_text():
    page = "<html><style>p {}</style><!-- a > b --><p>One &amp; two<br>three</p><script>x < y</script> 1 < 2</html>"
    parsed = parse_message(raw("From: a@x.com\nContent-Type: text/html", page))
    assert parsed.body.split() == ["One", "&", "two", "three", "1", "<", "2"]


def test_hostile_markup_costs_no_more_than_its_length():
    started = time.process_time()
    for page in ("<script" * 100_000, "<!--" * 100_000, "<" * 500_000, "&" * 500_000):
        parse_message(raw("From: a@x.com\nContent-Type: text/html", page))
    parse_message(raw("From: a@x.com\nTo: " + '"<' * 100_000 + "\nSubject: " + "=?" * 50_000 + "\n" + "\n x" * 50_000))
    assert time.process_time() - started < 10


def test_a_message_without_an_id_gets_one_of_its_bytes():
    one, same, other = (parse_message(raw(f"From: {name}@x.com")).message_id for name in "aab")
    assert one == same != other


@pytest.mark.parametrize(
    ("text", "sent_at", "sure"),
    [
        ("Mon, 14 May 2001 16:39:00 -0700 (PDT)", "2001-05-14T23:39:00Z", True),
        ("14 May 2001 16:39:00 +0530", "2001-05-14T11:09:00Z", True),
        ("Mon, 14 May 01 16:39 GMT", "2001-05-14T16:39:00Z", True),
        ("Mon, 31 Dec 1979 16:00:00 -0800 (PST)", "1980-01-01T00:00:00Z", False),
        ("Fri, 01 Jan 1982 00:00:00 +0000", "1982-01-01T00:00:00Z", True),
        ("Tue, 25 Dec 0001 06:26:44 +0000", "0001-12-25T06:26:44Z", False),
        ("Mon, 01 Jan 0001 00:00:00 +1400", "0001-01-01T00:00:00Z", False),
        ("Sat, 04 Jan 2044 14:48:58 +0000", "2044-01-04T14:48:58Z", False),
        ("Mon, 14 May 2001 16:39:60 +0000", "2001-05-14T16:39:59Z", True),
        ("Mon, 32 May 2001 16:39:00 +0000", NO_DATE, False),
        ("14 May 99999999999999999999 16:39:00 +0000", NO_DATE, False),
        ("yesterday", NO_DATE, False),
        ("", NO_DATE, False),
    ],
)
def test_dates_are_utc_and_lost_ones_are_kept_but_marked(text, sent_at, sure):
    assert parse_date(text) == (sent_at, sure)


@pytest.mark.parametrize(
    ("header", "addresses"),
    [
        ("k..allen@enron.com", ("k..allen@enron.com",)),
        ("e-mail <.bob@enron.com>", (".bob@enron.com",)),
        ('<walker"."blair@enron.com>', ("walker.blair@enron.com",)),
        ("'ben@x.com', \"'Caro@x.com'\" <caro@x.com>", ("ben@x.com", "caro@x.com")),
        ('"Keller, Anna" <anna@x.com>; ben@x.com', ("anna@x.com", "ben@x.com")),
        ("ben@x.com (Ben), , anna@x.com", ("ben@x.com", "anna@x.com")),
        ("pete.davis", ("pete.davis",)),
        ("No.Address@enron.com", ("no.address@enron.com",)),
        (", ".join(f"p{n}@x.com" for n in range(819)), tuple(f"p{n}@x.com" for n in range(819))),
        ("Undisclosed Recipients", ()),
        ("undisclosed-recipients:;", ()),
        ('"broken <ben@x.com>, anna@x.com', ("ben@x.com", "anna@x.com")),
        ("a@x.com, A@X.com", ("a@x.com",)),
        ("o'neil@x.com", ("o'neil@x.com",)),
        (" , ;", ()),
    ],
)
def test_addresses_of_real_mail_are_read(header, addresses):
    assert parse_addresses(header) == addresses


def test_a_sender_has_a_name_and_an_address():
    assert parse_mailbox('"Keller, Anna" <Anna@X.com>') == ("anna@x.com", "Keller, Anna")
    assert parse_sender("Keller, Anna <anna@x.com>") == ("anna@x.com", "Keller, Anna")
    assert parse_sender("a@x.com, b@x.com") == ("a@x.com", "")
    assert parse_sender("houston <.ward@enron.com>") == (".ward@enron.com", "houston")


def check_storable(parsed):
    for text in (*parsed.to, *parsed.cc, *parsed.bcc, parsed.from_addr, parsed.from_name, parsed.subject, parsed.body):
        assert "\x00" not in text
        text.encode()
    everybody = (*parsed.to, *parsed.cc, *parsed.bcc)
    assert len(set(everybody)) == len(everybody)
    assert all(len(address.split()) == 1 and address == address.lower() for address in everybody)
    assert len(parsed.subject.splitlines()) <= 1
    assert len(parsed.sent_at) == 20
    assert parsed.message_id


NAMES = [
    "From",
    "To",
    "Cc",
    "Bcc",
    "Date",
    "Subject",
    "Message-ID",
    "Content-Type",
    "Content-Transfer-Encoding",
    "X-From",
]
VALUES = [
    b"multipart/mixed; boundary=B", b"text/html", b"base64", b"quoted-printable", b"text/plain; charset=utf-16",
    b"text/plain; charset=unicode_escape", b"text/plain; charset=iso-2022-jp", b"text/plain; charset=utf-7",
    b"Mon, 14 May 2001 16:39:00 -0700", b"=?utf-8?b?/w==?=", b"=?x?q?=41?=", b'"', b"<", b"uu", b"message/rfc822",
    b"message/external-body", b"=?utf-16?b?ANg=?=",
]  # fmt: skip


@settings(max_examples=300, deadline=None)
@given(st.binary(max_size=300))
def test_any_bytes_give_a_message(data):
    check_storable(parse_message(data))


@settings(max_examples=300, deadline=None)
@given(
    st.lists(st.tuples(st.sampled_from(NAMES), st.sampled_from(VALUES) | st.binary(max_size=40)), max_size=8),
    st.lists(st.sampled_from([*VALUES, b"--B\n", b"--B--\n", b"\n\n", b"<p>", b"\\ud800", b"\xff\xd8"]), max_size=8),
    st.sampled_from([b"\n", b"\r\n"]),
)
def test_any_headers_and_body_give_a_message(headers, body, end):
    lines = [name.encode() + b": " + value for name, value in headers]
    check_storable(parse_message(end.join(lines) + end + end + b"".join(body)))


# ---- building ----


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
        mail("m1", "another with the same id"),
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


def test_filters_can_be_switched_off(tmp_path):
    report = build(
        tmp_path / "mail.db",
        mail("m1"),
        mail("m2"),
        mail("m3", body="x" * 9000, to=tuple(f"p{n}@x.com" for n in range(99))),
        filters=Filters(max_body_chars=None, max_recipients=None, drop_duplicates=False),
    )
    assert (report.kept, report.skipped) == (3, {})


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


@settings(max_examples=50, deadline=None)
@given(
    st.lists(st.tuples(st.sets(st.sampled_from([BEN, CARO, DAN])), st.integers(1, 4), st.integers(0, 1)), max_size=8)
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


def test_an_inbox_without_mail_is_an_error_and_writes_nothing(tmp_path):
    with pytest.raises(BuildError, match=f"No mail of {CARO} is left of 1 from test"):
        build(tmp_path / "mail.db", mail("m1"), filters=Filters(inboxes=(BEN, CARO)))
    assert list(tmp_path.iterdir()) == []


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
        "filters": '{"max_body_chars":5000,"max_recipients":30,"drop_duplicates":true,"inboxes":[]}',
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
    assert [scenario.scenario_id for scenario in database.scenarios()] == ["fits", "unanswerable"]
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
@pytest.mark.parametrize("before", [b"", b"what was there"])
def test_a_build_that_fails_leaves_what_was_there(tmp_path, failure, before):
    out = tmp_path / "mail.db"
    if before:
        out.write_bytes(before)

    def mails():
        yield from (mail(f"m{n}", f"S{n}") for n in range(1200))
        raise failure("stop")

    with pytest.raises(failure):
        build_database(mails(), out, source="test")
    assert [(p.name, p.read_bytes()) for p in tmp_path.iterdir()] == ([("mail.db", before)] if before else [])


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


def test_the_same_mail_gives_the_same_bytes(tmp_path):
    mails = [mail(f"m{n}", f"S{n}") for n in range(50)]
    build(tmp_path / "one.db", *mails)
    build(tmp_path / "two.db", *mails)
    assert (tmp_path / "one.db").read_bytes() == (tmp_path / "two.db").read_bytes()


def test_an_empty_source_gives_an_empty_database(tmp_path):
    report = build(tmp_path / "mail.db")
    assert (report.read, report.kept) == (0, 0)
    database = MailDatabase(tmp_path / "mail.db")
    assert not database.has_inbox(BEN)
    database.close()


def test_progress_counts_to_the_end(tmp_path):
    seen = []
    build(
        tmp_path / "mail.db",
        *(mail(f"m{n}", f"S{n}") for n in range(1100)),
        mail("m0"),
        progress=lambda read, skipped: seen.append((read, skipped)),
    )
    assert seen == [(500, 0), (1000, 0), (1101, 1)]

import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from email_env.ingest.addresses import listed_names, parse_mailboxes
from email_env.ingest.dates import NO_DATE, parse_date
from email_env.ingest.parse import parse_message
from email_env.mail import ParsedMail
from tests.email_env.mails import raw

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
        X-To: Ben <Ben/Enron@EnronXGate>, "Caro" <CARO/Enron>
"""


@pytest.mark.parametrize("end", ["\n", "\r\n"])
def test_a_plain_message_is_read_whole(end):
    parsed = parse_message(raw(PLAIN, f"Here it is.{end}{end}Anna{end}", end), "allen-p/sent/1.")
    assert parsed == ParsedMail(
        message_id="18.107@thyme",
        sent_at="2001-05-14T16:39:00-07:00",
        date_ok=True,
        from_addr="anna.keller@x.com",
        from_name="Keller, Anna",
        to=("ben@x.com", "caro@x.com"),
        cc=("dan@y.org",),
        bcc=(),
        subject="Our forecast",
        body="Here it is.\n\nAnna",
        source="allen-p/sent/1.",
        names=(("ben@x.com", "Ben"), ("caro@x.com", "Caro")),
    )


PAGE = "<html><b>Hello</b> &amp; more</html>"
FORWARDED = (
    "FYI\n\n---------------------- Forwarded by Anna Keller/HOU on 05/14/2001 -----\nTo: ben@x.com\nSubject: Old\n\n"
    " -----Original Message-----\nFrom: Caro\nSent: Monday\n\nWords"
)


@pytest.mark.parametrize(
    ("headers", "body", "fields"),
    [
        ("Subject: One\ntwo, three\nCc: c@x.com", "x", {"subject": "One two, three", "cc": ("c@x.com",), "body": "x"}),
        ("Subject: Caf\xe9 \x93now\x94", "x", {"subject": "Café “now”"}),
        ("Subject: a\x07b\x00\nCc: b\x01@x.com", "x\x00y\x1b\tz", {"subject": "ab", "cc": ("b@x.com",), "body": "xy\tz"}),
        ("Subject: =?iso-8859-1?b?Q2Fm6Q==?= =?bad", "x", {"subject": "Café =?bad"}),
        ("To: \nTO: b@x.com\nCC:\nCc: c@x.com\nCc: b@x.com", "x", {"to": ("b@x.com", "to@x.com"), "cc": ("c@x.com",)}),
        ("Subject: \nSubject: One\nSubject: Two", "x", {"subject": "One"}),
        ("Subject: =?iso-8859-2*sl?Q?Doma=E8e?= =?ISO-8859-2*sl?q?_omre=BEje?= 2", "x", {"subject": "Domače omrežje 2"}),
        ("Subject: =?utf-8?q?=C3?=\n =?utf-8?q?=BC?= =?utf-8?Q?Who??= =?utf-8?b?w?=", "x", {"subject": "üWho?=?utf-8?b?w?="}),
        ("Subject:", "x", {"subject": "", "to": ("to@x.com",)}),
        ("Subject: ", "x", {"subject": "", "to": ("to@x.com",)}),
        ("X-Other: x", "x", {"subject": "", "to": ("to@x.com",)}),
        ("X-From: =?utf-8?q?J=C3=B6rg?= </O=X/CN=J>", "x", {"from_name": "Jörg"}),
        ("X-To: Keller, Anna </O=X/CN=A>, ben@x.com\nX-cc: c@x.com", "x", {"to": ("to@x.com",), "cc": (), "names": ()}),
        ("X-To: Ben,\n\tCc: forged@x.com\nX-Note: goes on\nhere\nBcc: b@x.com", "x", {"cc": (), "bcc": ("b@x.com",)}),
        ("Cc: b@x.com,\r\n\tc@x.com\r", "1\n\n2\r\n3\n", {"cc": ("b@x.com", "c@x.com"), "body": "1\n\n2\n3"}),
        ("Subject: New", FORWARDED, {"subject": "New", "body": FORWARDED, "to": ("to@x.com",)}),
        ("Content-Type: text/plain", PAGE, {"body": PAGE}),
        ("Content-Type: text/plain; charset=ANSI_X3.4-1968", "caf\xe9 for 5\n", {"body": "café for 5"}),
        ('Content-Type: text/plain; charset="US-ASCII"', "caf\xe9 for 5\n", {"body": "café for 5"}),
        ("Content-Type: text/plain; charset=no-such-charset", "caf\xe9 for 5\n", {"body": "café for 5"}),
        ("Content-Transfer-Encoding: quoted-printable", "a=3Db=20c", {"body": "a=b c"}),
        ("Content-Transfer-Encoding: 7bit", "a=3Db=20c", {"body": "a=3Db=20c"}),
        ("X-Other: x", "a=3Db=20c", {"body": "a=3Db=20c"}),
    ],
)  # fmt: skip
def test_what_headers_and_text_of_real_mail_say(headers, body, fields):
    """Also where they break a rule: unindented lines, bytes that are not ASCII, mixed line ends, wrong charsets."""
    parsed = parse_message(raw(f"From: a@x.com\n{headers}\nTo: to@x.com", body))
    assert {name: getattr(parsed, name) for name in fields} == fields


def test_a_message_without_an_id_gets_one_of_its_bytes():
    one, same, other = (parse_message(raw(f"From: {name}@x.com")).message_id for name in "aab")
    assert one == same != other


@pytest.mark.parametrize(
    ("text", "sent_at", "sure"),
    [
        ("Mon, 14 May 2001 16:39:00 -0700 (PDT)", "2001-05-14T16:39:00-07:00", True),
        ("14 May 2001 16:39:00 +0530", "2001-05-14T16:39:00+05:30", True),
        ("Mon, 14 May 01 16:39 GMT", "2001-05-14T16:39:00Z", True),
        ("Mon, 14 May 2001 16:39:00 +02:00", "2001-05-14T16:39:00+02:00", True),
        ("Mon, 14 May 2001 16:39:00 GMT-05:30", "2001-05-14T16:39:00-05:30", True),
        ("Mon, 14 May 2001 16:39 UTC+2", "2001-05-14T16:39:00+02:00", True),
        ("Mon, 14 May 2001 16:39:00 +02", "2001-05-14T16:39:00+02:00", True),
        ("Mon May 14 2001 16:39:00 GMT+0200 (CEST)", "2001-05-14T16:39:00+02:00", True),
        ("Mon, 31 Dec 1979 16:00:00 -0800 (PST)", "1979-12-31T16:00:00-08:00", False),
        ("Fri, 01 Jan 1982 00:00:00 +0000", "1982-01-01T00:00:00Z", True),
        ("Tue, 25 Dec 0001 06:26:44 +0000", "0001-12-25T06:26:44Z", False),
        ("14 May 2001 16:39:00 -0000", "2001-05-14T16:39:00Z", True),
        ("14 May 2001 16:39:00 EST", "2001-05-14T16:39:00-05:00", True),
        ("14 May 2001 16:39:00 CEST", "2001-05-14T16:39:00Z", False),
        ('14 May 2001 16:39:00 "GMT"', "2001-05-14T16:39:00Z", True),
        ("14 May 2001 16:39:00 (GMT-05:00) Eastern Time", "2001-05-14T16:39:00-05:00", True),
        ("14 May 2001 16:39:00 EST5EDT", "2001-05-14T16:39:00Z", False),
        ("14 May 2001 16:39:00 \u22120700", "2001-05-14T16:39:00Z", False),
        ("2001-05-14T16:39:00[Europe/Berlin]", "2001-05-14T16:39:00Z", False),
        ("14 May 2001 163900 +0200", "2001-05-14T00:00:00Z", False),
        ("14 May 2001 16:39:00 +2300", "2001-05-14T16:39:00Z", False),
        ("14 May 2001 16:39:00 0200", "2001-05-14T16:39:00Z", False),
        ("14 May 2001 16:39:00.882 0000", "2001-05-14T16:39:00Z", True),
        ("Mon, 14 May 101 16.39.00 +0200 (CEST)", "2001-05-14T16:39:00+02:00", True),
        ("Mon,14 May 2001 16:39:00+0200", "2001-05-14T16:39:00+02:00", True),
        ("Mon May 14 16:39:00 2001", "2001-05-14T16:39:00Z", True),
        ("Wed 29 May 2019 06:09:22 PM EDT", "2019-05-29T18:09:22-04:00", True),
        ("18 Feb 01 12:29:13 AM", "2001-02-18T00:29:13Z", True),
        ("3 Jun 2019 21:05:00 PM +0200", "2019-06-03T21:05:00+02:00", True),
        ("3 Jun 2019 21:05:00 AM +0200", NO_DATE, False),
        ("Monday, May 13, 2024 3:15 p.m. +0200", "2024-05-13T15:15:00+02:00", True),
        ("Mon May 13 03:15:00 PM EDT 2024", "2024-05-13T15:15:00-04:00", True),
        ("Mon , 13 May 2024 15:15:00 +0200", "2024-05-13T15:15:00+02:00", True),
        ("Fri, 13 Sept 2024 24:00:00 +0000", "2024-09-14T00:00:00Z", True),
        ("Fri, 13 Sept 2024 24:01:00 +0000", NO_DATE, False),
        ("Di, 17 Mai 2005 12:31:00 +0200", NO_DATE, False),
        ("1999/01/31 14:05:00", "1999-01-31T14:05:00Z", True),
        ("1999-Jan-31 14:05:00", "1999-01-31T14:05:00Z", True),
        ("Monday, May 13th, 2024 at 3:15 PM", "2024-05-13T15:15:00Z", True),
        ("5/13/2024, 3:15:00\u202fPM", "2024-05-13T15:15:00Z", True),
        ("13.05.2024 15:15", "2024-05-13T15:15:00Z", True),
        ("05/05/2024", "2024-05-05T00:00:00Z", True),
        ("05/06/2024", NO_DATE, False),
        ("990000000", "2001-05-16T08:00:00Z", True),
        ("990000000000", "2001-05-16T08:00:00Z", True),
        ("990000000000000000.0", "2001-05-16T08:00:00Z", True),
        ("20010514163900", NO_DATE, False),
        ("Sat, 04 Jan 2044 14:48:58 +0000", NO_DATE, False),
        ("Mon, 14 May 2001 16:39:60 +0000", "2001-05-14T16:39:59Z", True),
        ("Mon, 32 May 2001 16:39:00 +0000", NO_DATE, False),
        ("14 May 99999999999999999999 16:39:00 +0000", NO_DATE, False),
        ("2024-02-19T10:00:00+01:00", "2024-02-19T10:00:00+01:00", True),
        ("2024-02-19T10:00:00.250Z", "2024-02-19T10:00:00Z", True),
        ("2024-02-19 10:00:00", "2024-02-19T10:00:00Z", True),
        ("2024-02-19 10:00:00 -0530", "2024-02-19T10:00:00-05:30", True),
        ("2024-02-19T10:00+01 (CET)", "2024-02-19T10:00:00+01:00", True),
        ("2024-02-19", "2024-02-19T00:00:00Z", True),
        ("2024-02-30 10:00:00", NO_DATE, False),
        ("2024-02-199", NO_DATE, False),
        ("yesterday", NO_DATE, False),
        ("", NO_DATE, False),
    ],
)
def test_a_date_is_right_in_its_zone_or_unknown(text, sent_at, sure):
    assert parse_date(text) == (sent_at, sure)


RECEIVED = """\
        Received: from mx.x.com by mail.x.com with ESMTP id 1;
         Tue, 05 Mar 2024 10:11:12 +0100
        Received: from out.y.org by mx.x.com; Tue, 05 Mar 2024 09:00:00 +0000
        From: a@y.org
        To: list@y.org
"""


@pytest.mark.parametrize("date", ["", "        Date: Mon, 32 May 2024 16:39:00 +0000\n", "        Date: never\n"])
def test_where_the_date_is_missing_the_last_hop_has_it(date):
    parsed = parse_message(raw(RECEIVED + date))
    assert (parsed.sent_at, parsed.date_ok) == ("2024-03-05T10:11:12+01:00", True)


def test_a_date_may_be_an_encoded_word():
    parsed = parse_message(raw("Date: =?utf-8?Q?Mon,_13_May_2024_15:15:00_+0200?="))
    assert (parsed.sent_at, parsed.date_ok) == ("2024-05-13T15:15:00+02:00", True)


@pytest.mark.parametrize("hop", ["from a by b", "from a by b; soon", "from a; Tue, 05 Mar 2044 09:00:00 +0000"])
def test_a_hop_without_a_plausible_date_is_no_date(hop):
    assert not parse_message(raw(f"Received: {hop}\nFrom: a@x.com")).date_ok


def test_to_whom_it_was_delivered_is_read():
    parsed = parse_message(
        raw(
            "Delivered-To: me@x.com\nEnvelope-To: <Me@Other.org>\nX-Original-To: me+news@x.com\n"
            "Delivered-To: mailing list news@y.org\nFrom: a@y.org\nTo: news@y.org\nList-Id: <news.y.org>"
        )
    )
    assert parsed.delivered == ("me@x.com", "me+news@x.com", "me@other.org")
    assert (parsed.to, parsed.listed) == (("news@y.org",), True)
    assert not parse_message(raw("From: a@y.org\nTo: me@x.com")).listed


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
        ('"broken <ben@x.com>, anna@x.com', ("ben@x.com", "anna@x.com")),
        ("a@x.com, A@X.com", ("a@x.com",)),
        ("o'neil@x.com", ("o'neil@x.com",)),
        (" , ;", ()),
    ],
)
def test_addresses_of_real_mail_are_read(header, addresses):
    assert tuple(parse_mailboxes(header)) == addresses


@pytest.mark.parametrize(
    ("header", "addresses", "names"),
    [
        ("Kim Ward, John J Lavorato", "kim.ward@x.com john.lavorato@x.com", "Kim Ward|John J Lavorato"),
        ("Ward, Kim S. </O=X/CN=KWARD>, Presto III, Al </O=X>", "kward@x.com a..presto@x.com", "Ward, Kim S.|Presto III, Al"),
        ("ben@x.com, Ward, Kim </O=X/CN=K>, Help Desk </O=X>", "ben@x.com k.ward@x.com desk@x.com", "|Ward, Kim|Help Desk"),
        ('"Pipes & Co, Inc." <news@p.com> @ X, jo@y.com', "jo@y.com news@p.com", "|Pipes & Co, Inc."),
        ("Kim Ward <Kim Ward/ET&S/X@X>, Dan", "kim.ward@x.com dan@x.com", "Kim Ward|Dan"),
        ("Pookie", "epao@mba.edu", "Pookie"),
        ("Pookie, Dan", "epao@mba.edu dan@x.com", "|Dan"),
        ("Kim Ward", "kim.ward@x.com dan@x.com", "|"),
        ("<jo@y.com>", "jo@y.com", ""),
        ("Stan Horton, Chairman@X <IMCEANOTES-Stan@X.com>", "stan@x.com", ""),
    ],
)  # fmt: skip
def test_names_of_x_to_go_to_their_addresses_where_that_is_sure(header, addresses, names):
    known = dict(listed_names(header, addresses.split()))
    assert [known.get(address, "") for address in addresses.split()] == names.split("|")


def check_storable(parsed):
    for text in (*parsed.to, *parsed.cc, *parsed.bcc, parsed.from_addr, parsed.from_name, parsed.subject, parsed.body):
        assert "\x00" not in text
        text.encode()
    everybody = (*parsed.to, *parsed.cc, *parsed.bcc)
    assert len(set(everybody)) == len(everybody)
    assert all(len(address.split()) == 1 and address == address.lower() for address in everybody)
    assert len(parsed.subject.splitlines()) <= 1
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(Z|[+-]\d\d:\d\d)", parsed.sent_at)
    for address, name in parsed.names:
        assert address in everybody
        assert name
        assert "\x00" not in name
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
    "X-To",
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

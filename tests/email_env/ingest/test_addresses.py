"""Headers in which a comma or an angle bracket is part of a name, not of the list."""

import pytest

from email_env.ingest.addresses import listed_names, parse_mailboxes, parse_sender
from email_env.ingest.parse import parse_message
from tests.email_env.mails import raw

MUELLER = "=?iso-8859-1?Q?M=FCller=2C_Anna?="


@pytest.mark.parametrize(
    ("header", "expected"),
    [
        (f"{MUELLER} <anna@x.com>, ben@x.com", {"anna@x.com": "Müller, Anna", "ben@x.com": ""}),
        (f'"{MUELLER}" <anna@x.com>', {"anna@x.com": "Müller, Anna"}),
        ("=?utf-8?q?M=C3=BCller=2C?=\n =?utf-8?q?_Anna?= <anna@x.com>", {"anna@x.com": "Müller, Anna"}),
        ("=?utf-8?q?Keller,_Anna?= <anna@x.com>", {"anna@x.com": "Keller, Anna"}),
        ("=?utf-8?q?m=C3=BCller?=, Anna <anna@x.com>", {"anna@x.com": "müller, Anna"}),
        ("anna@x.com (=?utf-8?q?Keller=2C_Anna?=)", {"anna@x.com": "Keller, Anna"}),
        ("=?utf-8?b?IktlbGxlciwgQW5uYSIgPGFubmFAeC5jb20+LCBiZW5AeC5jb20=?=", {"anna@x.com": "Keller, Anna", "ben@x.com": ""}),
        ("=?utf-8?q?anna=40x.com?=, =?utf-8?q?ben?=@x.com", {"anna@x.com": "", "ben@x.com": ""}),
        (f"{MUELLER}, ben@x.com", {"anna.muller": "Müller, Anna", "ben@x.com": ""}),
    ],
)  # fmt: skip
def test_an_encoded_name_is_decoded_when_the_header_is_split(header, expected):
    parsed = parse_message(raw(f"From: a@x.com\nTo: {header}"))
    assert (dict.fromkeys(parsed.to, "") | dict(parsed.names)) == expected


@pytest.mark.parametrize(
    ("header", "expected"),
    [
        ("Keller, Anna <anna@x.com>", {"anna@x.com": "Keller, Anna"}),
        (
            "Keller, Anna <anna@x.com>, Lee Jr., Bo <bo@y.org>",
            {"anna@x.com": "Keller, Anna", "bo@y.org": "Lee Jr., Bo"},
        ),
        ("ben@x.com, Keller, Anna <anna@x.com>", {"ben@x.com": "", "anna@x.com": "Keller, Anna"}),
        ("kay, lee <lee@x.com>", {"kay": "", "lee@x.com": "lee"}),
        ("kay, pete.davis, Lee", {"kay": "", "pete.davis": "", "lee": ""}),
    ],
)
def test_a_surname_before_a_comma_is_no_address_and_a_name_in_small_letters_is(header, expected):
    assert parse_mailboxes(header) == expected


@pytest.mark.parametrize(
    ("header", "expected"),
    [
        ('"Anna <Sales>" <anna@x.com>', {"anna@x.com": "Anna"}),
        ('"John <john@x.com> via List" <list@y.org>', {"list@y.org": "John"}),
        ("'John <john@x.com>' via List <list@y.org>", {"list@y.org": "John"}),
        ("Anna <anna@x.com> <Sales>", {"anna@x.com": "Anna"}),
        ('"Anna <anna@x.com>"', {"anna@x.com": "Anna"}),
        ("anna@x.com (Keller, Anna)", {"anna@x.com": "Keller, Anna"}),
        ("anna@x.com (Keller; Anna, (x, y) z), ben@x.com", {"anna@x.com": "Keller; Anna, (x, y) z", "ben@x.com": ""}),
        ('"Keller (Anna" <anna@x.com>, "Lee) Bo" <bo@y.org>', {"anna@x.com": "Keller (Anna", "bo@y.org": "Lee) Bo"}),
        ("Anna :( <anna@x.com>, Ben :) <ben@x.com>", {"anna@x.com": "Anna :(", "ben@x.com": "Ben :)"}),
        ("Anna <anna@x.com, Ben <ben@x.com>", {"anna@x.com": "", "ben@x.com": "Ben"}),
    ],
)
def test_the_address_is_in_the_last_brackets_and_a_comma_in_a_comment_separates_nothing(header, expected):
    assert parse_mailboxes(header) == expected


@pytest.mark.parametrize(
    ("header", "expected"),
    [
        (f"{MUELLER} <anna@x.com>", ("anna@x.com", "Müller, Anna")),
        ('"Keller, Anna" <Anna@X.com>', ("anna@x.com", "Keller, Anna")),
        ("a@x.com, b@x.com", ("a@x.com", "")),
        ("houston <.ward@enron.com>", (".ward@enron.com", "houston")),
        ("Keller, Anna <anna@x.com>, Lee, Bo <bo@y.org>", ("anna@x.com", "Keller, Anna")),
        ("=?utf-8?b?IktlbGxlciwgQW5uYSIgPGFubmFAeC5jb20+?=", ("anna@x.com", "Keller, Anna")),
        ("=?utf-8?q?John_=3Cjohn=40x.com=3E_via_List?= <list@y.org>", ("list@y.org", "John")),
    ],
)
def test_a_sender_is_read_as_a_recipient_is(header, expected):
    assert parse_sender(header) == expected


@pytest.mark.parametrize(
    ("header", "expected"),
    [
        ("anna at x.com (Anna Keller)", ("anna@x.com", "Anna Keller")),
        ("Anna Keller <anna at x.com>", ("anna@x.com", "Anna Keller")),
        ("Anna Keller <anna @ x.com>", ("anna@x.com", "Anna Keller")),
        ("Anna Keller <mailto:anna@x.com>", ("anna@x.com", "Anna Keller")),
        ("Anna Keller [mailto:anna@x.com]", ("anna@x.com", "Anna Keller")),
        ("SMTP:anna@x.com", ("anna@x.com", "")),
        ("Friends:anna@x.com;", ("anna@x.com", "")),
        ("<@relay.com,@y.org:anna@x.com>", ("anna@x.com", "")),
        ("<anna@x.com> (Anna Keller)", ("anna@x.com", "Anna Keller")),
        ("(Anna Keller) <anna(home)@x.com(mine)>", ("anna@x.com", "Anna Keller")),
        ('<"anna.(home)"@x.com>', ("anna.home@x.com", "")),
        ("Anna Keller (anna@x.com)", ("anna@x.com", "Anna Keller")),
        ('"Keller, Anna (Oslo)" <anna@x.com> (was ann@y.org)', ("anna@x.com", "Keller, Anna (Oslo)")),
        ("Anna Keller/Oslo/Tea@TEA", ("anna.keller", "Anna Keller")),
        ("CN=Anna Keller/OU=Oslo/O=Tea@TEA", ("anna.keller", "Anna Keller")),
        ("anna@[IPv6:2001:db8::1]", ("anna@[ipv6:2001:db8::1]", "")),
    ],
)
def test_an_address_is_the_same_however_it_is_written(header, expected):
    assert parse_sender(header) == expected


GROUP = "/O=TEA HOUSE/OU=EXCHANGE ADMINISTRATIVE GROUP (FYDIBOHF23SPDLT)/CN=RECIPIENTS"
GATEWAY = "IMCEAEX-_O=TEA+20HOUSE_OU=GROUP+20+28X+29_CN=RECIPIENTS_CN=9F3A-BLEE"


@pytest.mark.parametrize(
    ("header", "expected"),
    [
        ("Anna Keller", {"anna.keller": "Anna Keller"}),
        ("Keller, Anna B.", {"anna.keller": "Keller, Anna B."}),
        ("A. B.", {"a.b": "A. B."}),
        ("Anna Keller; Bo Lee", {"anna.keller": "Anna Keller", "bo.lee": "Bo Lee"}),
        ("Keller, Anna; Lee, Bo S. (Oslo)", {"anna.keller": "Keller, Anna", "bo.lee": "Lee, Bo S."}),
        ("Keller, Anna; bo@x.com; de Wit, Jo", {"anna.keller": "Keller, Anna", "bo@x.com": "", "jo.de.wit": "de Wit, Jo"}),
        ("Lee, Bo <bo@x.com>; Kay; Jo <jo@x.com>", {"bo@x.com": "Lee, Bo", "kay": "", "jo@x.com": "Jo"}),
        ('"Keller, Anna" <MAILER-DAEMON>', {"anna.keller": "Keller, Anna"}),
        ('"Keller, Anna" <>, "Lee, Bo"', {"anna.keller": "Keller, Anna", "bo.lee": "Lee, Bo"}),
        ("=?utf-8?q?=C5=BDiga_Kova=C4=8D?=", {"ziga.kovac": "Žiga Kovač"}),
        ("Friends: Anna Keller, bo@x.com;", {"anna.keller": "Anna Keller", "bo@x.com": ""}),
        (f'"Keller, Anna" <{GROUP}/CN=9F3A-AKELLER>', {"9f3a-akeller": "Keller, Anna"}),
        (f"{GROUP}/CN=AKELLER, EX:{GROUP.lower()}/cn=blee", {"akeller": "", "blee": ""}),
        (f'"{GROUP}/CN=AKELLER"', {"akeller": ""}),
        (f"Lee, Bo <{GATEWAY}@x.prod.outlook.com>", {"9f3a-blee": "Lee, Bo"}),
        ("<CN=Anna Keller/OU=Oslo/O=Tea>, <cn=Bo Lee,ou=Users,dc=tea>", {"anna.keller": "Anna Keller", "bo.lee": "Bo Lee"}),
        ("Anna Keller <>, <>, (nobody), Undisclosed recipients, Suppressed list:;", {"anna.keller": "Anna Keller"}),
        ("x" * 501 + "@x.com, bo@x.com", {"bo@x.com": ""}),
    ],
)  # fmt: skip
def test_a_person_whom_a_mail_gives_no_address_has_the_name_as_one(header, expected):
    assert parse_mailboxes(header) == expected


@pytest.mark.parametrize(
    ("header", "expected"),
    [("Keller, Anna", ("anna.keller", "Keller, Anna")), ("Look at this", ("look.at.this", "Look at this"))],
)
def test_a_sender_is_one_person_whatever_commas_stand_in_the_name(header, expected):
    assert parse_sender(header) == expected


@pytest.mark.parametrize(
    "header",
    [
        "undisclosed-recipients:;",
        "Undisclosed recipients: ;",
        "undisclosed-recipients;;",
        "unlisted-recipients",
        "undisclosed-recipient:@lists.x.com;",
        "<Undisclosed-Recipient:;>",
    ],
)
def test_recipients_that_are_not_disclosed_are_nobody(header):
    assert parse_mailboxes(header) == {}
    assert parse_mailboxes(f"{header}, anna@x.com")["anna@x.com"] == ""


def test_in_x_to_the_first_brackets_have_the_address_and_those_of_notes_follow():
    header = "'\"Ward, Kim\" <kim@x.com>@X' <IMCEANOTES-+22Ward+2C+20Kim+22@X.com>"
    assert listed_names(header, ["kim@x.com"]) == [("kim@x.com", "Ward, Kim")]

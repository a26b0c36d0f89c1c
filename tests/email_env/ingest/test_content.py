"""What a message says: alternatives, attachments, calendars, and what only a server's headers tell."""

import time
from email.message import EmailMessage
from email.policy import SMTP

import pytest

from email_env.ingest.body import MAX_MARKUP_CHARS
from email_env.ingest.calendar import calendar_text
from email_env.ingest.markup import markup_text
from email_env.ingest.parse import parse_message
from email_env.search.database import MailDatabase
from email_env.tools.prompts import whole_email
from tests.email_env.mails import build, raw

INVITATION = """\
BEGIN:VCALENDAR
METHOD:REQUEST
BEGIN:VTIMEZONE
TZID:Europe/Berlin
BEGIN:STANDARD
DTSTART:19701025T030000
END:STANDARD
END:VTIMEZONE
BEGIN:VEVENT
DTSTART;TZID=Europe/Berlin:20240305T100000
DTEND;TZID="Europe/Berlin":20240305T113000
SUMMARY:Budget review\\, first
  round
LOCATION:Room 12
ORGANIZER;CN="Keller: Anna":mailto:anna@x.com
ATTENDEE;PARTSTAT=NEEDS-ACTION:MAILTO:ben@x.com
DESCRIPTION:Bring the figures.\\nAnna
BEGIN:VALARM
TRIGGER:-PT15M
DESCRIPTION:Reminder
END:VALARM
END:VEVENT
END:VCALENDAR
"""
EVENT = """\
Start: 2024-03-05 10:00 Europe/Berlin
End: 2024-03-05 11:30 Europe/Berlin
Event: Budget review, first round
Place: Room 12
Organizer: Keller: Anna <anna@x.com>
Attendee: ben@x.com
Bring the figures.
Anna"""


def composed(text=None, html=None, attachments=(), **headers):
    """A message as the standard library writes it; attachments are (content, type, name) each."""
    message = EmailMessage(policy=SMTP)
    for name, value in {"From": "a@x.com", "To": "b@x.com", **headers}.items():
        message[name.replace("_", "-")] = value
    if text is not None:
        message.set_content(text)
    if html is not None:
        message.add_alternative(html, subtype="html") if text is not None else message.set_content(html, subtype="html")
    for content, kind, name in attachments:
        maintype, _, subtype = kind.partition("/")
        data = content if isinstance(content, bytes) else content.encode()
        message.add_attachment(data, maintype=maintype, subtype=subtype, filename=name)
    return parse_message(message.as_bytes())


def test_attachments_are_named_and_those_of_text_are_read():
    parsed = composed(
        "See the files.",
        attachments=[
            (b"%PDF-1.4", "application/pdf", "Quartalsbericht März.pdf"),
            ("city,sales\nOslo,310\n", "text/csv", "sales.csv"),
            ("<p>One</p><p>Two</p>", "text/html", "page.html"),
            (INVITATION, "application/octet-stream", "invite.ics"),
            (b"\x89PNG", "image/png", "plan.png"),
        ],
    )
    assert parsed.body == "See the files."
    assert parsed.attachments == ("Quartalsbericht März.pdf", "sales.csv", "page.html", "invite.ics", "plan.png")
    assert parsed.attached == (f"[sales.csv]\ncity,sales\nOslo,310\n\n[page.html]\nOne\nTwo\n\n[invite.ics]\n{EVENT}")


def test_the_text_of_attachments_is_bounded():
    parsed = composed("Log", attachments=[("x" * 1_000_000, "text/plain", f"{n}.log") for n in range(3)])
    assert (len(parsed.attached), parsed.body) == (5_000, "Log")


def test_an_invitation_is_text():
    message = EmailMessage()
    message["From"] = "a@x.com"
    message.set_content("You are invited.")
    message.add_alternative("<p>You are invited.</p>", subtype="html")
    message.add_alternative(INVITATION, subtype="calendar", params={"method": "REQUEST"})
    message.add_attachment(INVITATION.encode(), maintype="application", subtype="ics", filename="invite.ics")
    parsed = parse_message(message.as_bytes())
    assert parsed.body == "You are invited."
    assert parsed.attached == f"{EVENT}\n\n[invite.ics]\n{EVENT}"
    assert parsed.attachments == ("invite.ics",)
    alone = parse_message(raw("From: a@x.com\nContent-Type: text/calendar; charset=utf-8", INVITATION))
    assert (alone.body, alone.attached) == ("", EVENT)


@pytest.mark.parametrize(
    ("line", "shown"),
    [
        ("DTSTART:20240305T093000Z", "Start: 2024-03-05 09:30 UTC"),
        ("DTSTART;VALUE=DATE:20240305", "Start: 2024-03-05"),
        ("DTSTART:20240305T093000", "Start: 2024-03-05 09:30"),
        ("DTSTART:soon", "Start: soon"),
        ("DURATION:PT1H30M", "Duration: 1 h 30 min"),
        ("DURATION:P1W", "Duration: 1 w"),
        ("DURATION:long", "Duration: long"),
        ("summary:Lower case", "Event: Lower case"),
        ("ATTENDEE;CN=ben@x.com:mailto:ben@x.com", "Attendee: ben@x.com"),
        ("X-OTHER:no", ""),
    ],
)
def test_times_and_people_of_a_calendar_are_readable(line, shown):
    text = f"BEGIN:VCALENDAR\r\nBEGIN:VEVENT\r\n{line}\r\nLOCATION:Here\r\nEND:VEVENT\r\nEND:VCALENDAR\r\n"
    assert calendar_text(text) == "\n".join(filter(None, [shown, "Place: Here"]))


def test_a_calendar_may_be_folded_inside_a_letter():
    event = b"BEGIN:VEVENT\r\nSUMMARY:Caf\xc3\r\n \xa9 in K\xc3\xb6ln\r\nEND:VEVENT\r\n"
    headers = b"From: a@x.com\r\nContent-Type: text/calendar; charset=utf-8\r\n\r\n"
    assert parse_message(headers + event).attached == "Event: Café in Köln"


def test_a_calendar_without_events_stays_as_it_is():
    assert calendar_text("BEGIN:VCALENDAR\nEND:VCALENDAR") == "BEGIN:VCALENDAR\nEND:VCALENDAR"


PAGE = "<p>Dear Ben, your flight LH 2034 to Oslo leaves on Friday at 16:40 from gate B12.</p><p>Have a good trip!</p>"


@pytest.mark.parametrize(
    "stub",
    [
        "",
        "Your mail program cannot show this mail.",
        "View it in your browser: https://news.example.com/view?id=0123456789abcdefghijklmnopqrstuvwxyz0123456789",
    ],
)
def test_where_the_plain_part_is_a_stub_the_page_is_the_text(stub):
    assert composed(stub, PAGE).body == (
        "Dear Ben, your flight LH 2034 to Oslo leaves on Friday at 16:40 from gate B12.\nHave a good trip!"
    )


@pytest.mark.parametrize(
    "text", ["Flight LH 2034, Friday 16:40, gate B12. Have a good trip to Oslo, Ben!", "word " * 120]
)
def test_where_the_plain_part_says_it_too_it_is_the_text(text):
    page = PAGE + "<p>" + "more " * 1000 + "</p>" if text.startswith("word") else PAGE
    assert composed(text, page).body == text.strip()


def test_a_page_between_plain_parts_is_read_in_its_place():
    message = EmailMessage()
    message["From"] = "a@x.com"
    message.make_mixed()
    for text, kind in (("<p>The offer.</p>", "html"), ("-- \nlist footer", "plain")):
        part = EmailMessage()
        part.set_content(text, subtype=kind)
        message.attach(part)
    assert parse_message(message.as_bytes()).body == "The offer.\n-- \nlist footer"


@pytest.mark.parametrize("encoding", ["base64 ", "base64;", "BASE64\t\r"])
def test_a_transfer_encoding_may_have_something_behind_it(encoding):
    part = f"--B\nContent-Transfer-Encoding: {encoding}\nContent-Type: text/plain; charset=utf-8\n\nTcO8bGxlcg==\n--B--"
    parsed = parse_message(raw("From: a@x.com\nContent-Type: multipart/mixed; boundary=B", part))
    assert parsed.body == "Müller"


@pytest.mark.parametrize(
    ("packed", "text"),
    [
        ("TcO8bGxlcg==\n", "Müller"),
        ("TcO8bGxlcg==\n-\nTo leave, write to the list é\n", "Müller\n-\nTo leave, write to the list é"),
        ("TcO8\r\nbGxlcg\r\n\n____\nOld list\n", "Müller\n____\nOld list"),
        ("TcO8\n!!\n" + "bGxl" * 10, "Mü" + "lle" * 10),
    ],
)
def test_behind_base64_a_list_may_have_put_text(packed, text):
    headers = "From: a@x.com\nContent-Transfer-Encoding: base64\nContent-Type: text/plain; charset=utf-8\n\n"
    assert parse_message((headers + packed).encode()).body == text


def test_parts_whose_boundary_is_lost_are_text():
    parsed = parse_message(raw("From: a@x.com\nContent-Type: multipart/mixed", "Hello, all in one."))
    assert parsed.body == "Hello, all in one."


@pytest.mark.parametrize(
    ("page", "text"),
    [
        ("<p>Hel<b>lo</b>\n  <i>w</i>orld</p>", "Hello world"),
        ("<table><tr><td>Total</td><td>$5</td></tr></table>", "Total\n$5"),
        ("<header>a</header><section>b</section><center>c</center><dl><dt>d<dd>e</dl>f", "a\nb\nc\nd\ne\nf"),
        (
            "<p>State:</p><PRE\nclass=x>web-1   up\ndb-1 <b>down\r\n</b></PRE>All\nsaid",
            "State:\nweb-1 up\ndb-1 down\nAll said",
        ),
        ("a<br>b<div>c</div><ul><li>d<li>e</ul>", "a\nb\nc\nd\ne"),
        (
            "<title>t</title><style>p{}</style><script>x<y</script><!-- c -->1 &lt; 2 &amp;lt; 3&nbsp;&euro;",
            "1 < 2 &lt; 3 €",
        ),
        ("<html xmlns:o='u'><body><!--[if mso]><p>no</p><![endif]--><p>Hi<o:p>&nbsp;</o:p></p></body></html>", "Hi"),
        ("<frameset><frame src=x></frameset>", ""),
        ("", ""),
        ("2 < 3 and no tag", "2 < 3 and no tag"),
        ("<td><button>Accept</button><button>Decline</button></td>", "Accept\nDecline"),
    ],
)
def test_html_becomes_lines(page, text):
    assert markup_text(page) == text


@pytest.mark.parametrize("kind", ["text/x-amp-html", "text/watch-html"])
def test_pages_for_special_programs_are_no_alternative_to_the_html(kind):
    def part(kind, text):
        return f"--B\nContent-Type: {kind}\n\n{text}\n"

    page = "<html><style>body{visibility:hidden}</style><body>" + "See it in the app. " * 500
    parts = part("text/plain", "") + part(kind, page) + part("text/html", "<p>Ann wrote a comment.</p>") + "--B--\n"
    parsed = parse_message(raw("From: a@x.com\nContent-Type: multipart/alternative; boundary=B", parts))
    assert parsed.body == "Ann wrote a comment."


def test_enriched_text_is_read_without_its_tags():
    said = "<bold>Now</bold> is\nthe time for <color><param>red</param>all</color> <<good> men, 2 < 3.\n\n\nNext.\n"
    parsed = parse_message(raw("From: a@x.com\nContent-Type: text/enriched", said))
    assert parsed.body == "Now is the time for all <good> men, 2 < 3.\n\nNext."


def test_pages_of_any_size_number_and_depth_cost_little():
    started = time.process_time()
    for page in ("<div>" * 20_000, "<" * 300_000, "<p><b><i>" * 2000, "<table><tr><td>" * 3000):
        markup_text(page)
    assert len(composed("", "x" * 9_000_000).body) == MAX_MARKUP_CHARS
    pages = [("<div>" * 10_000, "text/html", f"{n}.html") for n in range(200)]
    assert len(composed("See below.", attachments=pages).attachments) == 100
    assert time.process_time() - started < 20


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
    assert parsed.date_ok
    assert parsed.sent_at in ("2024-03-05T09:11:12Z", "2024-03-05T10:11:12+01:00")


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


def test_attachments_are_found_by_name_and_text_and_shown(tmp_path):
    parsed = [
        composed(
            "See below.",
            attachments=[("city,sales\nOslo,310\n", "text/csv", f"sales_{year}.csv")],
            Message_ID=f"<{year}@x>",
            Subject="Sales",
        )
        for year in (2023, 2024)
    ]
    build(tmp_path / "mail.db", *parsed)
    database = MailDatabase(tmp_path / "mail.db")
    for keywords, ids in (
        (["sales_2024.csv"], ["2024@x"]),
        (["2023", "csv"], ["2023@x"]),
        (["Oslo"], ["2023@x", "2024@x"]),
    ):
        hits = database.search(inbox="b@x.com", keywords=keywords, until="9999-12-31")
        assert sorted(hit.message_id for hit in hits) == ids
    shown = whole_email(database.read("2024@x", inbox="b@x.com", until="9999-12-31"), 4000)
    assert shown.endswith(
        "Subject: Sales\nAttachments: sales_2024.csv\n\nSee below.\n\n[sales_2024.csv]\ncity,sales\nOslo,310"
    )
    database.close()


def test_a_long_attachment_leaves_no_mail_out(tmp_path):
    parsed = composed("x" * 5000, attachments=[("y" * 5000, "text/plain", "log.txt")])
    assert build(tmp_path / "mail.db", parsed).skipped == {}


def test_mail_that_only_the_server_knows_the_recipient_of_is_in_the_inbox(tmp_path):
    headers = "Message-ID: <{}@x>\nFrom: a@y.org\nTo: news@y.org\nSubject: News\n{}"
    lines = ["Delivered-To: me@x.com", "X-Original-To: me@x.com", "Envelope-To: <me@x.com>", "X-Other: me@x.com"]
    parsed = [parse_message(raw(headers.format(n, line), f"Text {n}.")) for n, line in enumerate(lines)]
    parsed.append(parse_message(raw(headers.format("copy", "Delivered-To: ben@x.com"), "Text 0.")))
    assert build(tmp_path / "mail.db", *parsed).kept == 5
    database = MailDatabase(tmp_path / "mail.db")
    for inbox, ids in (("me@x.com", ["0@x", "1@x", "2@x"]), ("ben@x.com", ["copy@x"])):
        hits = database.search(inbox=inbox, keywords=["text"], to_addr=inbox, until="9999-12-31")
        assert sorted(hit.message_id for hit in hits) == ids
    database.close()

"""What a message says: alternatives, attachments and what they are called, calendars, messages within messages."""

from email.message import EmailMessage
from email.policy import SMTP

import pytest

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


def message(text=None, html=None, attachments=(), **headers):
    """A message as the standard library writes it; attachments are (content, type, name) each."""
    made = EmailMessage(policy=SMTP)
    for name, value in {"From": "a@x.com", "To": "b@x.com", **headers}.items():
        made[name.replace("_", "-")] = value
    if text is not None:
        made.set_content(text)
    if html is not None:
        made.add_alternative(html, subtype="html") if text is not None else made.set_content(html, subtype="html")
    for content, kind, name in attachments:
        maintype, _, subtype = kind.partition("/")
        data = content if isinstance(content, bytes) else content.encode()
        made.add_attachment(data, maintype=maintype, subtype=subtype, filename=name)
    return made


def composed(*contents, **headers):
    return parse_message(message(*contents, **headers).as_bytes())


def of_parts(kind, *parts):
    """A message of these parts, each as its headers and its text."""
    body = "".join(f"--B\n{headers}\n\n{text}\n" for headers, text in parts) + "--B--\n"
    return parse_message(raw(f"From: a@x.com\nContent-Type: {kind}; boundary=B", body))


def test_of_alternatives_the_plain_text_is_taken():
    inner = "--C\nContent-Type: text/plain; charset=utf-8\nContent-Transfer-Encoding: base64\n\nTcO8bGxlcg==\n"
    inner += "--C\nContent-Type: text/html\n\n<p>never shown</p>\n--C--"
    parsed = of_parts("multipart/mixed", ("Content-Type: multipart/alternative; boundary=C", inner))
    assert parsed.body == "Müller"


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


def test_kinds_of_text_that_are_neither_plain_nor_html_are_no_alternative():
    parsed = of_parts(
        "multipart/alternative",
        ("Content-Type: text/plain", ""),
        ("Content-Type: text/x-amp-html", "See it in the app. " * 500),
        ("Content-Type: text/html", "<p>Ann wrote a comment.</p>"),
    )
    assert parsed.body == "Ann wrote a comment."


def test_a_page_between_plain_parts_is_read_in_its_place():
    parts = (("Content-Type: text/html", "<p>The offer.</p>"), ("Content-Type: text/plain", "-- \nlist footer"))
    assert of_parts("multipart/mixed", *parts).body == "The offer.\n-- \nlist footer"


def test_a_transfer_encoding_may_have_blanks_behind_it():
    headers = "Content-Transfer-Encoding: base64 \t\r\nContent-Type: text/plain; charset=utf-8"
    assert of_parts("multipart/mixed", (headers, "TcO8bGxlcg==")).body == "Müller"


def test_parts_whose_boundary_is_lost_are_text():
    parsed = parse_message(raw("From: a@x.com\nContent-Type: multipart/mixed", "Hello, all in one."))
    assert parsed.body == "Hello, all in one."


def test_attachments_are_named_and_those_of_text_are_read():
    files = [
        (b"%PDF-1.4", "application/pdf", "Quartalsbericht März.pdf"),
        ("city,sales\nOslo,310\n", "text/csv", "sales.csv"),
        ("<p>One</p><p>Two</p>", "text/html", "page.html"),
        (INVITATION, "application/octet-stream", "invite.ics"),
        (b"\x89PNG", "image/png", "plan.png"),
    ]
    parsed = composed("See the files.", None, files)
    assert parsed.body == "See the files."
    assert parsed.attachments == tuple(name for *_, name in files)
    assert parsed.attached == f"[sales.csv]\ncity,sales\nOslo,310\n\n[page.html]\nOne\nTwo\n\n[invite.ics]\n{EVENT}"


def test_names_of_attachments_come_in_every_encoding():
    names = [
        '="=?utf-8?q?caf=C3=A9=2Epdf?="',
        "*=utf-8''na%C3%AFve.pdf",
        '*0="long-"; filename*1="name.pdf"',
        '="a\tb.pdf"',
    ]
    headers = "Content-Type: application/pdf\nContent-Disposition: attachment; filename"
    parsed = of_parts("multipart/mixed", *((headers + name, "x") for name in names))
    assert parsed.attachments == ("café.pdf", "naïve.pdf", "long-name.pdf", "a b.pdf")


def test_a_message_that_is_one_file_has_its_name_and_one_that_is_text_has_none():
    for name in ('; name="scan 12.pdf"', '\nContent-Disposition: attachment; filename="scan 12.pdf"'):
        parsed = parse_message(raw(f"From: a@x.com\nContent-Type: application/pdf{name}", "%PDF"))
        assert (parsed.body, parsed.attachments) == ("", ("scan 12.pdf",))
        for kind in ("text/plain", "text/html"):
            parsed = parse_message(raw(f"From: a@x.com\nContent-Type: {kind}{name}", "Hello."))
            assert (parsed.body, parsed.attachments) == ("Hello.", ())


@pytest.mark.parametrize(
    ("charset", "name"), [("utf-8", "Отчёт за март.pdf"), ("koi8-r", "Отчет.pdf"), ("gb2312", "会议记录.pdf")]
)
def test_names_of_attachments_that_are_not_encoded_have_the_charset_of_the_text(charset, name):
    parts = (
        f"From: a@x.com\nContent-Type: multipart/mixed; boundary=B\n\n--B\nContent-Type: text/plain; charset={charset}"
        f'\n\n{name}\n--B\nContent-Type: application/pdf\nContent-Disposition: attachment; filename="{name}"\n\nx\n'
        f"--B\nContent-Type: message/rfc822\n\nFrom: b@x.com\nSubject: {name}\n\nHi\n--B--\n"
    )
    parsed = parse_message(parts.encode(charset))
    assert (parsed.body, parsed.attachments) == (name, (name,))
    assert parsed.attached == f"From: b@x.com\nSubject: {name}\n\nHi"


def test_an_attached_text_without_a_charset_has_that_of_the_mail():
    text, other = "Счёт оплачен", "Überweisung"
    part = "--B\nContent-Type: text/plain{}\n\n{}\n"
    mail = "From: a@x.com\nContent-Type: multipart/mixed; boundary=B\n\n" + part.format("; charset=windows-1251", text)
    mail += part.format("; name=bill.txt", text) + part.format("; name=paid.txt", "\0") + "--B--\n"
    parsed = parse_message(mail.encode("windows-1251").replace(b"\0", other.encode()))
    assert (parsed.body, parsed.attached) == (text, f"[bill.txt]\n{text}\n\n[paid.txt]\n{other}")


def test_of_a_bounce_the_text_and_the_mail_that_came_back_are_read():
    parsed = of_parts(
        "multipart/report",
        ("", "Your mail came back."),
        ("Content-Type: message/delivery-status", "Final-Recipient: rfc822; ben@x.com\nAction: failed"),
        ("Content-Type: message/rfc822", "From: a@x.com\nSubject: Offer\n\nSee below."),
    )
    assert (parsed.body, parsed.attached) == ("Your mail came back.", "From: a@x.com\nSubject: Offer\n\nSee below.")
    assert parsed.attachments == ()


def test_pictures_of_a_page_are_no_attachments():
    made = message(html="<p>Hello <img src='cid:logo'></p>")
    made.add_related(b"\x89PNG", "image", "png", cid="<logo>", filename="image001.png", disposition="inline")
    parsed = parse_message(made.as_bytes())
    assert (parsed.body, parsed.attachments) == ("Hello", ())


INLINE = "Content-Type: image/png; name={0}.png\nContent-Disposition: inline; filename={0}.png\nContent-ID: <{0}@x>"


def test_a_picture_that_no_page_shows_is_an_attachment():
    page = ("Content-Type: text/html", "<p>Hello <IMG SRC='cid:a%40x'> <img src=\"cid:b@x\"></p>")
    pictures = [(INLINE.format(name), "") for name in "abc"]
    assert of_parts("multipart/mixed", ("", "See below."), *pictures).attachments == ("a.png", "b.png", "c.png")
    assert of_parts("multipart/mixed", *pictures, page).attachments == ("c.png",)
    unnamed = ("Content-Type: image/jpeg\nContent-ID: <d@x>", "")
    assert of_parts("multipart/related", page, pictures[0], unnamed).attachments == ("image/jpeg",)


def test_a_part_that_is_not_read_is_named_by_its_kind_where_it_has_no_name():
    signed = "Content-Type: application/pkcs7-mime; smime-type=signed-data\nContent-Transfer-Encoding: base64"
    parsed = parse_message(raw(f"From: a@x.com\n{signed}", "MIAGCSqGSIb3DQEHAqCAMIACAQExDzAN"))
    assert (parsed.body, parsed.attachments) == ("", ("application/pkcs7-mime",))
    parts = (("Content-Type: application/pgp-encrypted", "Version: 1"), ("Content-Type: audio/mpeg; name=call.mp3", ""))
    parsed = of_parts("multipart/encrypted", *parts)
    assert (parsed.body, parsed.attachments) == ("", ("application/pgp-encrypted", "call.mp3"))


LINES = "M" + "4&5X=`" * 10 + "\n%:&5L;&\\\n`\n"


def test_a_uuencoded_file_is_an_attachment_and_no_text():
    text = f"See the plan.\n\nbegin 644 Plan of the roof.doc\n{LINES}end\n\nbegin 12 things\nAnn"
    parsed = parse_message(raw("From: a@x.com", text))
    assert (parsed.body, parsed.attachments) == ("See the plan.\n\n\nbegin 12 things\nAnn", ("Plan of the roof.doc",))
    cut = parse_message(raw("From: a@x.com", f"begin 600 a.zip\n{LINES}"))
    assert (cut.body, cut.attachments) == ("", ("a.zip",))
    encoded = "From: a@x.com\nContent-Transfer-Encoding: x-uuencode"
    picture = parse_message(raw(encoded, "begin 644 a.jpg\n&_]C_X``0\n`\nend"))
    assert (picture.body, picture.attachments) == ("", ("a.jpg",))
    assert parse_message(raw(encoded, "begin 644 note.txt\n%:&5L;&\\\n`\nend")).body == "hello"


def test_a_message_that_is_packed_within_a_message_is_read():
    packed = "RnJvbTogY0B4LmNvbQpTdWJqZWN0OiBPbGQKClNlZSBiZWxvdy4="
    parsed = of_parts("multipart/mixed", ("Content-Type: message/rfc822\nContent-Transfer-Encoding: base64", packed))
    assert parsed.attached == "From: c@x.com\nSubject: Old\n\nSee below."


def test_a_boundary_may_begin_as_another_and_a_part_may_lack_its_headers_or_its_end():
    inner = "Content-Type: multipart/mixed; boundary=BB\n\n--BB\n\nOne: 1\n--BB\nContent-Type: text/plain\nTwo\n"
    body = f"Not seen.\n--B\n{inner}--B  \n\n--BBB\nThree\n--B--\nNor this.\n"
    for end in ("\n", "\r\n"):
        mail = parse_message(
            raw("From: a@x.com\nContent-Type: multipart/mixed; boundary=B", body.replace("\n", end), end)
        )
        assert mail.body == "One: 1\nTwo\n--BBB\nThree"


def test_parts_that_never_begin_are_text_up_to_their_end():
    assert of_parts("multipart/mixed").body == ""
    parsed = parse_message(raw("From: a@x.com\nContent-Type: multipart/mixed; boundary=B", "One.\n--B--\nTwo."))
    assert parsed.body == "One."


def test_what_is_in_more_parts_than_any_program_writes_is_text_as_it_is():
    deep = "".join(f"Content-Type: multipart/mixed; boundary=b{n}\n\n--b{n}\n" for n in range(51))
    assert parse_message(raw(f"From: a@x.com\n{deep}", "Here.")).body == "--b50\n\nHere."
    many = of_parts("multipart/mixed", *[("", f"Part {n}.") for n in range(1001)])
    assert many.body.endswith("Part 998.\nPart 999.\n--B\n\n\nPart 1000.\n--B--")


def test_a_message_within_a_message_is_text_with_who_wrote_it_when_and_stands_before_what_is_attached_to_it():
    date = "Mon, 14 May 2001 16:39:00 -0700"
    files = [(b"x", "application/zip", "inner.zip"), ("9 " * 5_000, "text/plain", "day.log")]
    inner = message("Inner words.", None, files, **{"From": "Caro <c@x.com>", "Subject": "Old café", "Date": date})
    outer = message("FYI", None, [("First.", "text/plain", "note.txt")])
    outer.add_attachment(inner, filename="Old café.eml")
    parsed = parse_message(outer.as_bytes())
    assert (parsed.body, parsed.attachments) == ("FYI", ("note.txt", "Old café.eml", "inner.zip", "day.log"))
    assert parsed.attached.startswith(
        f"[note.txt]\nFirst.\n\nFrom: Caro <c@x.com>\nDate: {date}\nSubject: Old café\n\nInner words.\n\n[day.log]\n9 9 9"
    )
    assert len(parsed.attached) == 5_000


def test_an_invitation_is_text():
    made = message("You are invited.", "<p>You are invited.</p>")
    made.add_alternative(INVITATION, subtype="calendar", params={"method": "REQUEST"})
    made.add_attachment(INVITATION.encode(), maintype="application", subtype="ics", filename="invite.ics")
    parsed = parse_message(made.as_bytes())
    assert parsed.body == "You are invited."
    assert parsed.attached == f"{EVENT}\n\n[invite.ics]\n{EVENT}"
    assert parsed.attachments == ("invite.ics",)
    alone = parse_message(raw("From: a@x.com\nContent-Type: text/calendar; charset=utf-8", INVITATION))
    assert (alone.body, alone.attached) == ("", EVENT)


def test_a_calendar_may_be_folded_inside_a_letter():
    event = b"BEGIN:VEVENT\r\nSUMMARY:Caf\xc3\r\n \xa9 in K\xc3\xb6ln\r\nEND:VEVENT\r\n"
    headers = b"From: a@x.com\r\nContent-Type: text/calendar; charset=utf-8\r\n\r\n"
    assert parse_message(headers + event).attached == "Event: Café in Köln"


def test_of_all_pages_of_a_message_no_more_is_read_than_its_share(monkeypatch):
    monkeypatch.setattr("email_env.ingest.body.MAX_PAGE_CHARS", 20_000)
    assert composed("", "x" * 90_000).body == "x" * 20_000
    read = []
    monkeypatch.setattr("email_env.ingest.body.page_text", lambda page: read.append(page) or "")
    composed("See below.", None, [("<div>" * 1000, "text/html", f"{n}.html") for n in range(200)])
    assert sum(map(len, read)) == 20_000


def test_attachments_are_found_by_name_and_text_and_shown_and_leave_no_mail_out(tmp_path):
    parsed = [
        composed(
            "See below.",
            None,
            [("city,sales\nOslo,310\n", "text/csv", f"sales_{year}.csv")],
            Message_ID=f"<{year}@x>",
            Subject="Sales",
        )
        for year in (2023, 2024)
    ]
    parsed.append(composed("x" * 5000, None, [("y" * 5000, "text/plain", "log.txt")], Message_ID="<long@x>"))
    assert build(tmp_path / "mail.db", *parsed).skipped == {}
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

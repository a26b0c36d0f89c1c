"""Attached files and messages: what they are called, in every form of a name, and what they say."""

from base64 import encodebytes
from email.message import EmailMessage

import pytest

from email_env.ingest.parse import parse_message
from tests.email_env.mails import raw


def test_names_of_attachments_come_in_every_encoding():
    part = "--B\nContent-Type: application/pdf\nContent-Disposition: attachment; filename{}\n\nx\n"
    names = [
        '="=?utf-8?q?caf=C3=A9=2Epdf?="',
        "*=utf-8''na%C3%AFve.pdf",
        '*0="long-"; filename*1="name.pdf"',
        '="a\tb.pdf"',
    ]
    body = "".join(part.format(name) for name in names) + "--B--\n"
    parsed = parse_message(raw("From: a@x.com\nContent-Type: multipart/mixed; boundary=B", body))
    assert parsed.attachments == ("café.pdf", "naïve.pdf", "long-name.pdf", "a b.pdf")


def test_a_message_that_is_one_file_has_its_name():
    for name in ('; name="scan 12.pdf"', '\nContent-Disposition: attachment; filename="scan 12.pdf"'):
        parsed = parse_message(raw(f"From: a@x.com\nContent-Type: application/pdf{name}", "%PDF"))
        assert (parsed.body, parsed.attachments) == ("", ("scan 12.pdf",))
    for kind in ("text/plain", "text/html"):
        headers = f"From: a@x.com\nContent-Type: {kind}\nContent-Disposition: attachment; filename=a.txt"
        assert parse_message(raw(headers, "Hello.")).body == "Hello."


def test_a_journal_report_is_read_as_the_mail_that_it_reports():
    inner = b"Message-ID: <in@x>\r\nFrom: Ann <a@x.com>\r\nTo: b@x.com\r\nSubject: Lease\r\n\r\nSigned.\r\n"
    headers = (
        "Message-ID: <j@ex>\nFrom: MicrosoftExchange329@x.com\nTo: journal@x.com\nSubject: Lease\n"
        "X-MS-Journal-Report:\nContent-Type: multipart/mixed; boundary=J"
    )
    envelope = b"--J\r\nContent-Type: text/plain\r\n\r\nSender: a@x.com\r\nMessage-Id: <in@x>\r\n--J\r\n"
    report = raw(headers, end="\r\n", body="") + envelope + b"Content-Type: message/rfc822\r\n\r\n" + inner
    parsed = parse_message(report + b"\r\n--J--\r\n")
    assert (parsed.message_id, parsed.from_addr, parsed.to) == ("in@x", "a@x.com", ("b@x.com",))
    assert (parsed.from_name, parsed.subject, parsed.body, parsed.attached) == ("Ann", "Lease", "Signed.", "")
    parsed = parse_message(raw(headers, "--J\nContent-Type: text/plain\n\nNo mail in it.\n--J--\n"))
    assert (parsed.message_id, parsed.body) == ("j@ex", "No mail in it.")


def test_of_the_headers_of_a_mail_that_bounced_those_are_read_that_one_wants_to_know():
    parts = (
        "--B\n\nYour mail could not be delivered.\n--B\nContent-Type: text/rfc822-headers\n\n"
        "Received: from mx1 by mx2; Mon, 14 May 2001 16:39:00 -0700\nFrom: Ben <b@x.com>\nSubject: =?utf-8?q?caf=C3=A9?=\n"
        "X-Spam-Score: 0.1\n--B--\n"
    )
    parsed = parse_message(raw("From: a@x.com\nContent-Type: multipart/report; boundary=B", parts))
    assert parsed.body == "Your mail could not be delivered."
    assert parsed.attached == "From: Ben <b@x.com>\nSubject: café"


@pytest.mark.parametrize("given", ["; boundary=WRONG", ""])
def test_parts_whose_boundary_is_not_the_one_that_was_given_are_parts(given):
    parts = (
        "--B\nContent-Type: text/plain; charset=utf-8\nContent-Transfer-Encoding: quoted-printable\n\nCaf=C3=A9\n"
        "--B\nContent-Type: application/pdf; name=a.pdf\nContent-Transfer-Encoding: base64\n\nJVBERg==\n--B--\n"
    )
    parsed = parse_message(raw(f"From: a@x.com\nContent-Type: multipart/mixed{given}", parts))
    assert (parsed.body, parsed.attachments) == ("Café", ("a.pdf",))


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


def test_the_packed_report_of_a_bounce_is_no_text():
    report = encodebytes(b"Final-Recipient: rfc822; ben@x.com\nAction: failed\n" * 3).decode()
    parts = f"--B\n\nYour mail came back.\n--B\nContent-Type: message/delivery-status\n\n{report}\n--B--\n"
    parsed = parse_message(raw("From: a@x.com\nContent-Type: multipart/report; boundary=B", parts))
    assert (parsed.body, parsed.attached) == ("Your mail came back.", "")


def test_pictures_of_a_page_are_no_attachments():
    message = EmailMessage()
    message["From"] = "a@x.com"
    message.set_content("<p>Hello <img src='cid:logo'></p>", subtype="html")
    message.add_related(b"\x89PNG", "image", "png", cid="<logo>", filename="image001.png", disposition="inline")
    parsed = parse_message(message.as_bytes())
    assert (parsed.body, parsed.attachments) == ("Hello", ())


def test_a_message_within_a_message_is_text_with_who_wrote_it_when():
    inner = EmailMessage()
    inner["From"], inner["Subject"], inner["Date"] = "Caro <c@x.com>", "Old café", "Mon, 14 May 2001 16:39:00 -0700"
    inner.set_content("Inner words.")
    inner.add_attachment(b"x", maintype="application", subtype="zip", filename="inner.zip")
    outer = EmailMessage()
    outer["From"] = "a@x.com"
    outer.set_content("FYI")
    outer.add_attachment(inner, filename="Old café.eml")
    parsed = parse_message(outer.as_bytes())
    assert (parsed.body, parsed.attachments) == ("FYI", ("Old café.eml", "inner.zip"))
    assert parsed.attached == (
        "From: Caro <c@x.com>\nDate: Mon, 14 May 2001 16:39:00 -0700\nSubject: Old café\n\nInner words."
    )


def test_a_message_within_stands_before_what_is_attached_to_it():
    inner = EmailMessage()
    inner["From"] = "c@x.com"
    inner.set_content("Inner words.")
    inner.add_attachment("9 " * 5_000, filename="day.log")
    outer = EmailMessage()
    outer["From"] = "a@x.com"
    outer.add_attachment("First.", filename="note.txt")
    outer.add_attachment(inner)
    said = parse_message(outer.as_bytes()).attached
    assert said.startswith("[note.txt]\nFirst.\n\nFrom: c@x.com\n\nInner words.\n\n[day.log]\n9 9 9")


def test_a_message_within_may_be_packed_although_the_standards_forbid_it():
    inner = b"From: c@x.com\nSubject: Offer\nContent-Transfer-Encoding: quoted-printable\n\nM=C3=BCller pays $5."
    headers = "From: a@x.com\nContent-Type: message/rfc822\nContent-Transfer-Encoding: base64"
    said = "From: c@x.com\nSubject: Offer\n\nMüller pays $5."
    assert parse_message(raw(headers, encodebytes(inner).decode())).attached == said
    assert parse_message(raw(headers, inner.decode())).attached == said  # only says that it is

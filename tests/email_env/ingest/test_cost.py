"""No message costs more than its length: fifty that are made to cost the square of it, against a page that is not."""

import time

import pytest

from email_env.ingest.parse import parse_message
from email_env.search.cjk import separated
from email_env.search.query import index_text, name_words

SIZE = 120_000
TIMES = 20
"""What a hostile message may cost of an ordinary one: the dearest costs twice as much, squares cost from 30 times on."""

ROW = "<tr><td><font face=Arial><b>Item</b></font></td><td><a href='http://x.com/?id=1'>See it</a> for 99.50</td></tr>"
ORDINARY = f"From: a@x.com\nContent-Type: text/html\n\n<table>{ROW * (SIZE // len(ROW))}</table>"


def filled(before, again, after=""):
    return before + again * (SIZE // len(again)) + after


def numbered(before, again, after=""):
    """Like `filled`, with a number at each place that says `%d`."""
    return before + "".join(again.replace("%d", str(n)) for n in range(SIZE // (len(again) + 3))) + after


def halves(first, second):
    return first * (SIZE // 2 // len(first)) + second * (SIZE // 2 // len(second))


def nested(count, inner, *, kind="mixed"):
    opened = (f"Content-Type: multipart/{kind}; boundary=b{n}\n\n--b{n}\n{inner}" for n in range(count))
    return "From: a@x.com\n" + "".join(opened)


PARTS = "Content-Type: multipart/mixed; boundary=b\n\n"
PAGE = "Content-Type: text/html\n\n"
MAILS = {
    "a parameter of semicolons": filled('Content-Type: multipart/mixed; a="', ";"),
    "a file's name of semicolons": filled('Content-Disposition: attachment; filename="', ";", '"'),
    "parameters": filled("Content-Type: application/x; ", "a=b;"),
    "a name of a file in pieces": numbered("Content-Type: application/x; ", "name*%d=b;"),
    "quotes in a parameter": filled('Content-Type: application/x; name="', '\\"'),
    "encoded words": filled("Subject: ", "=?utf-8?q?a?= "),
    "encoded words without a blank": filled("Subject: ", "=?utf-8?b?YQ==?="),
    "beginnings of encoded words": filled("Subject: ", "=?a?q?"),
    "encoded recipients": filled("To: ", "=?utf-8?q?a=40b.c?=, "),
    "a folded header": filled("Subject: ", "\n x"),
    "lines that are no headers": filled("Subject: ", "\n" + "a" * 60),
    "headers of one name": filled("", "To: a@b.c\n"),
    "brackets of addresses": filled("To: ", '"<'),
    "brackets of comments": filled("To: ", "("),
    "comments in an open one": filled("To: (", "(a)"),
    "a route": filled("To: ", "@"),
    "routes": filled("To: ", "@a:"),
    "prefixes of addresses": filled("To: ", "mailto:"),
    "surnames": filled("To: ", "Ab, "),
    "names alone": filled("To: ", "Ann Reed; "),
    "names of a letter": filled("To: ", "a;"),
    "a path of Exchange": filled("To: ", "/O=a/CN="),
    "a name of Notes": filled("To: ", "a a/", "="),
    "words and a sign": filled("To: ", "a ", "="),
    "a name of brackets": filled("From: ", "(", " <a@x.com>"),
    "a name of words": filled("From: ", "ab "),
    "a name and an address that are alike": halves("To: " + "a" * 100, "\nX-To: " + "abcd " * 20),
    "a date": filled("Date: ", "Mon Jan 1 00:00:00"),
    "an id": filled("Message-ID: ", "<a"),
    "parts": filled(PARTS, "--b\n"),
    "parts of a longer boundary": filled(PARTS, "--bx\n"),
    "parts without a charset": filled(PARTS, "--b\nContent-Type: text/plain\n\n\xff\n"),
    "pictures": filled(f"{PARTS}--b\n{PAGE}cid:a\n", "--b\nContent-Type: image/png; name=a\nContent-Id: <a>\n\n"),
    "lines in many parts": nested(200, "") + "\n" * SIZE,
    "parts in parts": nested(SIZE // 60, ""),
    "alternatives in alternatives": nested(40, "Content-Type: text/plain\n\nhi\n", kind="alternative") + "word " * 20_000,
    "messages in messages": filled("", "Content-Type: message/rfc822\n\n"),
    "blanks that are quoted": filled("Content-Transfer-Encoding: quoted-printable\n\n", " ", "x"),
    "ends of base64": filled("Content-Transfer-Encoding: base64\n\n", "=A"),
    "uuencoded lines": filled("Content-Transfer-Encoding: x-uuencode\n\nbegin 644 a\n", "M\n"),
    "beginnings of files": filled("\nx\n", "begin 644 a\n"),
    "a file without an end": filled("\nx\nbegin 644 a\n", "M\n", "x"),
    "flowed quotes": filled("Content-Type: text/plain; format=flowed\n\n", "> a \n"),
    "names in a calendar": filled("Content-Type: text/calendar\n\nBEGIN:VEVENT\nATTENDEE", ';CN="', ":x\n"),
    "bytes of no charset": filled("Content-Type: text/plain; charset=utf-8\n\n", "\xff\xfe"),
    "shifts of a charset": filled("Content-Type: text/plain; charset=utf-7\n\n", "+A"),
    "marks on a letter": filled("Subject: a", "\u0315\u0316"),
    "scripts": filled(PAGE, "<script"),
    "comments": filled(PAGE, "<!--"),
    "entities": filled(PAGE, "&"),
    "tags that cross": f"{PAGE}<b>" + halves("<div>", "</b>"),
    "letters that look different": PAGE + halves("<font size=1><b>", "<p>"),
    "headings that cross": PAGE + halves("<h1><span>", "</h2>"),
    "quoted tags": filled(PAGE, "<b '"),
    "tables in tables": filled(PAGE, "<table>x"),
    "lists far below": PAGE + halves("<x>", "<li>"),
    "templates": PAGE + halves("<template>", "<tr>"),
    "attributes": numbered(f"{PAGE}<x ", "a%d "),
}  # fmt: skip


def cost_of(message):
    """The seconds of the processor that it takes to read a message and to make it ready for the index."""
    data = message.encode("latin-1", "replace") if message.isascii() or "\xff" in message else message.encode()
    started = time.process_time()
    mail = parse_message(data)
    for text in (mail.subject, mail.body, mail.attached, *mail.attachments):
        index_text(separated(text))
    for _, name in (("", mail.from_name), *mail.names):
        name_words(name)
    return time.process_time() - started


@pytest.fixture(scope="module")
def usual_cost():
    parse_message(PAGE.encode())  # imports what reads pages
    return cost_of(ORDINARY)


@pytest.mark.parametrize("hostile", MAILS)
def test_a_message_costs_no_more_than_its_length(hostile, usual_cost):
    message = "From: a@x.com\n" * (not MAILS[hostile].startswith("From")) + MAILS[hostile]
    assert cost_of(message) < TIMES * usual_cost

"""The header block is split in one regular expression; here it is held to a loop over its lines."""

import re

from hypothesis import example, given
from hypothesis import strategies as st

from email_env.ingest.parse import _split_message, parse_message
from tests.email_env.mails import raw

HEADER = re.compile(r"([!-9;-~]+)[ \t]*:(.*)", re.DOTALL)
WANTED = {"message-id", "date", "from", "to", "cc", "bcc", "subject", "x-from"}
WANTED |= {"content-type", "content-transfer-encoding"}
LINES = st.sampled_from(
    [
        "From: anna@x.com",
        "To: ben@x.com,",
        "to : dan@y.org",
        "CC:",
        "Subject: Lunch",
        "Subject: Re: lunch",
        "X-To: Ben, Dan",
        "X-From: Anna",
        "Date: Mon, 14 May 2001 16:39:00 -0700",
        "\tcaro@x.com",
        "  From: nobody",
        "goes on unindented",
        "at 9 : not a header",
        "\rmore",
        ": nameless",
        "X-FileName: a.pst",
        " ",
    ]
)
MESSAGES = st.builds(
    lambda lines, ends, body: (
        "From: a@x.com\n" + "".join(map("".join, zip(lines, ends, strict=False))) + body
    ).encode(),
    st.lists(LINES, max_size=8),
    st.lists(st.sampled_from(["\n", "\r\n"]), min_size=8, max_size=8),
    st.sampled_from(["", "\nText.", "\r\nText.", "\n\r\nText.\n\nMore."]),
)


def slow_split(data):
    end = re.search(rb"\r?\n\r?\n", data)
    block, body = (data[: end.start()], data[end.end() :]) if end else (data, b"")
    headers, current = {}, []
    for line in re.split(r"\r?\n", block.decode()):
        match = None if line[:1] in (" ", "\t") else HEADER.match(line)
        if match:
            current = [match[2].strip()]
            headers.setdefault(match[1].lower(), current)
        else:
            current.append(line.strip())
    return {name: " ".join(lines).strip() for name, lines in headers.items() if name in WANTED}, body


@given(MESSAGES)
@example(b"From: a@x.com\r\n\r\nText.\n\nMore.")
@example(b"From: a@x.com\n\r\nText.\n\nMore.")
@example(b"From: a@x.com\n\nText.\n\r\nMore.")
@example(b"From: a@x.com")
def test_headers_are_those_that_a_loop_over_the_lines_finds(data):
    assert _split_message(data) == slow_split(data)


def test_a_header_that_is_not_wanted_keeps_its_continuation_to_itself():
    headers = """
        From: anna@x.com
        X-To: Ben,
        \tTo: forged@x.com
        X-Note: goes on
        here
        To: ben@x.com
    """
    mail = parse_message(raw(headers.rstrip()))
    assert (mail.from_addr, mail.to) == ("anna@x.com", ("ben@x.com",))

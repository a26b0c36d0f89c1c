"""The header block is split by regular expressions; here they are held to a loop over its lines."""

import re

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from email_env.ingest.headers import split_message
from email_env.ingest.parse import parse_message

HEADER = re.compile(r"([!-9;-~]+)[ \t]*:(.*)", re.DOTALL)
LINES = st.sampled_from(
    [
        "From: anna@x.com",
        "To: ben@x.com,",
        "to : dan@y.org",
        "CC:",
        "Subject: Lunch",
        "Subject: Re: lunch",
        "X-To: Ben, Dan",
        "Date: Mon, 14 May 2001 16:39:00 -0700",
        "\tcaro@x.com",
        "  From: nobody",
        "goes on unindented",
        "at 9 : not a header",
        "\rmore",
        ": nameless",
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
            headers.setdefault(match[1].lower(), []).append(current)
        else:
            current.append(line.strip())
    said = {name: list(filter(None, (" ".join(lines).strip() for lines in found))) for name, found in headers.items()}
    lists = ("to", "cc", "bcc")
    return {name: ", ".join(found if name in lists else found[:1]) for name, found in said.items() if found}, body


def words(headers):
    return {name: value.split() for name, value in headers.items()}


@given(MESSAGES)
@example(b"From: a@x.com\r\n\r\nText.\n\nMore.")
@example(b"From: a@x.com\n\r\nText.\n\nMore.")
@example(b"From: a@x.com\n\nText.\n\r\nMore.")
@example(b"From: a@x.com")
def test_headers_are_those_that_a_loop_over_the_lines_finds(data):
    """But for how many blanks stand where a header was folded."""
    (headers, body), (slow_headers, slow_body) = split_message(data), slow_split(data)
    found = {name: value for name, value in headers.items() if value}
    assert (words(found), body) == (words(slow_headers), slow_body)


@pytest.mark.parametrize(
    "before",
    [
        b"\xef\xbb\xbf\r\n",
        b" " * 255 + b"\n",
        b"\n\nFrom anna@x.com Mon May 14\n",
        b">From anna@x.com Mon May 14 16:39:00 2001\r\n",
        b"From - Mon May 14 16:39:00 2001\n>From anna@x.com Mon May 14 16:39:00 2001\n",
        b"164      \n",
        b"#! rnews 164\nArticle 12 of a group\r\n",
    ],
)
def test_a_byte_order_mark_blanks_and_lines_that_are_no_headers_may_stand_before_them(before):
    mail = parse_message(before + b"From: anna@x.com\r\nTo: ben@x.com\r\n\r\nText.")
    assert (mail.from_addr, mail.to, mail.body) == ("anna@x.com", ("ben@x.com",), "Text.")


@pytest.mark.parametrize(
    "text",
    [b"Hello\n\nFrom: anna@x.com\n", b"Hello\r\n\r\nFrom: anna@x.com\r\n", b"Hello", b"a\0b\nFrom: anna@x.com\n"],
)
def test_a_text_whose_first_paragraph_has_no_header_has_none(text):
    assert split_message(text) == ({}, text.lstrip())

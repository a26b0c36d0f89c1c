"""format=flowed (RFC 3676): paragraphs are joined, quotes keep their depth, nothing is lost."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from email_env.ingest.flowed import unflowed
from email_env.ingest.parse import parse_message
from tests.email_env.mails import raw

FLOWED = """\
This paragraph goes \non and ends here.
> Quoted text goes \n> on too.
>> Deeper \n> is not joined to \n> this.
 From the start, stuffed.
-- \nAnna"""


def test_flowed_text_is_joined_by_paragraphs_and_quote_depth():
    assert unflowed(FLOWED, delete_space=False).split("\n") == [
        "This paragraph goes on and ends here.",
        "> Quoted text goes on too.",
        ">> Deeper ",
        "> is not joined to this.",
        "From the start, stuffed.",
        "-- ",
        "Anna",
    ]
    assert unflowed("東京 \n大学", delete_space=True) == "東京大学"


@pytest.mark.parametrize(
    ("kind", "body"),
    [
        ("text/plain; format=flowed", "One line of text.\nNext."),
        ('text/plain; charset=utf-8; format="Flowed"; DelSp="yes"', "One line oftext.\nNext."),
        ("text/plain", "One line of \ntext.\nNext."),
    ],
)
@pytest.mark.parametrize("end", ["\n", "\r\n"])
def test_only_text_that_says_so_is_flowed(kind, body, end):
    sent = f"One line of {end}text.{end}Next.{end}"
    assert parse_message(raw(f"From: a@x.com\nContent-Type: {kind}", sent)).body == body
    within = f"--B{end}Content-Type: {kind}{end}{end}{sent}--B--{end}"
    assert parse_message(raw("From: a@x.com\nContent-Type: multipart/mixed; boundary=B", within)).body == body


@given(st.text(alphabet="a> -\n", max_size=60), st.booleans())
def test_flowed_text_keeps_every_letter(text, delete_space):
    assert unflowed(text, delete_space=delete_space).count("a") == text.count("a")

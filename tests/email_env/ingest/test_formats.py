"""HTML, calendars and format=flowed (RFC 3676) as text."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from email_env.ingest.formats import calendar_text, page_text, unflowed
from email_env.ingest.parse import parse_message
from tests.email_env.mails import raw


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
    assert page_text(page) == text


def test_pages_of_any_depth_are_read():
    for tags in ("<div>" * 20_000, "<p><b><i>" * 2000, "<table><tr><td>" * 3000):
        assert page_text(f"{tags}Hi") == "Hi"


@pytest.mark.parametrize(
    ("line", "shown"),
    [
        ("DTSTART:20240305T093000Z", "Start: 2024-03-05 09:30 UTC"),
        ("DTSTART;VALUE=DATE:20240305", "Start: 2024-03-05"),
        ("DTSTART:20240305T093000", "Start: 2024-03-05 09:30"),
        ("DTSTART:soon", "Start: soon"),
        ("DURATION:PT1H30M", "Duration: PT1H30M"),
        ("summary:Lower case", "Event: Lower case"),
        ("ATTENDEE;CN=ben@x.com:mailto:ben@x.com", "Attendee: ben@x.com"),
        ("X-OTHER:no", ""),
    ],
)
def test_times_and_people_of_a_calendar_are_readable(line, shown):
    text = f"BEGIN:VCALENDAR\r\nBEGIN:VEVENT\r\n{line}\r\nLOCATION:Here\r\nEND:VEVENT\r\nEND:VCALENDAR\r\n"
    assert calendar_text(text) == "\n".join(filter(None, [shown, "Place: Here"]))


def test_a_calendar_without_events_stays_as_it_is():
    assert calendar_text("BEGIN:VCALENDAR\nEND:VCALENDAR") == "BEGIN:VCALENDAR\nEND:VCALENDAR"


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

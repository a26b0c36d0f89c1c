"""Random tool calls by the ten thousand; `scripts/fuzz_tools` plays a million."""

import pytest

from email_env.ingest.build import build_database
from email_env.ingest.sources import open_source
from scripts.mailsearch.fuzz import FuzzFailure, Mail, Outcome, check, over_processes, over_threads


@pytest.fixture(scope="module")
def mail(tmp_path_factory):
    path = tmp_path_factory.mktemp("fuzz") / "demo.db"
    build_database(open_source("demo").mails, path, source="demo")
    return Mail(path)


def test_a_hundred_thousand_random_calls_over_threads_do_no_harm_and_change_no_byte(mail):
    before = mail.digest()
    outcome = over_threads(mail, 100_000, threads=8)
    check(outcome)
    assert outcome.more_files == 0
    assert outcome.searches + outcome.reads + outcome.refused > 60_000
    assert mail.digest() == before
    assert sorted(path.name for path in mail.path.parent.iterdir()) == ["demo.db"]


def test_processes_call_at_the_same_time(mail):
    before = mail.digest()
    outcome = over_processes(mail, 12_000, processes=4)
    check(outcome)
    assert outcome.hits > 500
    assert mail.digest() == before


@pytest.mark.parametrize(
    ("outcome", "words"),
    [
        (Outcome(1, 1, 1, 1, 1, grown_mb=25.0, more_files=0), "memory grew by 25.0 MB"),
        (Outcome(1, 1, 1, 1, 1, grown_mb=0.0, more_files=2), "2 files were left open"),
        (Outcome(1, 1, 0, 1, 1, grown_mb=0.0, more_files=0), "reached nothing"),
    ],
)
def test_the_check_fails_where_something_grew_or_nothing_was_asked(outcome, words):
    with pytest.raises(FuzzFailure, match=words):
        check(outcome)

"""The rule of `judges` is that of `email_env`, file by file, so that both mark alike."""

from judges.answers.matching import decide
from tests import ROOT
from tests.answers import labelled

FILES = ("matching.py", "beside.py", "refuting.py", "giving_up.py", "values.py", "joined.py", "token.py")


def test_the_rule_stands_in_both_packages_word_for_word():
    for name in FILES:
        ours, theirs = (ROOT / folder / name for folder in ("judges/answers", "email_env/grading"))
        assert ours.read_text() == theirs.read_text(), f"{name}: change both"


def test_both_give_the_same_verdict_on_every_labelled_answer():
    from email_env.grading.matching import decide as env_decides

    for row in labelled():
        one, other = (rule(row.answer, row.references, row.question) for rule in (decide, env_decides))
        assert (one.verdict.value, one.reasoning) == (other.verdict.value, other.reasoning), row

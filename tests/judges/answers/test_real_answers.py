"""Real questions, their answers worded in several ways: what the rule says alone, and what it says with a judge.

The questions are no part of this project; see `tests.email_env.test_real_mail`.
"""

import json
import re

import pytest

import judges
from judges.answers.matching import Verdict, decide
from tests.email_env.test_real_mail import QUESTIONS
from tests.support.judge_server import ASKED, JudgeServer

pytestmark = pytest.mark.skipif(
    not QUESTIONS.is_file(), reason=f"no real questions in {QUESTIONS.parent}; name the folder in EMAIL_ENV_REAL_MAIL"
)
PLAIN = ("{}", "The answer is {}.", "According to the mail, {}")
REWORDED = ("From what I read there I would go with {}", "As the sender put it: yes, {} and that is final")
WRONG = ("It is not {}", "{} or {other}", "I think it is {}, but it may be {other}", "{other}", "anything but {}")


def worded():
    """Question, reference, and every answer with whether it is right."""
    rows = [json.loads(line) for line in QUESTIONS.read_text(encoding="utf-8").splitlines()]
    for row, following in zip(rows, [*rows[1:], rows[0]], strict=True):
        for right, forms in ((True, (*PLAIN, *REWORDED)), (False, WRONG)):
            for form in forms:
                yield row["question"], row["answer"], form, form.format(row["answer"], other=following["answer"]), right


def test_the_rule_alone_takes_plain_answers_and_no_wrong_one():
    found = [(decide(said, [key], question).verdict, form, right) for question, key, form, said, right in worded()]
    assert len(found) >= 200
    assert {verdict for verdict, form, _ in found if form in PLAIN} == {Verdict.RIGHT}
    assert Verdict.RIGHT not in {verdict for verdict, _, right in found if not right}
    assert Verdict.WRONG not in {verdict for verdict, _, right in found if right}


async def test_with_a_judge_every_answer_gets_its_due_and_plain_ones_cost_nothing():
    truth = {(question, said): right for question, _, _, said, right in worded()}

    def marked(messages):
        question, said = (
            json.loads(re.search(f"<{part}>\n(.*)\n</{part}>", messages[-1]["content"])[1])
            for part in ("question", "answer")
        )
        return json.dumps({"answer_id": ASKED, "reasoning": "as it is", "accept": truth[question, said]})

    with JudgeServer(marked) as server:
        options = {"api_base": server.url, "timeout_seconds": 60}
        for question, key, form, said, right in worded():
            verdict = await judges.answer(question, key, said, "openai/o4-mini", **options)
            assert verdict.accept is right, "the verdict of an answer to a real question"
            assert verdict.decided_by == ("match" if form in PLAIN else verdict.decided_by)
        assert len(server.requests) <= 140

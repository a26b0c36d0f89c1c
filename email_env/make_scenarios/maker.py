"""From a drawn mail to a question or a rejection, many mails at a time."""

import asyncio
import random
from collections.abc import Callable, Iterable
from datetime import date, timedelta
from functools import partial

from email_env.make_scenarios.checks import (
    Reason,
    Unfit,
    check_proposal,
    check_scenario,
    heed,
    other_mails,
)
from email_env.make_scenarios.draw import Draw
from email_env.make_scenarios.proposal import Check, Proposal, author, checker
from email_env.make_scenarios.record import Made, Record, Rejected
from email_env.scenarios.scenario import Scenario
from email_env.search.database import Email, MailDatabase
from judges.answers.matching import says
from judges.errors import JudgeCallError, MalformedVerdict
from judges.llm.ask import Exchange, Question, ask
from judges.llm.client import JudgeClient
from judges.llm.json_answer import Form, read_answer
from judges.llm.session import Session

MAX_DAYS_LATER = 30
"""A question is asked on a day from 1 to this many after its mail."""
MAX_FAILURES_IN_A_ROW = 5
"""The run ends when the LLM gave no answer for so many mails in a row."""

_LAST_DAY = date.max.isoformat()


class Maker:
    """Asks for a question about a mail and checks it.

    Args:
        database: the mail.
        llm: author and checker.
        session: counts what is asked.
        min_realism: from 0 to 1; less realistic questions are rejected.
    """

    def __init__(self, database: MailDatabase, llm: JudgeClient, session: Session, *, min_realism: float) -> None:
        self._database = database
        self._llm = llm
        self._session = session
        self._min_realism = min_realism

    async def make(self, draw: Draw) -> Made | Rejected:
        """A question about the drawn mail, or why there is none.

        Raises:
            JudgeCallError: the LLM gives no answer.
        """
        mail = self._database.read(draw.message_id, inbox=draw.inbox, until=_LAST_DAY)
        assert mail is not None, "the mail was drawn from this inbox"
        proposal = Proposal(question="")
        try:
            proposal = await self._ask(author(mail), Proposal)
            check_proposal(proposal, mail)
            scenario = _scenario(draw, proposal, mail)
            check_scenario(self._database, scenario, mail)
            others = other_mails(self._database, scenario, mail)
            request = checker(scenario.question, scenario.inbox, scenario.query_date, mail.subject, others)
            check = await self._ask(request, Check)
            heed(check, scenario, self._min_realism)
        except MalformedVerdict as error:
            return Rejected(draw, Reason.MALFORMED, str(error), proposal.question, proposal.answer)
        except Unfit as unfit:
            return Rejected(draw, unfit.reason, unfit.detail, proposal.question, proposal.answer)
        return Made(scenario, check.realism)

    async def _ask(self, messages: list[dict[str, str]], form: type[Form]) -> Form:
        question = Question(messages, None, partial(read_answer, form=form), ", ".join(form.model_fields), "a mail")
        return await ask(self._llm, question, self._session, Exchange())


async def make_all(
    maker: Maker, draws: Iterable[Draw], record: Record, *, concurrency: int, on_done: Callable[[int, int], None]
) -> list[JudgeCallError]:
    """Makes a question of every draw, and records each outcome when it is there.

    Args:
        maker: asks and checks.
        draws: the draws that are not finished.
        record: gets every outcome.
        concurrency: at most so many mails at a time.
        on_done: called after each mail with the number of those that are finished or failed, and of those that failed.

    Returns:
        Why the LLM gave no answer, for each mail that failed so; nothing is recorded of them.

    Raises:
        JudgeCallError: the LLM can give no answer, or gave none `MAX_FAILURES_IN_A_ROW` times.
        OSError: the record cannot be written.
    """
    waiting = iter(draws)
    done = in_a_row = 0
    failures: list[JudgeCallError] = []

    async def work() -> None:
        nonlocal done, in_a_row
        for draw in waiting:
            try:
                outcome = await maker.make(draw)
            except JudgeCallError as error:
                failures.append(error)
                in_a_row += 1
                if error.is_hopeless or in_a_row >= MAX_FAILURES_IN_A_ROW:
                    raise
            else:
                in_a_row = 0
                record.add(outcome)
            done += 1
            on_done(done, len(failures))

    try:
        async with asyncio.TaskGroup() as group:
            for _ in range(concurrency):
                group.create_task(work())
    except ExceptionGroup as errors:
        raise errors.exceptions[0] from None
    return failures


def _scenario(draw: Draw, proposal: Proposal, mail: Email) -> Scenario:
    """The scenario; other forms of the answer that the mail does not have are dropped."""
    later = timedelta(days=random.Random(draw.scenario_id).randint(1, MAX_DAYS_LATER))
    sent = date.fromisoformat(mail.sent_at[:10])
    forms = [form for form in dict.fromkeys(proposal.accepted) if form != proposal.answer and says(mail.body, form)]
    return Scenario(
        scenario_id=draw.scenario_id,
        question=proposal.question,
        answer=proposal.answer,
        accepted=tuple(forms),
        message_ids=(draw.message_id,),
        inbox=draw.inbox,
        query_date=(sent + later).isoformat(),
        split=draw.split,
        difficulty=proposal.difficulty,
        kind=proposal.kind,
    )

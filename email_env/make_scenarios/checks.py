"""Is a proposed question fit to be asked? Rules decide what they can; a checker, an LLM, decides the rest.

The rules read answers as the environment does (`judges.answers.matching`), so it can mark every question that is
kept. Any answer that the checker finds in other mail rejects a question, even a different answer: mail that contradicts
the evidence makes a question with two answers. The checker sees neither the evidence nor the answer, so it can only
find an answer, not confirm one. What a mail quotes of the evidence is the evidence still, not another answer.
"""

from contextlib import suppress
from dataclasses import replace
from enum import StrEnum
from itertools import groupby

from email_env.errors import ToolInputError
from email_env.make_scenarios.proposal import Check, Proposal
from email_env.policies.words import content_words
from email_env.scenarios.scenario import Scenario
from email_env.search import cjk
from email_env.search.database import Email, MailDatabase
from email_env.search.query import MAX_KEYWORD_CHARS, MAX_SEARCH_WORDS
from email_env.tools.toolbox import MIN_QUOTED_WORDS, unquoted
from judges.answers.giving_up import gives_up
from judges.answers.matching import says
from judges.answers.tokens import tokens

MAX_OTHER_MAILS = 5
"""The checker reads at most so many other mails: first those that say the answer, then the most similar ones."""
_MIN_COPIED_WORDS = 4
_MAX_QUESTION_WORDS = 8  # together with the answer well below the limits of a search


class Reason(StrEnum):
    """Why a mail gave no question."""

    NOTHING_TO_ASK = "nothing_to_ask"
    """The LLM found nothing in the mail that anyone would ask."""
    MALFORMED = "malformed"
    """The LLM's text was twice not in the form that was asked for."""
    NOT_IN_MAIL = "not_in_mail"
    """The answer does not stand in the mail's body."""
    UNMARKABLE = "unmarkable"
    """The answer says that nothing is known."""
    IN_QUESTION = "in_question"
    """The question contains its answer."""
    FROM_SUBJECT = "from_subject"
    """The mail's subject, which every search shows, contains the answer."""
    FROM_OTHER_MAIL = "from_other_mail"
    """Another mail answers it too, with the same or another answer."""
    UNREALISTIC = "unrealistic"
    """Hardly anyone would ask this."""


class Unfit(Exception):
    """The mail gives no question."""

    def __init__(self, reason: Reason, detail: str = "") -> None:
        super().__init__(reason, detail)
        self.reason = reason
        self.detail = detail


def check_proposal(proposal: Proposal, mail: Email) -> None:
    """Raises `Unfit` where something is wrong with a proposal, judged by the mail itself."""
    if not proposal.question:
        raise Unfit(Reason.NOTHING_TO_ASK)
    if not says(mail.body, proposal.answer):
        raise Unfit(Reason.NOT_IN_MAIL, f"{proposal.answer!r} is not in the body")
    if gives_up(tokens(proposal.answer)):
        raise Unfit(Reason.UNMARKABLE, repr(proposal.answer))
    if says(proposal.question, proposal.answer):
        raise Unfit(Reason.IN_QUESTION, repr(proposal.answer))
    if says(mail.subject, proposal.answer):
        raise Unfit(Reason.FROM_SUBJECT, repr(mail.subject))


def check_scenario(database: MailDatabase, scenario: Scenario, mail: Email) -> None:
    """Raises `Unfit` where the mailbox has another mail that repeats the evidence, and does not quote it."""
    for line in mail.body.splitlines():
        phrase = line.strip()[:MAX_KEYWORD_CHARS].rpartition(" ")[0] if len(line) > MAX_KEYWORD_CHARS else line
        if cjk.SEPARATOR in cjk.separated(line):
            phrase = line.strip()[: 2 * MAX_SEARCH_WORDS]
        words = cjk.separated(phrase).replace(cjk.SEPARATOR, " ").split()
        if len(words) < _MIN_COPIED_WORDS or not says(line, scenario.answer):
            continue
        for other in _found(database, scenario, mail, [phrase], "all"):
            if says(other.body, scenario.answer):
                raise Unfit(Reason.FROM_OTHER_MAIL, f"{other.message_id} repeats {phrase.strip()!r}")


def heed(check: Check, scenario: Scenario, min_realism: float) -> None:
    """Raises `Unfit` where the checker found something wrong."""
    if any(says(check.from_subject, form) for form in (scenario.answer, *scenario.accepted)):
        raise Unfit(Reason.FROM_SUBJECT, check.from_subject)
    if check.from_other_mail and not gives_up(tokens(check.from_other_mail)):
        raise Unfit(Reason.FROM_OTHER_MAIL, check.from_other_mail)
    if check.realism < min_realism:
        raise Unfit(Reason.UNREALISTIC, f"realism {check.realism:g}")


def other_mails(database: MailDatabase, scenario: Scenario, evidence: Email) -> list[Email]:
    """Mail that might answer the question too, found by the answer and by the question's words; its own words."""
    words = content_words(scenario.question)[:_MAX_QUESTION_WORDS]
    searches = [[scenario.answer, *words], words, *([form] for form in (scenario.answer, *scenario.accepted))]
    found = {
        mail.message_id: mail for keywords in searches for mail in _found(database, scenario, evidence, keywords, "any")
    }.values()
    first = sorted(found, key=lambda mail: not says(f"{mail.subject}\n{mail.body}", scenario.answer))
    return first[:MAX_OTHER_MAILS]


def _found(database: MailDatabase, scenario: Scenario, evidence: Email, keywords: list[str], match: str) -> list[Email]:
    """The mails that a search shows, without the evidence and what they quote of it.

    None where one cannot search for these words.
    """
    inbox, until = scenario.inbox, scenario.query_date
    with suppress(ToolInputError):
        hits = database.search(inbox=inbox, keywords=keywords, until=until, match=match, order="relevance")
        others = (hit.message_id for hit in hits if hit.message_id not in scenario.message_ids)
        read = (database.read(message_id, inbox=inbox, until=until) for message_id in others)
        return [replace(mail, body=_own_words(mail.body, evidence.body)) for mail in read if mail is not None]
    return []


def _own_words(body: str, evidence: str) -> str:
    """A body without the lines that are marked as a quotation of the evidence, and without the whole of it."""
    whole = unquoted(evidence)
    blocks = ("".join(lines) for _, lines in groupby(body.splitlines(keepends=True), _depth))
    own = "".join(block for block in blocks if not _depth(block) or unquoted(block) not in whole)
    if len(whole.split()) >= MIN_QUOTED_WORDS and whole in unquoted(own):
        return unquoted(own).replace(whole, " ")
    return own


def _depth(line: str) -> int:
    """How many marks of quotation a line begins with."""
    return line[: len(line) - len(line.lstrip("> \t"))].count(">")

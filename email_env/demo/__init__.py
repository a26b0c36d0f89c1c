"""The bundled mailboxes: synthetic business mail with questions, made by a seeded generator of our own.

    texts/ (words and sentences, TOML) -> cast (who) -> stories and noise (what happens) -> writer, mailbox (mails, and
    a ledger of what they state) -> questions (with answers, evidence and an expert's plan)

`generate()` returns the whole corpus in about a second, always the same for the same seed and `GENERATOR_VERSION`. It
needs the standard library only and no network. People, projects and companies are disjoint between the splits.
"""

import random
from contextlib import suppress
from dataclasses import dataclass

from email_env.demo import noise
from email_env.demo.cast import draw_cast
from email_env.demo.mailbox import Mailbox, NothingLeft
from email_env.demo.questions import Answered, answer_all, choose
from email_env.demo.stories import STORIES
from email_env.demo.writer import Draft
from email_env.mail import ParsedMail
from email_env.scenarios.scenario import Scenario

MAILS_PER_INBOX = 240
QUESTIONS_PER_INBOX = {"easy": 38, "medium": 34, "hard": 24}
UNANSWERABLE_PER_INBOX = 8
SPLITS = ("train", "validation", "test") + ("train",) * 13 + ("validation",) * 4 + ("test",) * 4
"""The split of every inbox; the first three inboxes cover all splits."""


@dataclass(frozen=True, slots=True)
class DemoCorpus:
    """The mails and the questions about them."""

    mails: list[ParsedMail]
    scenarios: list[Scenario]


def generate(seed: int = 0) -> DemoCorpus:
    """Make the corpus; another seed gives other mailboxes of the same sort."""
    numbers = list(range(1000, 10_000))
    random.Random(f"{seed}/ids").shuffle(numbers)
    corpus = DemoCorpus([], [])
    for number, split in enumerate(SPLITS):
        company = SPLITS[:number].count(split)
        box = write_mailbox(seed, number)
        share = numbers[number * MAILS_PER_INBOX :]
        ids = {id(draft): f"m{share[place]}" for place, draft in enumerate(box.drafts)}
        corpus.mails.extend(_mail(draft, ids[id(draft)]) for draft in box.drafts)
        rng = random.Random(f"{seed}/{number}/questions")
        chosen = choose(answer_all(box), QUESTIONS_PER_INBOX, UNANSWERABLE_PER_INBOX, rng)
        prefix = f"{split}-{company + 1:02d}"
        corpus.scenarios.extend(
            _scenario(item, f"{prefix}-{place:03d}", box, ids) for place, item in enumerate(chosen, start=1)
        )
    return corpus


def write_mailbox(seed: int, number: int) -> Mailbox:
    """Write one inbox with its stories, in random order, and its noise.

    Args:
        seed: The corpus's seed.
        number: Index into `SPLITS`.
    """
    split = SPLITS[number]
    rng = random.Random(f"{seed}/{number}")
    box = Mailbox(rng, split, draw_cast(rng, split, SPLITS[:number].count(split)))
    stories = [story for story, times in STORIES.items() for _ in range(times)]
    rng.shuffle(stories)
    for story in stories:
        with suppress(NothingLeft):
            story(box)
    noise.fill(box, MAILS_PER_INBOX)
    rng.shuffle(box.drafts)
    return box


def _mail(draft: Draft, message_id: str) -> ParsedMail:
    return ParsedMail(
        message_id=message_id,
        sent_at=draft.sent.strftime("%Y-%m-%dT%H:%M:%SZ"),
        date_ok=True,
        from_addr=draft.sender.address,
        from_name=draft.sender.name,
        to=tuple(person.address for person in draft.to),
        cc=tuple(person.address for person in draft.cc),
        bcc=(),
        subject=draft.subject,
        body=draft.body,
        source="demo",
    )


def _scenario(item: Answered, scenario_id: str, box: Mailbox, ids: dict[int, str]) -> Scenario:
    return Scenario(
        scenario_id=scenario_id,
        question=item.ask.question,
        answer=item.answer.text,
        accepted=item.answer.accepted,
        message_ids=tuple(ids[id(draft)] for draft in item.evidence),
        inbox=box.cast.owner.address,
        query_date=item.query_date.isoformat(),
        split=box.split,
        difficulty=item.ask.difficulty,
        kind=item.ask.kind,
        plan=tuple(("read", (ids[id(step)],)) if isinstance(step, Draft) else ("search", step) for step in item.steps),
    )

"""One mailbox while it is being written: its mails, what they state, and the questions about them.

A story claims its topic first, so that only one story tells a topic. Every statement that a question may be about goes
into a ledger, as an `Assertion`. Where a story states a field twice, the later mail wins. An answer is always looked up
in the ledger, never written beside it. `questions.py` answers the questions once the mailbox is complete.
"""

import random
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from datetime import date, datetime, timedelta

from email_env.demo.cast import Cast, Person
from email_env.demo.texts import CHAT, MAILS, STATEMENT, WORDINGS
from email_env.demo.values import Value, date_value
from email_env.demo.writer import Draft, Writer

Topic = tuple[str, ...]
Claim = tuple[Topic, str]
FIRST_DAY, LAST_DAY = datetime(2021, 1, 11), datetime(2024, 12, 31)


class NothingLeft(Exception):
    """The topics of a story are taken: it is not told once more."""


@dataclass(frozen=True, slots=True)
class Assertion:
    """A mail states that `field` of `topic` is `value`."""

    topic: Topic
    field: str
    value: Value
    draft: Draft


@dataclass(frozen=True, slots=True)
class Ask:
    """A question to be asked; see `Mailbox.ask`."""

    kind: str
    question: str
    difficulty: str
    claims: tuple[Claim, ...]
    hops: tuple[tuple[tuple[str, ...], ...], ...]
    answer: Value | None
    after: date | None
    before: date | None
    missing: bool
    open_mail: Draft | None


class Mailbox(Writer):
    """Collects the mails, statements and questions of one inbox.

    Args:
        rng: Source of every choice.
        split: "train", "validation" or "test": which question wordings are used.
        cast: Who and what the mails are about.
    """

    def __init__(self, rng: random.Random, split: str, cast: Cast) -> None:
        super().__init__(rng, cast)
        self.split = split
        self.ledger: list[Assertion] = []
        self.asks: list[Ask] = []
        self._claimed: set[Topic] = set()
        self._used: set[str] = set()

    # Choices

    def pick(self, story: str, *options: Iterable[str]) -> Topic:
        """Claim a random topic `(story, one of each option)`.

        Raises:
            NothingLeft: nearly all are taken.
        """
        for _ in range(40):
            topic = (story, *(self.rng.choice(list(option)) for option in options))
            if self.claim(*topic):
                return topic
        raise NothingLeft(story)

    def claim(self, *topic: str) -> bool:
        """Reserve a topic for the calling story; False if another story has it."""
        if topic in self._claimed:
            return False
        self._claimed.add(topic)
        return True

    def fresh(self, make: Callable[[], Value]) -> Value:
        """A value whose text no other statement of this mailbox uses."""
        while True:
            value = make()
            if value.text not in self._used:
                self._used.add(value.text)
                return value

    def fresh_date(self, moment: datetime, at_least_days: int, at_most_days: int) -> Value:
        """A working day some days after `moment`, written as no other date of this mailbox."""
        return self.fresh(lambda: date_value(self.later(moment, at_least_days, at_most_days).date()))

    def synonym(self, words: list[str]) -> str:
        """The question's word for a thing: the second one at times in validation and test, never in training."""
        return words[1] if self.split != "train" and self.chance(0.35) else words[0]

    def start(self, tail_days: int = 60) -> datetime:
        """A working hour that leaves at least `tail_days` until the last day."""
        span = (LAST_DAY - FIRST_DAY).days - tail_days
        return self.working_hour(FIRST_DAY + timedelta(days=self.rng.randrange(span)))

    def later(self, moment: datetime, at_least_days: int, at_most_days: int) -> datetime:
        """A working hour some days after `moment`."""
        return self.working_hour(moment + timedelta(days=self.rng.randint(at_least_days, at_most_days)))

    def working_hour(self, moment: datetime) -> datetime:
        """A random working time on that day, or on the Monday after a weekend."""
        moment += timedelta(days=max(0, 7 - moment.weekday()) if moment.weekday() > 4 else 0)
        return moment.replace(
            hour=self.rng.randint(7, 17), minute=self.rng.randrange(60), second=self.rng.randrange(60)
        )

    # Writing

    def tell(
        self,
        text: str,
        fields: Mapping[str, str],
        on: datetime,
        *,
        sender: Person | None = None,
        topic: Topic = (),
        states: Mapping[str, Value] | None = None,
        answers: Draft | None = None,
        quote: str = "full",
        forwards: str = "",
    ) -> Draft:
        """Write a mail from the text templates `MAILS[text]`.

        Args:
            text: Key of the templates.
            fields: What fills them.
            on: When it is sent.
            sender: Who sends it; by default a colleague, now and then the owner.
            topic: What its statements are about.
            states: field -> value stated.
            answers: The mail it replies to.
            quote: How much of that mail it quotes: "full", or "head" (nothing that states a fact).
            forwards: A text to forward below the sender's own.
        """
        templates = MAILS[text]
        if answers:
            subject = f"RE: {answers.subject.removeprefix('RE: ')}"
        else:
            subject = self.rng.choice(templates["subjects"]).format_map(fields)
        names = (fields.get("person"), fields.get("deputy"))
        named = [person for person in self.cast.colleagues if person.name in names]
        if sender is None:
            sender = self.cast.owner if self.chance(0.12) else self.colleague(*named)
        below = self.quotation(answers, quote) if answers else forwards
        words = self.rng.choice(templates["sentences"]).format_map(fields)
        tone = STATEMENT if states else CHAT
        to = answers.sender if answers and answers.sender in self.cast.colleagues else None
        draft = self.write(subject, words, on, sender, below, tone=tone, to=to, named=named)
        for name, value in (states or {}).items():
            self.ledger.append(Assertion(topic, name, value, draft))
        return draft

    def surround(
        self, kind: str, fields: Mapping[str, str], draft: Draft, decoys: tuple[int, ...] = (0, 1, 1, 2)
    ) -> None:
        """Put decoys around a mail: talk of the same thing that states nothing, and at times a reply of thanks.

        Args:
            kind: The decoys' templates are `MAILS[kind + "_decoy"]` and, for later ones, `MAILS[kind + "_later"]`.
            fields: What fills them, beside random people.
            draft: The mail they surround.
            decoys: How many, drawn from these.
        """
        count = str(self.rng.randint(2, 60))
        extra = {"person": self.colleague().name, "deputy": self.colleague().name, "count": count, **fields}
        for _ in range(self.rng.choice(decoys)):
            days = self.rng.choice((-14, 2, 3, 5, 7, 11))
            text = f"{kind}_later" if days > 0 and f"{kind}_later" in MAILS else f"{kind}_decoy"
            self.tell(text, extra, self.working_hour(max(draft.sent + timedelta(days=days), FIRST_DAY)))
        if self.chance(0.25):
            sender = self.cast.owner if draft.sender is not self.cast.owner else self.colleague()
            self.tell("thanks", extra, self.later(draft.sent, 1, 3), sender=sender, answers=draft, quote="head")

    # Asking

    def newest(self, claim: Claim, before: date | None = None) -> Assertion | None:
        """The assertion that holds: the latest one, or the latest one sent before a day."""
        held = [
            assertion
            for assertion in self.ledger
            if (assertion.topic, assertion.field) == claim and (before is None or assertion.draft.sent.date() < before)
        ]
        return max(held, key=lambda assertion: assertion.draft.sent, default=None)

    def stated(self, topic: Topic, field: str) -> Value:
        """The value that holds in the end."""
        assertion = self.newest((topic, field))
        assert assertion is not None, f"nothing is stated about {field} of {topic}"
        return assertion.value

    def best(self, topics: Iterable[Topic], field: str, extreme: Callable[..., Topic]) -> Topic:
        """The topic whose value is the greatest (`extreme` is `max`) or the least (`min`) in the end."""
        return extreme(topics, key=lambda topic: self.stated(topic, field).rank)

    def ask_around(self, kind: str, fields: Mapping[str, str], claim: Claim, change: Draft | None) -> None:
        """Ask a question before the mail that changes the matter and after it, where there is one, and a paraphrase."""
        if change:
            self.ask(kind, fields, claim, difficulty="medium", after=change.sent)
        self.ask(kind, fields, claim, before=change.sent if change else None)
        self.ask(kind, fields, claim, style="medium")

    def ask(
        self,
        kind: str,
        fields: Mapping[str, str],
        *claims: Claim,
        style: str = "easy",
        difficulty: str = "",
        answer: Value | None = None,
        after: datetime | None = None,
        before: datetime | None = None,
        missing: bool = False,
        open_mail: Draft | None = None,
    ) -> None:
        """Ask a question; the answer is the value of the last claim that holds on the day of the question.

        Args:
            kind: Key of the wordings; also the scenario's kind.
            fields: What fills the wordings and the keyword templates.
            claims: What must be looked up, in order: one for a plain question, two for a chain or a comparison.
            style: Which wordings: "easy" (the mail's words), "medium" (a paraphrase) or "hard".
            difficulty: The grade where it differs from the style.
            answer: The answer where it is not the value of the last claim (comparisons).
            after: The question is asked on this day or later.
            before: The question is asked before this day.
            missing: The last claim is stated nowhere before the day of the question: the answer is not known.
            open_mail: With `missing`: a mail that speaks of the matter and leaves it open.
        """
        wording = WORDINGS[kind]
        is_new = self.split != "train" and self.chance(0.36)
        frames = wording[f"{style}_held_out" if is_new else style]
        hops = [wording[name] for name in ("searches", "second_searches") if name in wording]
        self.asks.append(
            Ask(
                kind=kind,
                question=self.rng.choice(frames).format_map(fields),
                difficulty=difficulty or style,
                claims=claims,
                hops=tuple(
                    tuple(tuple(keyword.format_map(fields) for keyword in search) for search in hop) for hop in hops
                ),
                answer=answer,
                after=after.date() if after else None,
                before=before.date() if before else None,
                missing=missing,
                open_mail=open_mail,
            )
        )

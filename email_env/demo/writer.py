"""Writing a mail: greeting, what is to be said with some words around it, signature, and what is quoted below."""

import random
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from email_env.demo.cast import Cast, Person
from email_env.demo.texts import CHAT, CLOSINGS, DESK, PARAGRAPHS, TEMPTATIONS, Texts
from email_env.demo.values import long_date


@dataclass(slots=True, eq=False)
class Draft:
    """A mail without its id. `own` is what the sender wrote, `head` its part before the first fact."""

    sent: datetime
    sender: Person
    to: tuple[Person, ...]
    cc: tuple[Person, ...]
    subject: str
    head: str
    own: str
    body: str


class Writer:
    """Writes the mails of one inbox; every one is from, to or copied to its owner.

    Args:
        rng: Source of every choice.
        cast: Who writes to whom.
    """

    def __init__(self, rng: random.Random, cast: Cast) -> None:
        self.rng = rng
        self.cast = cast
        self.drafts: list[Draft] = []

    def chance(self, probability: float) -> bool:
        """True with this probability."""
        return self.rng.random() < probability

    def colleague(self, *others: Person) -> Person:
        """A colleague of the owner who is none of `others`."""
        return self.rng.choice([person for person in self.cast.colleagues if person not in others])

    def write(
        self,
        subject: str,
        words: str,
        on: datetime,
        sender: Person,
        below: str = "",
        *,
        tone: Texts = CHAT,
        to: Person | None = None,
        named: Sequence[Person] = (),
    ) -> Draft:
        """Write a mail and add it to the inbox.

        Args:
            subject: Subject; its first letter is made a capital.
            words: What the mail has to say.
            on: When it is sent.
            sender: Who sends it; outsiders always write in the tone of a service desk.
            below: Quoted or forwarded text.
            tone: The words around.
            to: Whom it is for; by default mostly the owner.
            named: People the mail speaks of, who should not receive it.
        """
        recipients, cc = self._recipients(sender, to, named)
        if sender is not self.cast.owner and sender not in self.cast.colleagues:
            tone = DESK
        first = f"{self.rng.choice(('Hi', 'Hello', 'Dear'))} {recipients[0].first},"
        greeting = "Hi all," if len(recipients) > 1 else first
        head = f"{greeting}\n\n{self.rng.choice(tone['openers']) if self.chance(0.65) else ''}"
        context = " ".join(self.rng.sample(tone["contexts"], self.rng.choice((1, 2, 2, 3))))
        if tone is not DESK and self.chance(0.12):
            third = self.colleague(sender, *recipients, *cc)
            temptation = self.rng.choice(TEMPTATIONS)
            context += " " + temptation.format(project=self.rng.choice(self.cast.projects), person=third.name)
        if tone is not DESK and self.chance(0.2):
            context += "\n\n" + self.rng.choice(PARAGRAPHS)
        gap = "" if head.endswith("\n") else " "
        own = f"{head}{gap}{words}\n{context}\n\n{self._signature(sender)}"
        subject = subject[:1].upper() + subject[1:]
        draft = Draft(on, sender, recipients, cc, subject, head, own, f"{own}\n\n{below}" if below else own)
        self.drafts.append(draft)
        return draft

    def _recipients(
        self, sender: Person, to: Person | None, named: Sequence[Person]
    ) -> tuple[tuple[Person, ...], tuple[Person, ...]]:
        owner = self.cast.owner
        other = self.colleague(sender, *named)
        if to and to is not sender:
            return (to,), (() if owner in (sender, to) else (owner,))
        if sender is owner:
            return (other,), ((self.colleague(other, *named),) if self.chance(0.2) else ())
        roll = self.rng.random()
        if roll < 0.65:
            return (owner,), ()
        return ((owner, other), ()) if roll < 0.8 else ((other,), (owner,))

    def _signature(self, sender: Person) -> str:
        closing = self.rng.choice(CLOSINGS)
        inside = sender is self.cast.owner or sender in self.cast.colleagues
        firm = f"\n{sender.department}, {self.cast.company}" if inside and self.chance(0.4) else ""
        return f"{closing}\n{sender.name}{firm}"

    def quotation(self, original: Draft, quote: str = "full") -> str:
        """A mail as it is quoted in the answer to it."""
        quoted = original.own if quote == "full" else f"{original.head.rstrip()}\n[...]"
        if self.chance(0.5):
            lines = "\n".join(f"> {line}".rstrip() for line in quoted.split("\n") if line)
            return f"On {long_date(original.sent.date())}, {original.sender.name} wrote:\n{lines}"
        return f"-----Original Message-----\nFrom: {original.sender.name}\nSubject: {original.subject}\n\n{quoted}"

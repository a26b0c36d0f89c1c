"""Whose mail lies where: the owner of each folder, found by who takes part in its mail.

All mail of a mailbox belongs to its owner, also what reached them by Bcc or by a list, whose headers do not name them.
Whose a folder is, its mail tells: every mail has one vote, shared by everyone on it, so a mail to thirty people says
little. Mail of lists has none, since it names the list. Who only sent is no owner, unless most of the mail is theirs.

The folders of a source are those of its first level (`lay-k` of `maildir/lay-k/inbox/1.`). If one person takes part in
most mail of a source, or if most of it lies in folders of one person, the source is theirs, except for folders in which
somebody else takes part in half the mail or more, and they in less (and if they were named: somebody who also sent
mail, as lists do not). Otherwise each folder is somebody's. A source without folders is the person's who takes part in
most of its mail; who is named counts before who is found. In the archive of a list no mail names who received it: it
is the only owner's, as mail of lists is. Tables and records without folders are nobody's: they may hold anybody's mail.

Of the 28 mailboxes of real Enron mail that was looked at, all were found to be their owners'; in two of them somebody
else took part in more mails than the owner.
"""

import re
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable
from dataclasses import dataclass, field

from email_env.ingest.sources.source import MARK

MAJORITY = 0.5
NAMED_SHARE = 0.25
"""A source without folders is a named person's from this share of its mail on."""

_NUMBERED = re.compile(r"(?:line|row) \d+")


@dataclass(frozen=True, slots=True)
class Owner:
    """A person whose mailbox this is: the address that stands for them, their other ones, and their mail.

    `folders` are those of which all mail is theirs, as `SOURCE::FOLDER`; "" is all mail of a source without folders. An
    owner is named by the user, or found by the mail of a folder.
    """

    address: str
    aliases: tuple[str, ...]
    folders: tuple[str, ...]
    is_named: bool
    mails: int


@dataclass(slots=True)
class Mailbox:
    """A first-level folder of a source, or of an archive within a source; both names may be "".

    Attributes:
        number: counts mailboxes from 0.
        mails: how many mails voted.
        votes: what each person got, by number.
        present: in how many of the mails each takes part.
        received: how many each received.
    """

    number: int
    source: str
    folder: str
    mails: int = 0
    votes: defaultdict[int, float] = field(default_factory=lambda: defaultdict[int, float](float))
    present: Counter[int] = field(default_factory=Counter[int])
    received: Counter[int] = field(default_factory=Counter[int])

    @property
    def name(self) -> str:
        """As a report shows it."""
        return MARK.join(filter(None, (self.source, self.folder)))

    def vote(self, people: Collection[int], received: Iterable[int]) -> None:
        """Counts a mail that these people sent or received."""
        self.mails += 1
        for person in people:
            self.votes[person] += 1 / len(people)
            self.present[person] += 1
        for person in received:
            self.received[person] += 1

    def likely_owner(self, among: Collection[int] | None = None) -> int | None:
        """Who has the most votes; of equals, who received more, then who was seen first."""
        candidates = self.votes.keys() if among is None else self.votes.keys() & among
        able = [person for person in candidates if person in self.received or self.share(person) > MAJORITY]
        return max(able, key=lambda person: (self.votes[person], self.received[person], -person), default=None)

    def share(self, person: int | None) -> float:
        """In which share of the mails a person takes part."""
        return self.present[person] / max(self.mails, 1) if person is not None else 0.0


class Mailboxes:
    """The mailboxes of a build, numbered."""

    def __init__(self) -> None:
        self._boxes: dict[tuple[str, str], Mailbox] = {}

    def of(self, label: str) -> Mailbox | None:
        """The mailbox of a mail by its label; None where the label does not tell."""
        source, _, place = label.rpartition(MARK)
        place = place.partition("maildir/")[2] or place
        folder, slash, _ = place.partition("/")
        if not place or (not slash and _NUMBERED.fullmatch(place)):
            return None
        key = (source, folder if slash else "")
        box = self._boxes.get(key)
        if box is None:
            box = self._boxes[key] = Mailbox(len(self._boxes), *key)
        return box

    def owners(self, named: Collection[int]) -> list[tuple[Mailbox, int]]:
        """The mailboxes that have an owner; `named` are the people who the user says are owners."""
        sources: dict[str, list[Mailbox]] = {}
        for box in self._boxes.values():
            sources.setdefault(box.source, []).append(box)
        found: list[tuple[Mailbox, int | None]] = []
        for boxes in sources.values():
            found += zip(boxes, _owners(boxes, named), strict=True)
        people = {*named, *(person for _, person in found if person is not None)}
        only = people.pop() if len(people) == 1 else None  # who also owns what is mail of lists alone, or of archives
        owners = ((box, only if person is None and not box.received else person) for box, person in found)
        return [(box, person) for box, person in owners if person is not None]


def _owners(boxes: list[Mailbox], named: Collection[int]) -> list[int | None]:
    """The owners of the folders of a source."""
    if len(boxes) == 1:
        return [_only_owner(boxes[0], named)]
    likely = [box.likely_owner() for box in boxes]
    main = _main_person(boxes, likely)
    if main is None:
        return likely
    able = {person for person in likely if person in named or main not in named or _has_written(boxes, person)}
    return [
        person if person in able and not _is_mains(box, person, main, named) else main
        for box, person in zip(boxes, likely, strict=True)
    ]


def _main_person(boxes: list[Mailbox], likely: list[int | None]) -> int | None:
    """Who takes part in most mail of a source, or owns the folders with most of its mail; None where nobody does."""
    present: Counter[int] = Counter()
    owned: Counter[int] = Counter()
    for box, person in zip(boxes, likely, strict=True):
        present.update(box.present)
        if person is not None:
            owned[person] += box.mails
    most = MAJORITY * sum(box.mails for box in boxes)
    for person, count in (*present.most_common(1), *owned.most_common(1)):
        if count > most and person in owned:
            return person
    return None


def _only_owner(box: Mailbox, named: Collection[int]) -> int | None:
    person = box.likely_owner(among=named)
    if box.share(person) >= NAMED_SHARE:
        return person
    person = box.likely_owner()
    return person if box.share(person) > MAJORITY else None


def _is_mains(box: Mailbox, person: int | None, main: int, named: Collection[int]) -> bool:
    """Whether a folder is that of the `main` person of its source, not that of its likely owner `person`."""
    if person in named:
        return False
    return person not in box.received or box.share(person) < MAJORITY or box.share(main) > MAJORITY


def _has_written(boxes: list[Mailbox], person: int | None) -> bool:
    """Whether a person sent any mail of a source, which the address of a list does not."""
    return person is not None and any(box.present[person] > box.received[person] for box in boxes)

"""A made-up corpus in the size and shape of Enron's, as Kaggle's `emails.csv`.

Words follow Zipf's law over made-up spellings, led by real stop words. 150 people own a mailbox and a long tail writes
to them. Shares follow counts over real Enron mail: bodies over 5,000 characters, mail to more than 30 people, mail
without To, Bcc that repeats Cc, folded headers, quoted-printable, lost dates; and copies of a mail in other folders
under another Message-ID.

It has none of the mail that the builder and the reference treat differently on purpose: copies that went to different
people, broken headers, odd addresses, odd charsets, several time zones, people who are called like a word. So both keep
the same mail, and every answer can be compared. The reference gets one addition, the order of mails of the same second.
The same seed and count give the same bytes.
"""

import csv
from collections import deque
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from functools import cache, cached_property
from pathlib import Path
from typing import Any

import numpy as np

OWNERS = 150
MAILS_PER_PERSON = 8
VOCABULARY = 300_000
MEDIAN_BODY_WORDS, BODY_SIGMA, MAX_BODY_WORDS = 112, 1.21, 20_000

SHARE_COPIES = 0.44
SHARE_MANY_RECIPIENTS = 0.049
SHARE_NO_TO = 0.155  # of what an owner sent: of others' mail only the folder would tell who received it
SHARE_CC = 0.29
SHARE_QUOTED_PRINTABLE = 0.039
SHARE_FORWARDED = 0.14
SHARE_LOST_DATES = 0.0008
COPIES_FROM = 400  # a copy lies in another folder of the same mailbox

STOP_WORDS = tuple(
    """
    the to and of a in for is on that you i be with this will have are it as we if or at by not from your can please
    any would our has me all but was an they know there so do been which should may what my no he new
    """.split()  # noqa: SIM905
)
_SYLLABLES = tuple(onset + vowel for onset in "bdfghjklmnprstvwz" for vowel in "aeiou")
_SEPARATORS = np.array([" ", ", ", ". ", "\n", ".\n\n", " - "], dtype=object)
_SEPARATOR_ODDS = (0.80, 0.05, 0.05, 0.08, 0.015, 0.005)
_FOLDERS = ("all_documents", "discussion_threads", "inbox", "sent_items", "notes_inbox", "_sent_mail", "deleted_items")
ZONE = 8
"""Hours behind UTC of every mail."""
_FIRST_DAY, _DAYS = datetime(1999, 1, 1, tzinfo=UTC), 1250


class Corpus:
    """`mails` raw mails; the same for the same seed."""

    def __init__(self, mails: int, seed: int = 0) -> None:
        self.mails = mails
        self.seed = seed

    def write_csv(self, path: Path) -> None:
        """Writes the table `file,message`."""
        with path.open("w", newline="", encoding="ascii") as handle:
            table = csv.writer(handle, lineterminator="\n")
            table.writerow(("file", "message"))
            table.writerows(self.rows())

    def rows(self) -> Iterator[tuple[str, str]]:
        """(file, message), mailbox by mailbox."""
        generator = np.random.default_rng(self.seed)
        sizes = 1 / (np.arange(OWNERS) + 10.0)
        ends = np.ceil(np.cumsum(sizes / sizes.sum()) * self.mails).astype(int)
        number = 0
        for owner, end in enumerate(ends.tolist()):
            recent: deque[tuple[str, str]] = deque(maxlen=COPIES_FROM)
            fresh = self._fresh(generator, owner)
            while number < min(end, self.mails):
                if recent and generator.random() < SHARE_COPIES:
                    head, rest = recent[int(generator.integers(len(recent)))]
                else:
                    head, rest = next(fresh)
                    recent.append((head, rest))
                folder = _FOLDERS[int(generator.integers(len(_FOLDERS)))]
                place = f"\\{self.people[owner][0]}\\{folder}"
                message = f"Message-ID: <{10_000_000 + number}.1075855378110.JavaMail.evans@thyme>\n{head}{place}{rest}"
                yield f"user-{owner:03}/{folder}/{number}.", message
                number += 1

    @property
    def words(self) -> Any:
        """The vocabulary as an array of words, the most frequent first."""
        return _vocabulary(self.seed + 1)

    @cached_property
    def people(self) -> list[tuple[str, str]]:
        """(display name, address); the owners of mailboxes come first."""
        generator = np.random.default_rng(self.seed + 2)
        count = OWNERS + self.mails // MAILS_PER_PERSON
        names = self.words[len(STOP_WORDS) :]
        picks = generator.integers(len(names), size=(count, 2))
        people: list[tuple[str, str]] = []
        for number, (one, other) in enumerate(zip(names[picks[:, 0]], names[picks[:, 1]], strict=True)):
            first, last = f"{one}x", f"{other}x"  # no word of the vocabulary has an x
            host = "enron.com" if number < OWNERS or number % 3 else f"{names[number % 500]}.com"
            people.append((f"{first.title()} {last.title()}", f"{first}.{last}{number}@{host}"))
        return people

    def _text(self, generator: np.random.Generator, lengths: Any) -> Iterator[str]:
        """One text for each of `lengths`, in words."""
        total = int(lengths.sum())
        pieces = np.empty(2 * total, dtype=object)
        pieces[0::2] = self.words[np.searchsorted(self._odds, generator.random(total))]
        numbers = generator.random(total) < 0.02
        pieces[0::2][numbers] = [str(value) for value in generator.integers(1, 100_000, size=int(numbers.sum()))]
        pieces[1::2] = _SEPARATORS[generator.choice(len(_SEPARATORS), size=total, p=_SEPARATOR_ODDS)]
        parts = pieces.tolist()
        start = 0
        for length in lengths.tolist():
            yield "".join(parts[2 * start : 2 * (start + length) - 1])
            start += length

    @cached_property
    def _odds(self) -> Any:
        odds = 1 / (np.arange(VOCABULARY) + 2.7) ** 1.07
        return np.cumsum(odds / odds.sum()) * (1 - 1e-12)

    def _fresh(self, generator: np.random.Generator, owner: int) -> Iterator[tuple[str, str]]:
        """New mails of a mailbox as what stands before and behind the folder's name."""
        while True:
            lengths = np.exp(generator.normal(np.log(MEDIAN_BODY_WORDS), BODY_SIGMA, size=500))
            bodies = self._text(generator, np.clip(lengths, 8, MAX_BODY_WORDS).astype(int))
            subjects = self._text(generator, generator.geometric(0.22, size=500) + 1)
            for subject, body in zip(subjects, bodies, strict=True):
                yield self._mail(generator, owner, " ".join(subject.split()), body)

    def _mail(self, generator: np.random.Generator, owner: int, subject: str, body: str) -> tuple[str, str]:
        chance = generator.random(7)
        others = self._others(generator, 60 if chance[0] < SHARE_MANY_RECIPIENTS else int(generator.geometric(0.4)))
        box = self.people[owner]
        if chance[1] < 0.45:
            sender, to = box, others
        else:
            sender, to = others[0], [box, *others[1:]]
        cc = self._others(generator, int(generator.integers(1, 5))) if chance[2] < SHARE_CC else []
        to_addresses = {address for _, address in to}
        cc = [person for person in cc if person[1] not in to_addresses]
        if chance[3] < SHARE_NO_TO and sender is box:
            to = []
        sent = _FIRST_DAY + timedelta(seconds=int(generator.integers(_DAYS * 86_400)))
        if chance[4] < SHARE_LOST_DATES:
            sent = datetime(1979, 12, 31, 16, 0, tzinfo=UTC)
        local = (sent - timedelta(hours=ZONE)).strftime("%a, %d %b %Y %H:%M:%S")
        if chance[5] < SHARE_FORWARDED:
            before, after = body[: len(body) // 3], body[len(body) // 3 :]
            asked, asker = (name.replace("x", "") for name, _ in (box, others[0]))  # nobody is called like a word
            body = (
                f"{before}\n\n -----Original Message-----\nFrom: \t{asker}\nSent:\t{local}\nTo:\t{asked}\n"
                f"Subject:\t{subject}\n\n{after}"
            )
        encoding = "7bit"
        if chance[6] < SHARE_QUOTED_PRINTABLE:
            encoding, body = "quoted-printable", body.replace(",\n", ",=20\n").replace(", ", ",=\n ")
        lines = [f"Date: {local} -0{ZONE}00 (PST)", f"From: {sender[1]}"]
        if to:
            lines.append(f"To: {_folded(to)}")
        lines.append(f"Subject: {subject}" if len(subject) < 60 else f"Subject: {subject[:50]}\n {subject[50:]}")
        if cc:
            lines.append(f"Cc: {_folded(cc)}")
        lines += ["Mime-Version: 1.0", "Content-Type: text/plain; charset=us-ascii"]
        lines.append(f"Content-Transfer-Encoding: {encoding}")
        if cc:
            lines.append(f"Bcc: {_folded(cc)}")
        lines += [f"X-From: {sender[0]}", f"X-To: {', '.join(name for name, _ in to)}"]
        lines += [f"X-cc: {', '.join(name for name, _ in cc)}", "X-bcc: ", "X-Folder: "]
        return "\n".join(lines), f"\nX-Origin: {box[0]}\nX-FileName: {box[1]}.nsf\n\n{body}\n"

    def _others(self, generator: np.random.Generator, count: int) -> list[tuple[str, str]]:
        """Different people, those at the head of the list more often."""
        picks = (generator.random(min(count, 15) if count < 60 else 60) ** 2 * len(self.people)).astype(int)
        found = list(dict.fromkeys(picks.tolist()))
        while count >= 60 and len(found) <= 31:
            found.append(found[-1] + 1)
        return [self.people[at % len(self.people)] for at in found]


@cache
def _vocabulary(seed: int) -> Any:
    generator = np.random.default_rng(seed)
    found = dict.fromkeys(STOP_WORDS)
    while len(found) < VOCABULARY:
        length = 2 + (len(found) > 3_000) + (len(found) > 60_000)
        picks = generator.integers(len(_SYLLABLES), size=(20_000, length)).tolist()
        found.update(dict.fromkeys("".join(_SYLLABLES[at] for at in pick) for pick in picks[:5000]))
    return np.array(list(found)[:VOCABULARY], dtype=object)


def _folded(people: list[tuple[str, str]]) -> str:
    addresses = [address for _, address in people]
    lines = [", ".join(addresses[at : at + 3]) for at in range(0, len(addresses), 3)]
    return ", \n\t".join(lines)

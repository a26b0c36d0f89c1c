"""The search that an expert would run, in memory: which mails hold all keywords, the newest first.

It answers like the database's full-text index over subject and body: tokens are letters and digits, case and accents do
not matter, a keyword of several words is a phrase, and all keywords are required. The generator keeps only those plans
that work here. It needs no SQLite.
"""

import re
import unicodedata
from collections.abc import Iterable, Sequence

_TOKEN = re.compile(r"[^\W_]+")
_STOP_WORDS = frozenset(
    """
    a an the of for to in on at is are was were be been it its do does did done has have had i we you me my
    our us your he she they what when where which who whom whose how why that this these those than or and
    as by from with about into until will would can could may might must should shall there here if not no
    so up out s t
    """.split()  # noqa: SIM905
)


def tokens(text: str) -> list[str]:
    """Lower-case tokens of letters and digits, without accents."""
    if not text.isascii():
        text = "".join(char for char in unicodedata.normalize("NFKD", text) if not unicodedata.combining(char))
    return _TOKEN.findall(text.lower())


def content_words(question: str) -> list[str]:
    """The question's tokens without stop words, in order, each once."""
    return [word for word in dict.fromkeys(tokens(question)) if word not in _STOP_WORDS]


class Lookup:
    """Keyword search over the texts of one inbox.

    Args:
        mails: (sent_at, subject, body) of every mail; ISO times, so that they sort as strings.
    """

    def __init__(self, mails: Iterable[tuple[str, str, str]]) -> None:
        self._sent_at: list[str] = []
        self._texts: list[str] = []
        self._postings: dict[str, set[int]] = {}
        for number, (sent_at, subject, body) in enumerate(mails):
            head, text = tokens(subject), tokens(body)
            self._sent_at.append(sent_at)
            self._texts.append(f" {' '.join(head)} | {' '.join(text)} ")
            for word in {*head, *text}:
                self._postings.setdefault(word, set()).add(number)

    def search(self, keywords: Sequence[str], until: str, limit: int = 5) -> list[int]:
        """Numbers of the newest mails that hold every keyword.

        Args:
            keywords: Words or phrases.
            until: ISO date, inclusive.
            limit: At most so many hits.
        """
        phrases = [tokens(keyword) for keyword in keywords]
        found: set[int] | None = None
        for word in (word for phrase in phrases for word in phrase):
            postings = self._postings.get(word, set())
            found = postings if found is None else found & postings
        hits = [
            number
            for number in found or ()
            if self._sent_at[number][:10] <= until
            and all(f" {' '.join(phrase)} " in self._texts[number] for phrase in phrases if len(phrase) > 1)
        ]
        return sorted(hits, key=lambda number: self._sent_at[number], reverse=True)[:limit]

"""The notation of the question wordings.

`easy` uses the mail's own words, `medium` paraphrases them, `hard` needs more than one mail. `|` separates
wordings; those after `//` appear in the validation and test splits only. Searches are separated by `;`,
their keywords by `|`; a keyword of several words is a phrase. An expert tries the searches in random order
until one works.
"""

from dataclasses import dataclass

Frames = tuple[tuple[str, ...], tuple[str, ...]]


@dataclass(frozen=True, slots=True)
class Wording:
    """How one kind of question is worded and looked up.

    Attributes:
        frames: Style -> (wordings of every split, wordings new in validation and test).
        hops: For each mail to be found, the searches that may find it, as keyword templates.
    """

    frames: dict[str, Frames]
    hops: tuple[tuple[tuple[str, ...], ...], ...]


def plain(searches: str, easy: str, medium: str = "") -> Wording:
    """A kind that one mail answers."""
    frames = {"easy": _frames(easy)} | ({"medium": _frames(medium)} if medium else {})
    return Wording(frames, (_searches(searches),))


def chain(first: str, second: str, hard: str) -> Wording:
    """A kind that needs two mails."""
    return Wording({"hard": _frames(hard)}, (_searches(first), _searches(second)))


def _frames(text: str) -> Frames:
    known, _, new = text.partition("//")
    return _parts(known, "|"), _parts(new, "|")


def _searches(text: str) -> tuple[tuple[str, ...], ...]:
    return tuple(_parts(search, "|") for search in _parts(text, ";"))


def _parts(text: str, separator: str) -> tuple[str, ...]:
    return tuple(" ".join(part.split()) for part in text.split(separator))

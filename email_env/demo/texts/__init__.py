"""The words and sentences of the bundled mailboxes: read from the TOML files beside this one, when it is imported.

A name in braces, `{project}`, is filled in by the story that uses the sentence.
"""

import tomllib
from dataclasses import dataclass, field
from importlib.resources import files
from typing import Any


@dataclass(frozen=True, slots=True)
class Names:
    """The names of one split; see `names.toml`."""

    first: list[str]
    last: list[str]
    projects: list[str]
    stems: list[str]
    companies: list[str]


@dataclass(frozen=True, slots=True)
class Things:
    """Everyday words; see `things.toml`. The dictionaries map a thing to its two synonyms."""

    months: list[str]
    weekdays: list[str]
    trades: list[str]
    departments: list[str]
    cities: list[str]
    rooms: list[str]
    hotels: list[str]
    causes: list[str]
    positions: list[str]
    places: list[str]
    contracts: list[str]
    products: list[str]
    annual_events: list[str]
    events: dict[str, list[str]]
    purposes: dict[str, list[str]]
    documents: dict[str, list[str]]
    goods: dict[str, list[str]]
    problems: dict[str, list[str]]
    jobs: dict[str, list[str]]


@dataclass(frozen=True, slots=True)
class MailText:
    """What one sort of mail says: a subject and a sentence are drawn independently.

    Attributes:
        sentences: What the sender writes.
        subjects: Empty for mails that are always replies.
        forwarded: What an outsider wrote, where the mail forwards it.
    """

    sentences: list[str]
    subjects: list[str] = field(default_factory=list[str])
    forwarded: list[str] = field(default_factory=list[str])


@dataclass(frozen=True, slots=True)
class Tone:
    """The phrases around a statement: one that begins a mail, and some that end it."""

    openers: list[str]
    contexts: list[str]


@dataclass(frozen=True, slots=True)
class Wording:
    """How one kind of question is worded and looked up.

    Attributes:
        frames: Style ("easy", "medium", "hard") -> (wordings of every split, wordings of validation and test only).
        hops: For each mail to be found, the searches that may find it, each a list of keywords.
    """

    frames: dict[str, tuple[list[str], list[str]]]
    hops: list[list[list[str]]]


@dataclass(frozen=True, slots=True)
class Noise:
    """What the mail says that nobody asks about; see `noise.toml`."""

    ordinals: list[str]
    status: list[str]
    small_talk: list[list[str]]
    notices: list[list[str]]
    discussions: list[list[str]]
    newsletters: list[list[str]]
    headlines: list[str]
    forwards: list[str]


def _load(name: str) -> dict[str, Any]:
    return tomllib.loads(files(__name__).joinpath(f"{name}.toml").read_text(encoding="utf-8"))


def _wording(table: dict[str, Any]) -> Wording:
    styles = [style for style in ("easy", "medium", "hard") if style in table]
    hops = [table[name] for name in ("searches", "second_searches") if name in table]
    return Wording({style: (table[style], table[f"{style}_held_out"]) for style in styles}, hops)


NAMES = {split: Names(**names) for split, names in _load("names").items()}
THINGS = Things(**_load("things"))
MAILS = {kind: MailText(**text) for kind, text in _load("mails").items()}
WORDINGS = {kind: _wording(table) for kind, table in _load("questions").items()}
NOISE = Noise(**_load("noise"))

_PHRASES = _load("phrases")
CLOSINGS: list[str] = _PHRASES["closings"]
PARAGRAPHS: list[str] = _PHRASES["paragraphs"]
TEMPTATIONS: list[str] = _PHRASES["temptations"]
CHAT, DESK = Tone(**_PHRASES["chat"]), Tone(**_PHRASES["desk"])
STATEMENT = Tone(
    openers=CHAT.openers + _PHRASES["statement"]["openers"], contexts=CHAT.contexts + _PHRASES["statement"]["contexts"]
)

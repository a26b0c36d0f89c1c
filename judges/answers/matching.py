"""Is this answer right, as far as a rule can tell: right, wrong or undecided. No model, no network.

An answer takes one way: it is read (`tokens`), it may give up (`giving_up`), its frames are taken off (`frames`), and
what is left is compared here with what is left of a reference. So a date or an amount is the same however it is
written, and "the answer is" says nothing. Nor do Mr. and Dr., the weekday beside its date, and the order of a list
where none is asked for.

Every other word refutes. So no answer is right that doubts, denies, compares or halves the reference, or names a second
candidate.

An answer is wrong if it is empty, gives up (`giving_up`), or is another value of the same kind. All else is undecided,
such as another wording. A judge may decide it; without one it earns nothing, since a policy would learn to use what a
rule lets through. A reference that gives up itself decides nothing.

`email_env` marks by this rule, too.
"""

import re
import unicodedata
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import date
from decimal import Decimal
from enum import StrEnum
from typing import Any, NamedTuple

from .frames import BE, PLACING, PREPOSITIONS, SCALED, WH, compares, without_frames
from .giving_up import gives_up, speaks_of_not_knowing
from .tokens import AMOUNTS, POINTS, VALUES, WEEKDAYS, Token, Tokens, items, tokens

MAX_ANSWER_CHARS = 600
"""A longer answer is undecided, unless it is the reference itself."""
MAX_WORDS = 4
"""A reference with more words of its own is a sentence, which can be said in too many ways for a rule."""

_TITLES = frozenset("mr mrs ms miss dr prof sir".split())  # noqa: SIM905
_ORDERED = frozenset("and next last order ordered then route ranking sequence steps priority from before after".split())  # noqa: SIM905
_ASIDE = re.compile(r"(?<=[\w.%)])\s+[(\[]([^()\[\]]*)[)\]](?!\s*[-\d])")
_LIMITING = re.compile(r"(?i)\b(?:not|no|or|if|unless|except|only|but|without|until|before|after)\b|n't\b|\?")
_CONTRAST = re.compile(r"(?i)(?<=\w)(?:, not|,? (?:rather than|instead of|as opposed to)) ")
_ABOUT = re.compile(r"(?i)^(?:about|approximately|roughly) (?=[$€£¥]?\d)")
_UNSPACED = re.compile(
    "[\u0e01-\u0e5b\u3005-\u3007\u3041-\u30ff\u3400-\u9fff\uac00-\ud7a3\uf900-\ufaff\U00020000-\U0003ffff]"
)


class Verdict(StrEnum):
    """What the rule says of an answer."""

    RIGHT = "right"
    """It says the reference and nothing else."""
    WRONG = "wrong"
    """It is another value than the reference, or gives up."""
    UNDECIDED = "undecided"
    """The rule cannot say."""


@dataclass(frozen=True, slots=True)
class Decision:
    """A verdict, and why."""

    verdict: Verdict
    reasoning: str


class _Reference(NamedTuple):
    """A reference as it was read."""

    text: str
    whole: Tokens
    core: Tokens
    """Without what explains it."""
    items: list[tuple[Any, ...]]
    """Where it is a list."""


def decide(answer: str, references: Sequence[str], question: str = "") -> Decision:
    """Whether the answer says one of the references, and only that.

    Args:
        answer: what was said.
        references: right answers; to say one of them is enough.
        question: what was asked. Its own words may be repeated.
    """
    if not answer.strip():
        return Decision(Verdict.WRONG, "The answer is empty.")
    same = next((text for text in references if text == answer or _folded(text) == _folded(answer) != ""), None)
    if same is not None:
        return Decision(Verdict.RIGHT, f"The answer says {same!r}.")
    if len(answer) > MAX_ANSWER_CHARS:
        return Decision(Verdict.UNDECIDED, f"The answer has more than {MAX_ANSWER_CHARS} characters.")
    asked, said, listed = tokens(question), tokens(answer), items(answer)
    known = [_read(text) for text in references]
    if gives_up(said, asked):
        if any(_among(said, one.whole) or speaks_of_not_knowing(one.whole) for one in known):
            return Decision(Verdict.UNDECIDED, "The answer and a reference say that something is not known.")
        return Decision(Verdict.WRONG, "The answer gives up.")
    if "password" in question.casefold():
        return Decision(Verdict.UNDECIDED, "A password must be the same to the letter.")
    forms = {one.text: [form for form in dict.fromkeys((one.whole, one.core)) if not gives_up(form)] for one in known}
    asked = [token for token in asked if token.value != "?"]
    any_order = not _asks_for_order(asked)
    bare = [*without_frames(said, asked)]
    for one in known:
        bare_forms = [left for form in forms[one.text] for left in without_frames(form, asked)]
        is_list = any_order and len(one.items) > 1 and listed == one.items
        if is_list or any(_same(left, form) for left in bare for form in bare_forms):
            return Decision(Verdict.RIGHT, f"The answer says {one.text!r}.")
    return _refuted(bare[-1], [one.core for one in known], asked)


def says(text: str, answer: str) -> bool:
    """Whether a text, such as a mail, says the answer: the same words in a row, or the same values in any order.

    In Chinese, Japanese, Korean and Thai no blanks separate words: there it is the same characters in a row.
    """
    if _UNSPACED.search(answer):
        wanted = _squeezed(answer)
        before = r"(?<![0-9a-z])" if wanted[0].isascii() else ""
        behind = r"(?![0-9a-z])" if wanted[-1].isascii() else ""
        return re.search(before + re.escape(wanted) + behind, _squeezed(text)) is not None
    return _among(tokens(text), tokens(answer))


def _among(said: Tokens, form: Tokens) -> bool:
    """Whether the form stands in what is said: its tokens in a row, or its values in any order."""
    if form and all(token.kind in VALUES for token in form) and len({token.kind for token in form}) == len(form):
        return all(any(_agrees(token, other) or _agrees(other, token) for other in said) for token in form)
    return any(_agree(said[n : n + len(form)], form) for n in range(len(said) - len(form) + 1))


def is_short_enough(references: Iterable[str], question: str = "") -> bool:
    """Whether a rule can be expected to recognise right answers: a reference gives up, or says little of its own."""
    asked = {*(token.value for token in tokens(question)), *PREPOSITIONS, *BE, "and", "or"}

    def words(text: str) -> int:
        return sum(token.kind != "symbol" and token.value not in asked for token in tokens(_ASIDE.sub("", text)))

    return any(gives_up(tokens(text)) or words(text) <= MAX_WORDS for text in references)


def _folded(text: str) -> str:
    """On one line, without a full stop at its end and without the quotes around it."""
    text = " ".join(text.split()).rstrip(" .")
    while len(text) > 1 and text[0] == text[-1] and text[0] in "\"'" and text[0] not in text[1:-1]:
        text = text[1:-1].strip().rstrip(" .")
    return text


def _squeezed(text: str) -> str:
    """The text without blanks, in letters and digits of the usual width."""
    return "".join(unicodedata.normalize("NFKC", text).split()).casefold()


def _core(reference: str) -> str:
    """The reference without what explains it: a parenthesis that limits nothing, and what it is not."""
    text = _ASIDE.sub(lambda aside: aside[0] if _LIMITING.search(aside[1]) else "", reference)
    return _ABOUT.sub("", _CONTRAST.split(text)[0])


def _read(text: str) -> _Reference:
    core = _core(text)
    return _Reference(text, tokens(text), tokens(core), items(core))


# What is left of an answer, beside what is left of a reference.


def _agrees(said: Token, known: Token) -> bool:
    """Whether `said` says `known`: a date's year, a time's half of the day and a currency may be left unsaid."""
    one, other = said.value, known.value
    if said.kind == "number" and known.kind == "money":
        return one == other[1]
    if said.kind != known.kind:
        return False
    if said.kind == "date":
        return one[1:] == other[1:] and one[0] in (None, other[0])
    if said.kind == "time" and not one[2]:
        return one[1] == other[1] and (one[0] == other[0] or (other[2] and one[0] % 12 == other[0] % 12 != 0))
    return one == other


def _weekday(day: Token) -> str:
    """The weekday of a date; empty for what is none, where its year is not known, or where there is no such day."""
    try:
        return [*WEEKDAYS.values()][date(*day.value).weekday()] if day.kind == "date" else ""
    except (TypeError, ValueError):
        return ""


def _agree(said: Tokens, form: Tokens) -> bool:
    return len(said) == len(form) > 0 and all(map(_agrees, said, form))


def _same(said: Tokens, form: Tokens) -> bool:
    """Whether the two agree: but for a title, for the weekday of a date, and for the order of a day and its time."""
    (title, said), (known, form) = _titled(said), _titled(form)
    if title and known and title.isdisjoint(known):
        return False
    if any(token.kind == "date" for token in form):
        days = {token.value for token in form if token.kind == "weekday"} | {_weekday(token) for token in form}
        said, form = ([token for token in some if token.value not in days] for some in (said, form))
    kinds = [token.kind for token in form if token.value not in PLACING]
    if {*kinds} <= {*POINTS} and len({*kinds}) == len(kinds):
        said, form = (sorted(_points(some), key=lambda token: token.kind) for some in (said, form))
    return _agree(said, form)


def _points(some: Tokens) -> list[Token]:
    """A day and its time without what joins them: `Friday at 2 pm`."""
    return [token for place, token in enumerate(some) if place == 0 or token.value not in PLACING]


def _titled(some: Tokens) -> tuple[set[str], Tokens]:
    """The titles before a name, and the rest."""
    count = next((n for n, token in enumerate(some) if token.value not in _TITLES or not token.named), 0)
    if count == 0 or not some[count].named:
        return set(), some
    return {token.value for token in some[:count]}, some[count:]


def _asks_for_order(asked: Tokens) -> bool:
    """Whether the order of a list may count."""
    words = {token.value for token in asked}
    return not _ORDERED.isdisjoint(words) or len(words & WH) > 1 or compares(asked)


def _refuted(said: Tokens, references: Sequence[Tokens], asked: Tokens) -> Decision:
    """Wrong, if answer and references are values, and none that the answer could mean is among the references."""
    forms = [[token for token in form if token.kind != "weekday" or len(form) == 1] for form in references]
    are_values = all(len(form) == 1 and form[0].kind in VALUES and "/" not in form[0].written for form in forms)
    day = [token for token in said if token.kind != "weekday" or len(said) == 1]
    known = [token for form in forms for token in form]
    if (
        not are_values
        or len(day) != 1
        or _kind(day[0]) not in map(_kind, known)
        or any(_may_mean(day[0], other) for other in known)
        or any(token.value in SCALED for token in asked)
    ):
        return Decision(Verdict.UNDECIDED, "The rule cannot say.")
    return Decision(Verdict.WRONG, f"The answer is another {_kind(day[0])} than the reference.")


def _kind(token: Token) -> str:
    return "number" if token.kind == "money" else token.kind


def _may_mean(one: Token, other: Token) -> bool:
    """Whether the two could mean the same: rounded, without a sign or a currency, with day and month turned round."""
    said, known = one.value, other.value
    if {one.kind, other.kind} <= {*AMOUNTS}:
        said, known = (value[1] if isinstance(value, tuple) else value for value in (said, known))
        if (one.kind == "percent") != (other.kind == "percent") or str in (type(said), type(known)):
            return True
        rounding = Decimal(1).scaleb(int(said.normalize().as_tuple().exponent)) / 2 if said else 0
        return abs(abs(said) - abs(known)) <= rounding or (
            known > 10**6 and str(said).endswith(str(known))
        )  # a phone number
    if one.kind != other.kind:
        return False
    if one.kind == "date":
        return {*said[1:]} == {*known[1:]} and (said[0] == known[0] or None in (said[0], known[0]))
    if one.kind == "time":
        return said[0] % 12 == known[0] % 12 and said[1] == known[1]
    return said == known

"""Is this answer right, as far as a rule can tell: yes, no, or undecided. No model, no network.

A rule speaks only where it is sure. Yes: the answer says the reference and, beside it, nothing but filler and plain
words of the question. No: it is empty or gives up, or it is a date, time, number or weekday other than the reference.
Everything else (another wording, more than was asked, a part of a name, a rounded number) is undecided.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from decimal import Decimal

from judges.values import Atom, Kind, agree, atoms, weekday_of

MAX_DECIDED_ATOMS = 40
"""A longer answer is left undecided: it says more than the reference."""

_ARTICLES = frozenset({"a", "an", "the"})
_FILLER = _ARTICLES.union(
    (  # noqa: SIM905
        "answer final it is was will be that this yes according mail email message says said at on in of for to by so"
    ).split()
)
_NEVER_FILLER = frozenset(  # what turns an answer round, opens it or doubts it
    (  # noqa: SIM905
        "no not never none neither nor without except isn't wasn't won't don't didn't or either maybe perhaps possibly "
        "about around before after until than less more least most over under between and but"
    ).split()
)
_GIVES_UP = re.compile(
    r"(?:i (?:do not|don't|did not|didn't) know|i (?:am|'m) not sure|i'm not sure|unknown|n/?a|none"
    r"|not (?:found|available|known|mentioned)|no answer"
    r"|i (?:could not|couldn't|cannot|can't|was unable to|am unable to) (?:find|determine|answer)\b.*)"
)
_BESIDE = {
    Kind.DATE: {Kind.WEEKDAY},
    Kind.TIME: set[Kind](),
    Kind.NUMBER: {Kind.CURRENCY, Kind.PERCENT},
    Kind.WEEKDAY: set[Kind](),
}
"""Kinds of references that a rule can contradict, and what may stand beside their one value."""


@dataclass(frozen=True, slots=True)
class Match:
    """What the rules say, and why."""

    accept: bool
    reasoning: str


def match_answer(question: str, references: Sequence[str], given: str) -> Match | None:
    """Decide by rule.

    Args:
        question: What was asked.
        references: Right answers; to say one of them is enough.
        given: The answer to check.

    Returns:
        The decision, or None where the rules are not sure.
    """
    if not given.strip():
        return Match(False, "The answer is empty.")
    nothing_known = any(map(gives_up, references))
    if gives_up(given):
        return Match(nothing_known, f"The answer gives up{', as the reference does' if nothing_known else ''}.")
    said = _without(_ARTICLES, atoms(given))
    if nothing_known or not said or len(said) > MAX_DECIDED_ATOMS:
        return None
    forms = [_without(_ARTICLES, atoms(reference)) for reference in references]
    asked = [atom for atom in atoms(question) if atom.kind is Kind.WORD]
    plain = set() if _has("or", asked) else {str(atom.value) for atom in asked if not atom.capital}
    for reference, form in zip(references, forms, strict=True):
        excused = (plain | _FILLER) - _NEVER_FILLER - {str(atom.value) for atom in form}
        if form and not _other_weekday(said, forms) and (_equal(said, form) or _equal(_without(excused, said), form)):
            return Match(True, f"The answer says {reference!r}.")
    excused = ({str(atom.value) for atom in asked} | _FILLER) - _NEVER_FILLER
    return _contradiction(_without(excused, said), forms)


def gives_up(text: str) -> bool:
    """Whether a text as a whole says that the answer is not known."""
    words = re.sub(r"[^\w'/ ]", " ", text.casefold().replace("’", "'")).split()
    return bool(_GIVES_UP.fullmatch(" ".join(words)))


def _equal(said: Sequence[Atom], form: Sequence[Atom]) -> bool:
    """The same atoms in the same order; a name also with its parts turned round (Keller, Anna)."""
    said, form = _without_spare(said, form), _without_spare(form, said)
    if len(said) != len(form):
        return False
    if all(map(agree, said, form)):
        return True
    is_name = 2 <= len(form) <= 3 and all(atom.kind is Kind.WORD and atom.capital for atom in form)
    return is_name and sorted(str(atom.value) for atom in said) == sorted(str(atom.value) for atom in form)


def _other_weekday(said: Sequence[Atom], forms: Sequence[Sequence[Atom]]) -> bool:
    """Whether the answer names a weekday that is neither named by a reference nor that of its date."""
    flat = [atom for form in forms for atom in form]
    known = {atom.value for atom in flat if atom.kind is Kind.WEEKDAY}
    known |= {day for atom in flat if (day := weekday_of(atom)) is not None}
    return bool(known) and any(atom.kind is Kind.WEEKDAY and atom.value not in known for atom in said)


def _without_spare(some: Sequence[Atom], others: Sequence[Atom]) -> list[Atom]:
    """Without what adds nothing where the other side leaves it out: a date's weekday, a number's currency.

    A currency is put before its number, wherever it was written.
    """
    ordered = list(some)
    for place in range(1, len(ordered)):
        if ordered[place].kind is Kind.CURRENCY and ordered[place - 1].kind is Kind.NUMBER:
            ordered[place - 1 : place + 1] = ordered[place], ordered[place - 1]
    kinds, other_kinds = {atom.kind for atom in some}, {atom.kind for atom in others}
    spare: set[Kind] = set()
    if Kind.DATE in kinds:
        spare.add(Kind.WEEKDAY)
    if Kind.NUMBER in kinds:
        spare.add(Kind.CURRENCY)
    return [atom for atom in ordered if atom.kind not in spare - other_kinds]


def _contradiction(said: Sequence[Atom], forms: Sequence[Sequence[Atom]]) -> Match | None:
    """No, where every reference is one value and the answer is values alone, none of which agrees with any."""
    for kind, beside in _BESIDE.items():
        known = [atom for form in forms for atom in form if atom.kind is kind]
        given = [atom for atom in said if atom.kind is kind]
        one_value = len(known) == len(forms) and all(_only({kind, *beside}, form) for form in forms)
        if not one_value or not given or not _only({kind, *beside}, said):
            continue
        if not any(_may_agree(one, other) for one in given for other in known):
            if _kinds(said) & {Kind.PERCENT} != _kinds(*forms) & {Kind.PERCENT}:  # 0.25 and 25 %
                return None
            return Match(False, f"The answer is another {kind} than the reference.")
        if kind is Kind.NUMBER:
            currencies = {atom.value for form in forms for atom in form if atom.kind is Kind.CURRENCY}
            if currencies and not currencies.issuperset(a.value for a in said if a.kind is Kind.CURRENCY):
                return Match(False, "The answer is in another currency than the reference.")
    return None


def _may_agree(given: Atom, known: Atom) -> bool:
    """Whether the two agree, or the given number could be the known one rounded."""
    if isinstance(given.value, Decimal) and isinstance(known.value, Decimal):
        unit = Decimal(1).scaleb(int(given.value.normalize().as_tuple().exponent))
        return abs(given.value - known.value) <= (unit / 2 if given.value else 0)
    return agree(given, known)


def _without(words: Iterable[str], some: Iterable[Atom]) -> list[Atom]:
    left_out = set(words)
    return [atom for atom in some if atom.kind is not Kind.WORD or atom.value not in left_out]


def _has(word: str, some: Iterable[Atom]) -> bool:
    return any(atom.value == word for atom in some)


def _only(kinds: set[Kind], some: Sequence[Atom]) -> bool:
    return _kinds(some) <= kinds


def _kinds(*many: Sequence[Atom]) -> set[Kind]:
    return {atom.kind for some in many for atom in some}

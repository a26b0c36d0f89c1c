"""What may stand beside the reference in an answer: a frame, a preposition that adds nothing, the question's own words.

A frame is of a closed list ("the answer is", "according to the mail"). The question's words count only as the question
has them: in a row up to the reference (`Lotus acquired` of "Whom did Lotus acquire?"), or behind it from the question
word on (`has the lead of Nimbus`), or before an `is` in their order (`the lead of Nimbus is`). So roles cannot
be turned round, and what is asked for negatively must be said negatively.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from datetime import date
from functools import lru_cache

from .token import Token, agrees
from .values import WEEKDAYS

MAIL = r"(?:(?:this|that|your|my|an) )?(?:e ?)?(?:mails?|messages?|threads?|inbox|mailbox)"
_BE = ("is", "was", "are", "were", "be", "been")
_FRAME = rf"according to {MAIL}|based on {MAIL}|(?:as )?(?:stated|mentioned|said|written|confirmed) in {MAIL}"
_SAYS = "(?:says?|said|states?|stated|mentions?|mentioned|confirms?|confirmed)"
_LEAD = re.compile(
    rf"(?:(?:{_FRAME}|per {MAIL}) )?(?:{MAIL} {_SAYS} (?:that )?)?"
    r"(?:(?:my )?(?:final |correct |right )?answer (?:to (?:this|that|your|my) question )?(?:is )?"
    r"|(?:it|that|this|these|those|they|there) (?:(?:is|was|are|were|will be) )?)?"
)
_TAIL = re.compile(rf"(?: (?:{_FRAME}))?(?: is (?:my )?(?:final |correct |right )?answer)?\Z")
_NEUTRAL = {
    "word": ("in", "at", "on"), "date": ("on",), "weekday": ("on",), "month": ("in",), "time": ("at",),
    "money": ("at", "for"), "percent": ("at",), "ordinal": ("on", "in"),
}  # fmt: skip
_PREPOSITIONS = frozenset("to in at on of for by with from into under until since about before after".split())  # noqa: SIM905
_DIRECTIONS = frozenset("from by until since before after".split())  # noqa: SIM905
"""Asked until when, `on 5 May` says something else."""
SMALL_WORDS = _PREPOSITIONS.union(_BE, ("do", "does", "did", "will", "s"))
TURNS = frozenset(  # a question with one of these asks for the opposite of what its other words say
    (  # noqa: SIM905
        "not never no without except besides other apart excluding instead rather neither nor nobody none nothing"
        " hardly fail failed refuse refused decline declined deny denied lack lacked lacks"
    ).split()
)
_ENDS = re.compile("stop|ceas|quit|unable|against|reject|forg[eo]t|avoid|prevent")
"""How words begin that turn what others say in any form: who stopped selling has not sold."""
_FILLERS = frozenset((*_BE, *"do does did it they he she we i".split()))  # noqa: SIM905
_AUXILIARIES = (*_BE, *"am do does did has have had will would shall should can could may might must".split())  # noqa: SIM905
WH = frozenset("who whom whose which what when where how why".split())  # noqa: SIM905


def stands_alone(said: list[Token], form: Sequence[Token], asked: Sequence[Token], known: Sequence[Token]) -> bool:
    """Whether the form stands somewhere in the answer, and nothing beside it says anything.

    Args:
        said: the answer.
        form: a way to say the reference.
        asked: the question.
        known: all that the references say: their weekdays may stand beside a date.
    """
    dates = [token.value for token in form if token.kind == "date"]
    if dates:
        named = {token.value for token in known if token.kind == "weekday"}
        named |= {WEEKDAYS[date(*value).weekday()] for value in dates if value[0] and _is_day(value)}
        said = [token for token in said if token.kind != "weekday" or token.value not in named]
    return any(
        at(said, start, form) and _adds_nothing(said[:start], said[start + len(form) :], form[0], asked)
        for start in range(len(said) - len(form) + 1)
    )


def at(said: Sequence[Token], start: int, form: Sequence[Token]) -> bool:
    """Whether the form stands in the answer from `start` on."""
    return all(agrees(one, other) for one, other in zip(said[start : start + len(form)], form, strict=True))


def unframed(before: list[Token], after: list[Token]) -> tuple[list[Token], list[Token]]:
    """Without the frames at the answer's beginning and end."""
    lead = _LEAD.match(" ".join(str(token.value) for token in before) + " ")
    before = before[len(lead[0].split()) if lead else 0 :]
    text = "".join(f" {token.value}" for token in after)
    tail = _TAIL.search(text)
    return before, after[: len(text[: tail.start()].split()) if tail else None]


def stem(token: Token) -> str:
    """A word without its ending, so that `moved` and `move` are one; a value as it is."""
    if token.kind != "word":
        return repr((token.kind, token.value))
    return _stem_of(token.written or str(token.value))


@lru_cache(maxsize=4096)
def _stem_of(written: str) -> str:
    word = written.casefold()
    return re.sub(r"(?:ing|ed|es|s|e)$", "", word) if len(word) > 3 and word not in TURNS else word


def _adds_nothing(before: list[Token], after: list[Token], first: Token, asked: Sequence[Token]) -> bool:
    """Whether what stands before and after a form is a frame or the question's words."""
    before, after = unframed(before, after)
    start = next((place for place, token in enumerate(asked) if token.value in WH), None)
    if [token.value for token in asked[:1]] == ["how"] and [*map(stem, after)] == [*map(stem, asked[2:3])]:
        after = []  # the unit that the question counts in
    last = [token for token in asked if token.kind != "symbol"][-1:]
    ties = _PREPOSITIONS.intersection(t.value for t in last) | _PREPOSITIONS.intersection(
        t.value for t in asked[: start or 0][-1:]
    )
    neutral = ("in",) if _is_asked_year(first, asked) else _NEUTRAL.get(first.kind, ())
    neutral = () if ties & _DIRECTIONS else neutral
    tied = bool(before) and before[-1].value in {*neutral, *ties}
    before = before[:-1] if tied else before
    copula = bool(before) and before[-1].value in _BE
    before = before[:-1] if copula else before
    words = {str(token.value) for token in asked}
    if not before and [token.value for token in after] in (["did"], ["does"], ["do"]) and _asks_for_doer(asked):
        after = []
    if not before and not after:
        return not copula or not words & TURNS
    if first.kind == "yes-no" and not before and start is None:
        return _repeats(after, asked, denies=first.value == "no")
    beside = before or after
    if (before and after) or start is None or not _are_the_questions(beside, words, asked):
        return False
    if _makes_another_name([*([] if copula else before[-1:]), *after[:1]], asked):
        return False
    rest, plain = [*map(stem, beside)], [*map(stem, asked)]
    if after:
        furthest = 3 if asked[start].value in ("which", "what", "whose", "how") else 1
        return any(plain[begin : begin + len(rest)] == rest for begin in range(start, start + furthest + 1))
    if before[-1].value in TURNS:
        return False
    if _has_a_clause(asked, start) and asked[start + 1].value not in _BE and rest[-1:] != [*map(stem, last)]:
        return False
    if copula:
        return _in_order(rest, plain)
    label = rest == plain[start + 1 : start + 1 + len(rest)]  # room 204, hotel Bristol
    if (
        first.kind == "word"
        and first.value not in _PREPOSITIONS
        and not (tied or label or words & {"do", "does", "did"})
    ):
        return False
    left_out = {*_BE, "do", "did"}
    return _in_a_row(
        [word for word in rest if word not in _BE or word not in plain], [w for w in plain if w not in left_out]
    )


def _repeats(after: Sequence[Token], asked: Sequence[Token], *, denies: bool) -> bool:
    """Whether what follows a yes says what was asked, or what follows a no says it with `not`."""
    words = {str(token.value) for token in asked}
    fillers = {*_FILLERS, *(token.value for token in asked[:1])}  # will the plant close: the plant will close
    said = [token for token in after if token.value not in fillers]
    rest = [token for token in said if token.value != "not"]
    agrees_with_it = len(said) - len(rest) == denies and _ends(asked) <= _ends(after)
    return agrees_with_it and not words & {"or", *TURNS} and _in_order([*map(stem, rest)], [*map(stem, asked)])


def _is_asked_year(first: Token, asked: Sequence[Token]) -> bool:
    """Whether a number is a year and asked for as one: not by when, nor since which year."""
    words = [str(token.value) for token in asked]
    asks = words[:1] == ["when"] or words[:2] in (["which", "year"], ["what", "year"])
    is_year = first.kind == "number" and re.fullmatch(r"1[5-9]\d\d|20\d\d", first.written)
    return asks and WH.isdisjoint(words[1:]) and bool(is_year)


def _asks_for_doer(asked: Sequence[Token]) -> bool:
    """Whether `Amy did` answers: who replaced Kelley? Not: whom did, who did not, who will Kelley replace?"""
    words = [str(token.value) for token in asked]
    return words[:1] == ["who"] and not {*words[1:]} & {*TURNS, *_AUXILIARIES, *WH}


def _has_a_clause(asked: Sequence[Token], start: int) -> bool:
    """Whether a clause inside the question has a verb of its own: in `the call that starts at two`."""
    before = {*_AUXILIARIES, *_PREPOSITIONS, *WH}
    inner = zip(asked[start + 1 :], asked[start + 2 :], strict=False)
    return any(one.value not in before and token.value in WH | {"that"} for one, token in inner)


def _are_the_questions(beside: Sequence[Token], words: set[str], asked: Sequence[Token]) -> bool:
    """Whether words of the question may be excused: it gives no choice, they say something, and its `not` is there."""
    names = {token.value for token in asked[1:] if token.named}
    says = any(token.kind == "word" and token.value not in SMALL_WORDS | names for token in beside)
    turned = words & TURNS <= {str(token.value) for token in beside} and _ends(asked) <= _ends(beside)
    return "or" not in words and says and turned


def _ends(some: Iterable[Token]) -> set[str]:
    return {found[0] for token in some if (found := _ENDS.match(str(token.value)))}


def _makes_another_name(beside: Iterable[Token], asked: Sequence[Token]) -> bool:
    """Whether a name, a value or a symbol stands right beside the form, and makes another one of it."""
    named = {token.value for token in asked[1:] if token.named}
    return any(token.kind != "word" or token.value in named for token in beside)


def _in_order(rest: Sequence[str], plain: Sequence[str]) -> bool:
    left = iter(plain)
    return all(word in left for word in rest)


def _in_a_row(rest: Sequence[str], plain: Sequence[str]) -> bool:
    return any(list(plain[start : start + len(rest)]) == list(rest) for start in range(len(plain) - len(rest) + 1))


def _is_day(value: tuple[int, int, int]) -> bool:
    try:
        return bool(date(*value))
    except ValueError:  # 31 June
        return False

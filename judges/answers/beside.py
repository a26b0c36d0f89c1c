"""What may stand beside the reference in an answer: a frame, a preposition that adds nothing, the question's own words.

A frame is of a closed list ("the answer is", "according to the mail"). The question's words count only as the question
has them: in a row up to the reference (`Lotus acquired` of "Whom did Lotus acquire?"), or behind it from the question
word on (`has the lead of Nimbus`), or before an `is` in their order (`the lead of Nimbus is`). They begin with what
is asked for: `Nimbus is` says something else, and so do words of a clause such as `if Nimbus is late`. So roles cannot
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
    r"|(?:it|that|this|these|those|they|he|she|you|we|there) (?:(?:is|was|are|were|will be) )?)?"
)
_TAIL = re.compile(rf"(?: (?:{_FRAME}))?(?: is (?:my )?(?:final |correct |right )?answer)?\Z")
_NEUTRAL = {
    "word": ("in", "at", "on"), "date": ("on",), "weekday": ("on",), "month": ("in",), "time": ("at",),
    "money": ("at", "for"), "percent": ("at",), "ordinal": ("on", "in"),
}  # fmt: skip
_PREPOSITIONS = frozenset("to in at on of for by with from into under until since about before after".split())  # noqa: SIM905
_FURTHER = frozenset("per than between among during without within over under against".split())  # noqa: SIM905
_DIRECTIONS = frozenset("from by until since before after".split())  # noqa: SIM905
"""Asked until when, `on 5 May` says something else."""
SMALL_WORDS = _PREPOSITIONS.union(_BE, ("do", "does", "did", "will", "s"))
TURNS = frozenset(  # a question with one of these asks for the opposite of what its other words say
    (  # noqa: SIM905
        "not never no without except besides other apart excluding instead rather neither nor nobody none nothing"
        " hardly almost nearly barely allegedly"
        " fail failed refuse refused decline declined deny denied lack lacked lacks"
    ).split()
)
_ENDS = re.compile("stop|ceas|quit|unable|against|reject|forg[eo]t|avoid|prevent")
"""How words begin that turn what others say in any form: who stopped selling has not sold."""
_DIFFERENCES = re.compile(
    r"(?:than|more|less|fewer|later|earlier|up|down)\Z|(?:exceed|grow|ris|rais|increas|decreas|reduc|fall|drop|differ)"
)
"""How words begin that ask for a difference: the rent rose by $50, and is another amount."""
_CONJUNCTIONS = frozenset("if unless whether because although though while once after before until since than".split())  # noqa: SIM905
_BEGINNINGS = ("start", "begin", "continue", "finish", "stop", "quit", "keep")
"""What stands before `working` and is no noun."""
_FILLERS = frozenset((*_BE, *"do does did has have had it they he she we i".split()))  # noqa: SIM905
_AUXILIARIES = (*_BE, *"am do does did has have had will would shall should can could may might must".split())  # noqa: SIM905
_NOUNS = frozenset(  # that look like participles
    (  # noqa: SIM905
        "meeting training building morning evening hearing filing closing opening wedding listing offering pricing"
        " billing hiring parking housing heating painting briefing landing boarding warning holding funding spending"
        " testing planning trading during nothing anything something spring string bring"
    ).split()
)
_MODALS = frozenset("will would can could shall should may might must".split())  # noqa: SIM905
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


def cause(some: Sequence[Token], asked: Sequence[Token]) -> int:
    """How many words at the end say no more than that a reason follows, if one is asked for: because of, due to."""
    if "why" not in {token.value for token in asked}:
        return 0
    text = " ".join(str(token.value) for token in some)
    found = re.search(r"(?:^|(?<= ))(?:because(?: of)?|due to|owing to|as result of)\Z", text)
    return len(found[0].split()) if found else 0


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
    word = written.casefold()  # need and exceed have no ending
    return re.sub(r"(?:ing|(?<![cnfp]e)ed|es|s|e)$", "", word) if len(word) > 3 and word not in TURNS else word


def _adds_nothing(before: list[Token], after: list[Token], first: Token, asked: Sequence[Token]) -> bool:
    """Whether what stands before and after a form is a frame or the question's words."""
    before, after = unframed(before, after)
    start = next((place for place, token in enumerate(asked) if token.value in WH), None)
    if [token.value for token in asked[:1]] == ["how"] and [*map(stem, after)] == [*map(stem, asked[2:3])]:
        after = []  # the unit that the question counts in
    ends = (_last(asked[: _clause(asked, start or 0)]), _last(asked), asked[: start or 0][-1:])
    ties = _PREPOSITIONS.intersection(token.value for end in ends for token in end)
    neutral = ("in",) if _is_asked_year(first, asked) else _NEUTRAL.get(first.kind, ())
    neutral = () if ties & _DIRECTIONS else neutral
    reason = cause(before, asked)
    tied = bool(before) and (reason > 0 or before[-1].value in {*neutral, *ties})
    before = before[: -(reason or 1)] if tied else before
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
    if ties & _DIRECTIONS and not tied and asked[start or 0].value != "how":  # the fee was $80: what did it rise from
        return False
    if (before and after) or start is None or not _are_the_questions(beside, words, asked):
        return False
    if _makes_another_name([*([] if copula else before[-1:]), *after[:1]], asked):
        return False
    rest, plain = [*map(stem, beside)], [*map(stem, asked)]
    if after:
        furthest = 3 if asked[start].value in ("which", "what", "how") else 1
        if [token.value for token in asked[start + 2 : start + 3]] == ["of"]:  # how many of the invited guests
            furthest = 2
        return any(plain[begin : begin + len(rest)] == rest for begin in range(start, start + furthest + 1))
    if before[-1].value in TURNS:
        return False
    if not _says_what_is_asked(rest, asked, start):
        return False
    if copula:
        return not _leaves_out_the_verb(rest, asked, start) and _in_order(rest, plain)
    is_label = asked[start].value in ("which", "what", "how")  # room 204, hotel Bristol
    label = is_label and rest == plain[start + 1 : start + 1 + len(rest)]
    if (
        first.kind == "word"
        and first.value not in _PREPOSITIONS
        and not (tied or label or words & {"do", "does", "did"})
    ):
        return False
    modal = next((token.value for token in asked[start + 1 :] if token.value in _MODALS), "")
    if rest.count(modal) == 1:  # when will Amy pay: Amy will pay
        rest.remove(modal)
        plain = [word for word in plain if word != modal]
    left_out = {*_BE, "do", "did"}
    return _in_a_row(
        [word for word in rest if word not in _BE or word not in plain], [w for w in plain if w not in left_out]
    )


def _last(some: Sequence[Token]) -> list[Token]:
    """The last token that is no symbol, if there is one."""
    return [token for token in some if token.kind != "symbol"][-1:]


def _leaves_out_the_verb(rest: Sequence[str], asked: Sequence[Token], start: int) -> bool:
    """Whether `the budget is Anna` answers who approved it, or `the flight was two hours` how long it was delayed."""
    (last,) = _last(asked)
    if asked[start].value == "who":
        return not any(token.value in _AUXILIARIES for token in asked[start + 1 : start + 2])
    return asked[start].value in ("how", "when") and last.written.endswith("ed") and rest[-1] != stem(last)


def _repeats(after: Sequence[Token], asked: Sequence[Token], *, denies: bool) -> bool:
    """Whether what follows a yes says what was asked, or what follows a no says it with `not`."""
    words = {str(token.value) for token in asked}
    fillers = {*_FILLERS, *(token.value for token in asked[:1])}  # will the plant close: the plant will close
    said = [token for token in after if token.value not in fillers]
    rest = [token for token in said if token.value != "not"]
    agrees_with_it = len(said) - len(rest) == denies and _ends(asked) <= _ends(after)
    main = {stem(token) for token in asked[1 : _clause(asked, 0)] if token.value not in fillers}
    stems = {*map(stem, rest)}
    whole = stems <= main or main <= stems  # not the words of a clause alone
    sure = whole and not words & {"or", *TURNS} and all(token.value != "?" for token in after)
    return agrees_with_it and sure and _in_order([*map(stem, rest)], [*map(stem, asked)])


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


def _clause(asked: Sequence[Token], start: int) -> int:
    """Where a clause inside the question begins: at `that` in `the call that starts at two`; at its end without one."""
    no_noun = {*_AUXILIARIES, *_PREPOSITIONS, *WH}
    for place in range(start + 2, len(asked) - 1):
        word, last, then = str(asked[place].value), asked[place - 1], asked[place + 1]
        if word in _CONJUNCTIONS or (word == "when" and then.value not in _AUXILIARIES):
            return place
        behind_noun = last.value not in no_noun and last.kind == "word"
        if behind_noun and (word in WH | {"that"} or _is_participle(asked, place, start)):
            return place
    return len(asked)


def _is_participle(asked: Sequence[Token], place: int, start: int) -> bool:
    """Whether a word says more of the noun before it: the team leaving Houston, the man named in the mail."""
    word, does = str(asked[place].value), {"do", "does", "did"}
    last = asked[place - 1]
    if asked[place].kind != "word" or asked[place].named or last.named or last.value in _BEGINNINGS:
        return False
    if not does & {str(token.value) for token in asked[start:place]}:
        return False
    return bool(re.fullmatch(r"\w{3,}ing", word) and word not in _NOUNS) or (
        word.endswith("ed") and asked[place + 1].value in _PREPOSITIONS
    )


def _says_what_is_asked(rest: Sequence[str], asked: Sequence[Token], start: int) -> bool:
    """Whether words before an answer begin with what is asked for, and not with what explains it."""
    clause = _clause(asked, start)
    words, last = [*map(stem, asked)], [*map(stem, _last(asked))]
    copula = next((n for n in range(start + 1, min(start + 4, clause)) if asked[n].value in _BE), None)
    inner = clause
    if copula is not None:
        inner = next((n for n in range(copula + 2, clause) if asked[n].value in _PREPOSITIONS | _FURTHER), clause)
    elif [token.value for token in asked[start : start + 3 : 2]] == ["how", "of"]:  # how many of the guests
        inner = start + 2
    owner = max((n for n in range(start + 1, inner) if asked[n].value == "'s"), default=start)
    begins = rest[0] in words[owner + 1 : inner] or (stem(asked[owner]) in rest and rest[0] in words[start + 1 : inner])
    if clause == len(asked) or copula is not None or asked[clause].value in _CONJUNCTIONS | {"when"}:
        return begins
    verb = words[clause if asked[clause].value not in WH | {"that"} else clause + 1]
    return rest[-1:] == last and (begins or verb not in rest)


def _are_the_questions(beside: Sequence[Token], words: set[str], asked: Sequence[Token]) -> bool:
    """Whether words of the question may be excused: it gives no choice, they say something, and its `not` is there."""
    names = {token.value for token in asked[1:] if token.named}
    says = any(token.kind == "word" and token.value not in SMALL_WORDS | names for token in beside)
    turned = words & TURNS <= {str(token.value) for token in beside} and _ends(asked) <= _ends(beside)
    differs = "how" not in words or _differences(asked) <= _differences(beside)
    return "or" not in words and says and turned and differs and all(token.value != "?" for token in beside)


def _differences(some: Iterable[Token]) -> set[str]:
    return {found[0] for token in some if (found := _DIFFERENCES.match(str(token.value)))}


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

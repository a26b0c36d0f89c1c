"""Frames around a value: words of an answer that say nothing of their own. Each function here takes one off.

- "the answer is", "according to the mail", and the like;
- the whole question, with the answer in the place of its question word: `Alvero acquired Kelbrook`;
- "it is", "these were", where the question does not ask how much: of "How much was the rent raised?" `it was $50` may
  say another amount;
- a preposition that the question begins or ends with, or that days, times and places have: `on 5 May`. But asked until
  when, `on 5 May` says something else;
- the noun that is asked for (room 204, 370 valves) and the rate of a monthly rent.

Where the question itself compares, ranks, multiplies, offers a choice or asks yes or no, only the first two count.
"""

import re
from collections.abc import Iterator
from itertools import pairwise, takewhile
from typing import Any

from .giving_up import MAIL, YES_NO
from .tokens import POINTS, RATES, Tokens

BE = ("is", "was", "are", "were")
_LEAD = re.compile(
    rf"(?:(?:according to|based on|(?:as )?(?:stated|mentioned|said|written) in|per) {MAIL} )?"
    rf"(?:{MAIL} (?:says?|said|states?|stated|mentions?|mentioned) (?:that )?)?"
    r"(?:(?:my )?(?:final |correct |right )?answer (?:to (?:this|that|your) question )?(?:is )?)?"
)
_TAIL = re.compile(rf"(?: (?:according to|based on|as stated in) {MAIL})?(?: is (?:my )?(?:final |right )?answer)?\Z")
_POINTING = ("it", "that", "this", "they", "these", "those")
PREPOSITIONS = frozenset("to in at on of for by with from into under until since before after".split())  # noqa: SIM905
_DIRECTIONS = frozenset("from by until since before after".split())  # noqa: SIM905
PLACING = frozenset(("at", "on", "in"))
WH = frozenset("who whom whose which what when where how why".split())  # noqa: SIM905
_PRESENT = YES_NO - {"was", "were", "did", "had"}
_COMPARING = re.compile(
    r"than|more|less|fewer|most|least|other|else|twice|double|triple|half|halves|times|difference|or|better|best|worse|worst"
    r"|(?:high|low|larg|small|long|short|cheap|great|bigg|old|young|new|earli|lat|fast|slow|hard|eas|clos|near|tall|deep"
    r"|wid|heavi|light|strong|weak|rich|poor|furth|farth|few|busi)(?:er|est)"
)
SCALED = frozenset("hundred thousand million billion dozen hundreds thousands millions billions dozens".split())  # noqa: SIM905


def _values(some: Tokens) -> list[Any]:
    return [token.value for token in some]


def without_frames(left: Tokens, asked: Tokens) -> Iterator[Tokens]:
    """The tokens, and what is left of them each time that one of its frames was taken off."""
    yield left
    words = _values(asked)
    for frame in _FRAMES[: 2 if compares(asked) else None]:
        rest = frame(left, words)
        if len(rest) < len(left):
            yield (left := rest)


def compares(asked: Tokens) -> bool:
    """Whether a question compares, ranks, multiplies, offers a choice, or asks yes or no."""
    compares = any(token.kind == "ordinal" or _COMPARING.fullmatch(str(token.value)) for token in asked)
    return compares or any(token.value in YES_NO for token in asked[:1])


def _without_saying(left: Tokens, asked: list[Any]) -> Tokens:
    """Without `the answer is` and `according to the mail`."""
    lead = _LEAD.match("".join(f"{value} " for value in _values(left)))
    left = left[len(lead[0].split()) if lead else 0 :]
    text = "".join(f" {value}" for value in _values(left))
    tail = _TAIL.search(text)
    return left[: len(text[: tail.start()].split()) if tail else None]


def _without_question(left: Tokens, asked: list[Any]) -> Tokens:
    """Without the whole question: behind the answer, which stands for who or which company, or turned round an `is`."""
    if not asked or asked[0] not in WH:
        return left
    said, is_which = _values(left), asked[0] in ("how", "which") and asked[1:2] != [] and asked[1] not in BE
    rest = asked[2:] if is_which else asked[1:]
    if rest and said[-len(rest) :] == rest:
        return left[: -len(rest)]
    is_measure = asked[0] == "how" and asked[1:2] != ["much"]  # the train was 20 minutes: late, or under way?
    if len(rest) > 1 and rest[0] in BE and not is_measure and said[: len(rest)] == [*rest[1:], rest[0]]:
        return left[len(rest) :]
    return left


def _without_pointing(left: Tokens, asked: list[Any]) -> Tokens:
    """Without `it is`; `it was` does not say what is."""
    if len(left) < 3 or left[0].value not in _POINTING or left[1].value not in BE or "how" in asked:
        return left
    return left if left[1].value in ("was", "were") and _PRESENT.intersection(asked) else left[2:]


def _without_preposition(left: Tokens, asked: list[Any]) -> Tokens:
    """Without the question's preposition, or one of a day, a time or a place."""
    ties = {*asked[:1], *asked[-1:], *(word for word, then in pairwise(asked) if then in WH)} & PREPOSITIONS
    is_point = all(token.kind in POINTS or token.value in PLACING for token in left)
    if (is_point or ("where" in asked and not ties)) and _DIRECTIONS.isdisjoint(asked):
        ties |= PLACING
    if "why" in asked:
        ties |= {"because"}
    return left[1:] if len(left) > 1 and left[0].value in ties else left


def _without_noun(left: Tokens, asked: list[Any]) -> Tokens:
    """Without the noun that is asked for: the room of `Room 204` and `Green Room`, the valves of `370 valves`."""
    start = next((place for place, word in enumerate(asked) if word in ("which", "what", "many")), len(asked))
    noun = asked[start + 1 : start + 2]
    if noun and noun[0] in BE:
        noun = [*takewhile(lambda word: word not in PREPOSITIONS, asked[start + 2 :])]
    said, count = _values(left), len(noun)
    if not noun or len(left) <= count or not SCALED.isdisjoint(noun):
        return left
    if said[:count] == noun or (noun[1:] == ["number"] and said[:1] == noun[:1]):
        return left[count if said[:count] == noun else 1 :]
    return left[:-count] if said[-count:] == noun and (left[0].kind != "number" or asked[start] == "many") else left


def _without_rate(left: Tokens, asked: list[Any]) -> Tokens:
    """Without the `per month` of a rent that is asked for as monthly."""
    rates = {RATES[word] for word in asked if word in RATES} | {then for word, then in pairwise(asked) if word == "per"}
    return left[:-2] if len(left) > 2 and left[-2].value == "per" and left[-1].value in rates else left


_FRAMES = (
    _without_saying, _without_question, _without_pointing, _without_preposition, _without_noun, _without_rate,
)  # fmt: skip

"""Is this answer right, as far as a rule can tell: right, wrong or undecided. No model, no network.

Answer and reference are read as tokens (`tokens`), so that a date or an amount is the same however it is written. The
answer is right if it is the reference, but for a frame around it. These are the frames; they say nothing of their own:

- "the answer is", "according to the mail", and the like;
- the whole question, with the answer in the place of its question word: `Alvero acquired Kelbrook`;
- "it is", "these were", where the question does not ask how much: of "How much was the rent raised?" `it was $50` may
  say another amount;
- a preposition that the question begins or ends with, or that days, times and places have: `on 5 May`. But asked until
  when, `on 5 May` says something else;
- the noun that is asked for (room 204, 370 valves) and the rate of a monthly rent;
- Mr. and Dr., the weekday beside its date, and the order of a list where none is asked for.

Every other word refutes. So no answer is right that doubts, denies, compares or halves the reference, or names a second
candidate. Where the question itself compares, ranks, multiplies, offers a choice or asks yes or no, only the first two
frames count.

An answer is wrong if it is empty, gives up (`giving_up`), or is another value of the same kind. All else is undecided,
such as another wording. A judge may decide it; without one it earns nothing, since a policy would learn to use what a
rule lets through. A reference that gives up itself decides nothing.

`email_env` marks by this rule, too.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from decimal import Decimal
from enum import StrEnum
from itertools import pairwise, takewhile
from typing import Any

from .giving_up import MAIL, gives_up, speaks_of_not_knowing
from .tokens import AMOUNTS, POINTS, RATES, VALUES, Token, agrees, tokens, weekday

MAX_ANSWER_CHARS = 600
"""A longer answer is undecided, unless it is the reference itself."""
MAX_WORDS = 4
"""A reference with more words of its own is a sentence, which can be said in too many ways for a rule."""

_BE = ("is", "was", "are", "were")
_LEAD = re.compile(
    rf"(?:(?:according to|based on|(?:as )?(?:stated|mentioned|said|written) in|per) {MAIL} )?"
    rf"(?:{MAIL} (?:says?|said|states?|stated|mentions?|mentioned) (?:that )?)?"
    r"(?:(?:my )?(?:final |correct |right )?answer (?:to (?:this|that|your) question )?(?:is )?)?"
)
_TAIL = re.compile(rf"(?: (?:according to|based on|as stated in) {MAIL})?(?: is (?:my )?(?:final |right )?answer)?\Z")
_POINTING = ("it", "that", "this", "they", "these", "those")
_PREPOSITIONS = frozenset("to in at on of for by with from into under until since before after".split())  # noqa: SIM905
_DIRECTIONS = frozenset("from by until since before after".split())  # noqa: SIM905
_PLACING = frozenset(("at", "on", "in"))
_TITLES = frozenset("mr mrs ms miss dr prof sir".split())  # noqa: SIM905
_WH = frozenset("who whom whose which what when where how why".split())  # noqa: SIM905
_PRESENT = frozenset("is are do does has have will would can could should may might must shall".split())  # noqa: SIM905
_YES_NO = _PRESENT | {"was", "were", "did", "had"}
_COMPARING = re.compile(
    r"than|more|less|fewer|most|least|other|else|twice|double|triple|half|halves|times|difference|or|better|best|worse|worst"
    r"|(?:high|low|larg|small|long|short|cheap|great|bigg|old|young|new|earli|lat|fast|slow|hard|eas|clos|near|tall|deep"
    r"|wid|heavi|light|strong|weak|rich|poor|furth|farth|few|busi)(?:er|est)"
)
_ORDERED = frozenset("and next last order ordered then route ranking sequence steps priority from before after".split())  # noqa: SIM905
_SCALED = frozenset("hundred thousand million billion dozen hundreds thousands millions billions dozens".split())  # noqa: SIM905
_ASIDE = re.compile(r"(?<=[\w.%)])\s+[(\[]([^()\[\]]*)[)\]](?!\s*[-\d])")
_LIMITING = re.compile(r"(?i)\b(?:not|no|or|if|unless|except|only|but|without|until|before|after)\b|n't\b|\?")
_CONTRAST = re.compile(r"(?i)(?<=\w)(?:, not|,? (?:rather than|instead of|as opposed to)) ")
_ABOUT = re.compile(r"(?i)^(?:about|approximately|roughly) (?=[$€£¥]?\d)")
_UNSPACED = re.compile(
    "[\u0e01-\u0e5b\u3005-\u3007\u3041-\u30ff\u3400-\u9fff\uac00-\ud7a3\uf900-\ufaff\U00020000-\U0003ffff]"
)

Tokens = Sequence[Token]


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
    if gives_up(answer, question):
        if any(says(answer, text) or speaks_of_not_knowing(text) for text in references):
            return Decision(Verdict.UNDECIDED, "The answer and a reference say that something is not known.")
        return Decision(Verdict.WRONG, "The answer gives up.")
    if "password" in question.casefold():
        return Decision(Verdict.UNDECIDED, "A password must be the same to the letter.")
    asked = [token for token in tokens(question) if token.value != "?"]
    said = [*_without_frames(answer, asked)]
    for reference in references:
        texts = dict.fromkeys((reference, _core(reference)))
        forms = [form for text in texts if not gives_up(text) for form in _without_frames(text, asked)]
        if any(_same(one, form) for one in said for form in forms) or _same_list(answer, reference, asked):
            return Decision(Verdict.RIGHT, f"The answer says {reference!r}.")
    return _refuted(said[-1], [tokens(_core(text)) for text in references], asked)


def says(text: str, answer: str) -> bool:
    """Whether a text, such as a mail, says the answer: the same words in a row, or the same values in any order.

    In Chinese, Japanese, Korean and Thai no blanks separate words: there it is the same characters in a row.
    """
    if _UNSPACED.search(answer):
        wanted = _squeezed(answer)
        before = r"(?<![0-9a-z])" if wanted[0].isascii() else ""
        behind = r"(?![0-9a-z])" if wanted[-1].isascii() else ""
        return re.search(before + re.escape(wanted) + behind, _squeezed(text)) is not None
    said, form = tokens(text), tokens(answer)
    if form and all(token.kind in VALUES for token in form) and len({token.kind for token in form}) == len(form):
        return all(any(agrees(token, other) or agrees(other, token) for other in said) for token in form)
    return any(_agree(said[n : n + len(form)], form) for n in range(len(said) - len(form) + 1))


def is_short_enough(references: Iterable[str], question: str = "") -> bool:
    """Whether a rule can be expected to recognise right answers: a reference gives up, or says little of its own."""
    asked = {*_values(tokens(question)), *_PREPOSITIONS, *_BE, "and", "or"}

    def words(text: str) -> int:
        return sum(token.kind != "symbol" and token.value not in asked for token in tokens(_ASIDE.sub("", text)))

    return any(gives_up(text) or words(text) <= MAX_WORDS for text in references)


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


def _values(some: Tokens) -> list[Any]:
    return [token.value for token in some]


# Frames: each function takes one off, if it is there.


def _without_frames(text: str, asked: Tokens) -> Iterator[Tokens]:
    """The tokens of a text, and what is left of them when its frames are taken off, one after the other."""
    left: Tokens = tokens(text)
    yield left
    for frame in _FRAMES[: 2 if _compares(asked) else None]:
        left = frame(left, _values(asked))
        yield left


def _compares(asked: Tokens) -> bool:
    """Whether a question compares, ranks, multiplies, offers a choice, or asks yes or no."""
    compares = any(token.kind == "ordinal" or _COMPARING.fullmatch(str(token.value)) for token in asked)
    return compares or any(token.value in _YES_NO for token in asked[:1])


def _without_saying(left: Tokens, asked: list[Any]) -> Tokens:
    """Without `the answer is` and `according to the mail`."""
    lead = _LEAD.match("".join(f"{value} " for value in _values(left)))
    left = left[len(lead[0].split()) if lead else 0 :]
    text = "".join(f" {value}" for value in _values(left))
    tail = _TAIL.search(text)
    return left[: len(text[: tail.start()].split()) if tail else None]


def _without_question(left: Tokens, asked: list[Any]) -> Tokens:
    """Without the whole question: behind the answer, which stands for who or which company, or turned round an `is`."""
    if not asked or asked[0] not in _WH:
        return left
    said, is_which = _values(left), asked[0] in ("how", "which") and asked[1:2] != [] and asked[1] not in _BE
    rest = asked[2:] if is_which else asked[1:]
    if rest and said[-len(rest) :] == rest:
        return left[: -len(rest)]
    is_measure = asked[0] == "how" and asked[1:2] != ["much"]  # the train was 20 minutes: late, or under way?
    if len(rest) > 1 and rest[0] in _BE and not is_measure and said[: len(rest)] == [*rest[1:], rest[0]]:
        return left[len(rest) :]
    return left


def _without_pointing(left: Tokens, asked: list[Any]) -> Tokens:
    """Without `it is`; `it was` does not say what is."""
    if len(left) < 3 or left[0].value not in _POINTING or left[1].value not in _BE or "how" in asked:
        return left
    return left if left[1].value in ("was", "were") and _PRESENT.intersection(asked) else left[2:]


def _without_preposition(left: Tokens, asked: list[Any]) -> Tokens:
    """Without the question's preposition, or one of a day, a time or a place."""
    ties = {*asked[:1], *asked[-1:], *(word for word, then in pairwise(asked) if then in _WH)} & _PREPOSITIONS
    is_point = all(token.kind in POINTS or token.value in _PLACING for token in left)
    if (is_point or ("where" in asked and not ties)) and _DIRECTIONS.isdisjoint(asked):
        ties |= _PLACING
    if "why" in asked:
        ties |= {"because"}
    return left[1:] if len(left) > 1 and left[0].value in ties else left


def _without_noun(left: Tokens, asked: list[Any]) -> Tokens:
    """Without the noun that is asked for: the room of `Room 204` and `Green Room`, the valves of `370 valves`."""
    start = next((place for place, word in enumerate(asked) if word in ("which", "what", "many")), len(asked))
    noun = asked[start + 1 : start + 2]
    if noun and noun[0] in _BE:
        noun = [*takewhile(lambda word: word not in _PREPOSITIONS, asked[start + 2 :])]
    values, count = _values(left), len(noun)
    if not noun or len(left) <= count or not _SCALED.isdisjoint(noun):
        return left
    if values[:count] == noun or (noun[1:] == ["number"] and values[:1] == noun[:1]):
        return left[count if values[:count] == noun else 1 :]
    return left[:-count] if values[-count:] == noun and (left[0].kind != "number" or asked[start] == "many") else left


def _without_rate(left: Tokens, asked: list[Any]) -> Tokens:
    """Without the `per month` of a rent that is asked for as monthly."""
    rates = {RATES[word] for word in asked if word in RATES} | {then for word, then in pairwise(asked) if word == "per"}
    return left[:-2] if len(left) > 2 and left[-2].value == "per" and left[-1].value in rates else left


_FRAMES = (
    _without_saying, _without_question, _without_pointing, _without_preposition, _without_noun, _without_rate,
)  # fmt: skip


# What is left of an answer, beside what is left of a reference.


def _agree(said: Tokens, form: Tokens) -> bool:
    return len(said) == len(form) > 0 and all(map(agrees, said, form))


def _same(said: Tokens, form: Tokens) -> bool:
    """Whether the two agree: but for a title, for the weekday of a date, and for the order of a day and its time."""
    (title, said), (known, form) = _titled(said), _titled(form)
    if title and known and title.isdisjoint(known):
        return False
    if any(token.kind == "date" for token in form):
        days = {token.value for token in form if token.kind == "weekday"} | {weekday(token) for token in form}
        said, form = ([token for token in some if token.value not in days] for some in (said, form))
    kinds = [token.kind for token in form if token.value not in _PLACING]
    if {*kinds} <= {*POINTS} and len({*kinds}) == len(kinds):
        said, form = (sorted(_points(some), key=lambda token: token.kind) for some in (said, form))
    return _agree(said, form)


def _points(some: Tokens) -> list[Token]:
    """A day and its time without what joins them: `Friday at 2 pm`."""
    return [token for place, token in enumerate(some) if place == 0 or token.value not in _PLACING]


def _titled(some: Tokens) -> tuple[set[str], Tokens]:
    """The titles before a name, and the rest."""
    count = next((n for n, token in enumerate(some) if token.value not in _TITLES or not token.named), 0)
    if count == 0 or not some[count].named:
        return set(), some
    return {*_values(some[:count])}, some[count:]


def _same_list(answer: str, reference: str, asked: Tokens) -> bool:
    """Whether both name the same things in another order, and the question asks for none."""
    words = _values(asked)
    if not _ORDERED.isdisjoint(words) or len(_WH.intersection(words)) > 1 or _compares(asked):
        return False
    said, known = _items(answer), _items(_core(reference))
    return len(known) > 1 and said == known


def _items(text: str) -> list[tuple[Any, ...]]:
    """The names or single words of a list, sorted; nothing where an item is something else."""
    items = [item for part in re.split(r"[,;\n]|\band\b|&", text) if (item := tokens(part))]
    names = all(token.named for item in items for token in item)
    words = all(len(item) == 1 and item[0].kind == "word" for item in items)
    return sorted(tuple(_values(item)) for item in items) if names or words else []


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
        or not _SCALED.isdisjoint(_values(asked))
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

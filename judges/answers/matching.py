"""Is this answer right, as far as a rule can tell: right, wrong or undecided. No model, no network.

- Right: the answer says the reference, and nothing else is said. Beside it may stand only a frame of a closed list
  ("the answer is"), a preposition that adds nothing, and the question's own words as the question has them (`beside`).
  So no answer is right that doubts, denies, compares or halves the reference, or names a second candidate.
- Wrong: it is empty, gives up, or is another value of the same kind (another date, time, number, amount, weekday).
- Undecided: all else, such as another wording. A judge may decide it; without one it earns nothing, since a policy
  would learn to use what a rule lets through.

`email_env` marks by this rule too: it is all that the environment imports of `judges`.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum
from itertools import permutations

from .beside import SMALL_WORDS, TURNS, WH, at, cause, stands_alone, stem
from .giving_up import gives_up, speaks_of_not_knowing
from .refuting import refutation
from .respelled import respelled
from .token import POINTS, RATES, VALUES, Token, agrees, undashed
from .values import tokens

MAX_ANSWER_CHARS = 600
"""A longer answer is undecided, unless it is the reference itself."""

_ABOUT = frozenset("approximately about around roughly circa approx".split())  # noqa: SIM905
_TITLES = frozenset("mr mrs ms miss dr prof".split())  # noqa: SIM905
_ORDERED = frozenset(  # a question with one of these may want a list in its order
    (  # noqa: SIM905
        "and first last next order ordered then respectively route rank ranked ranking sequence itinerary step steps"
        " priority priorities top agenda score from before after"
    ).split()
)
_BESIDES = re.compile(r"^\s*(?:besides|apart from|other than|except for|aside from) [^,]+,", re.IGNORECASE)
_ADDRESS = re.compile(r"\s*[<(\[]([\w.+-]+)@[\w-]+(?:\.[\w-]+)+[>)\]]")
_JOINING = ("at", "on", "in")
_STRAIGHT = str.maketrans("‘’“”", "''\"\"")
_QUOTED = re.compile(r"(?<!\w)([\"'])(.*?)\1", re.DOTALL)
_UNSPACED = re.compile(
    "[\u0e01-\u0e5b\u3005-\u3007\u3041-\u30ff\u3400-\u9fff\uac00-\ud7a3\uf900-\ufaff\U00020000-\U0003ffff]"
)
_LENGTH = re.compile(r"(?<=\d)[\"'](?![^\W\d])")
_CONTRAST = re.compile(r"(?<=\w)(?:, not|,? (?:rather than|instead of|as opposed to)) ", re.IGNORECASE)


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
        if any(map(gives_up, references)):
            return Decision(Verdict.RIGHT, "The answer gives up, as the reference does.")
        if not any(says(answer, text) or speaks_of_not_knowing(text) for text in references):
            return Decision(Verdict.WRONG, "The answer gives up.")
        return Decision(Verdict.UNDECIDED, "The answer and a reference say that something is not known.")
    if "password" in question.casefold():
        return Decision(Verdict.UNDECIDED, "A password must be the same to the letter.")
    asked, said = tokens(_BESIDES.sub("", question)), tokens(answer)
    known = [token for text in references for token in tokens(text)]
    for reference in references:
        if any(one != other for one, other in zip(_lengths(answer), _lengths(reference), strict=False)):
            continue
        titles = _titles(tokens(reference))
        if titles and _titles(said) and titles.isdisjoint(_titles(said)):  # Mr and Mrs Keller are two
            continue
        for form in _forms(reference, question, asked, known):
            versions = list(_versions(answer, said, form))
            if any(
                stands_alone(version, form, asked, known)
                or stands_alone(undashed(version), undashed(form), asked, known)
                for version in versions
            ):
                return Decision(Verdict.RIGHT, f"The answer says {reference!r}.")
    why = refutation(said, [tokens(_core(text)) for text in references], asked)
    return Decision(Verdict.WRONG, why) if why else Decision(Verdict.UNDECIDED, "The rule cannot say.")


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
    pairs = ((said, form), (undashed(said), undashed(form)))
    return bool(form) and any(at(one, n, other) for one, other in pairs for n in range(len(one) - len(other) + 1))


def _titles(some: Iterable[Token]) -> set[str]:
    return {token.value for token in some if token.value in _TITLES and token.named}


def _squeezed(text: str) -> str:
    """The text without blanks, in letters and digits of the usual width."""
    return "".join(unicodedata.normalize("NFKC", text).split()).casefold()


def _folded(text: str) -> str:
    """On one line, without a full stop at its end and without the quotes around it."""
    text = " ".join(text.split()).rstrip(" .")
    while len(text) > 1 and text[0] == text[-1] and text[0] in "\"'" and text[0] not in text[1:-1]:
        text = text[1:-1].strip().rstrip(" .")
    return text


def _lengths(text: str) -> list[str]:
    """The marks of feet and inches of a text. They are no tokens: most quotes behind a number end what is quoted."""
    straight = text.translate(_STRAIGHT).replace("''", '"')
    return _LENGTH.findall(_QUOTED.sub(r"\2", straight))


def _core(reference: str) -> str:
    """The reference without what explains it: a parenthesis behind it, and what it is not."""
    text = re.sub(r"(?<=[\w.%)])\s+[(\[][^()\[\]]*[)\]](?!\s*[-\d])", "", reference)
    return _CONTRAST.split(text)[0]


def _forms(reference: str, question: str, asked: Sequence[Token], known: Sequence[Token]) -> Iterator[list[Token]]:
    """The ways to say a reference that need no understanding."""
    core = _core(reference)
    for text in dict.fromkeys((reference, core, _CONTRAST.split(reference)[0], *respelled(core, question))):
        form = [_most_specific(token, known) for token in tokens(text)]
        if any(token.kind == "date" for token in form):  # a weekday beside a date adds nothing that must be said
            form = [token for token in form if token.kind != "weekday"]
        if not any(token.kind != "symbol" for token in form):
            continue
        yield form
        if len(form) > 1 and form[0].value in _ABOUT and form[1].kind in VALUES:
            form = form[1:]
            yield form
            yield from ([Token("word", word), *form] for word in _ABOUT)
        if len(form) > 1 and (form[0].value in _TITLES or form[0].value in _JOINING):
            yield form[1:]
        reason = next((n for n in (1, 2, 3) if cause(form[:n], asked) == n < len(form)), 0)
        if reason:
            yield form[max(reason, cause(form[: reason + 1], asked)) :]
        if any(token.value == "whose" for token in asked):
            owner = Token("symbol", "'s", "'s")
            yield form[:-1] if form[-1] == owner else [*form, owner]
        short = _without_asked(form, asked)
        if short != form:
            yield short
        yield from _bare_points(form)
    yield from _orders(core, asked)


def _without_asked(form: list[Token], asked: Sequence[Token]) -> list[Token]:
    """Without the common words at its ends that the question says: `Room 204` asked for a room is `204`."""
    common = {stem(token) for token in asked if token.kind == "word" and not token.named} - TURNS
    common |= {RATES[word] for token in asked if (word := str(token.value)) in RATES}

    def said(token: Token) -> bool:
        return token.kind == "word" and stem(token) in common and token.value not in SMALL_WORDS

    start, end = 0, len(form)
    if any(token.value == "or" for token in asked):  # how many hours or days
        return form
    while end - start > 1 and said(form[end - 1]):
        end -= 2 if form[end - 2].value == "per" and end - start > 2 else 1
    while end - start > 1 and said(form[start]):
        start += 1
    short = form[start:end]
    if any(
        token.kind in VALUES or (token.kind == "word" and token.value not in SMALL_WORDS and not said(token))
        for token in short
    ):
        return short
    return form


def _bare_points(form: Sequence[Token]) -> Iterator[list[Token]]:
    """A day and its time in any order, without what joins them: `Friday at 2 pm` is `2 pm on Friday`."""
    points = [token for token in form if token.value not in _JOINING]
    kinds = [token.kind for token in points]
    if len(points) > 1 and {*kinds} <= {*POINTS} and len({*kinds}) == len(kinds):
        yield from map(list, permutations(points))


def _orders(core: str, asked: Sequence[Token]) -> Iterator[list[Token]]:
    """A list of names in any order, unless the question says an order."""
    words = [token.value for token in asked]
    if _ORDERED.intersection(words) or sum(word in WH for word in words) > 1 or "respectively" in core:
        return
    items = [list(tokens(item)) for item in re.split(r"[,;\n]|\band\b|&", core)]
    items = [item for item in items if item]
    names = all(token.named for item in items for token in item)
    words = all(len(item) == 1 and item[0].kind == "word" for item in items)
    if 2 <= len(items) <= 4 and (names or words):
        for order in permutations(items):
            yield [token for item in order for token in item]
            yield [token for item in order[:-1] for token in item] + [Token("word", "and", "and"), *order[-1]]


def _versions(answer: str, said: Sequence[Token], form: Sequence[Token]) -> Iterator[list[Token]]:
    """The answer, and where it is a name written `Keller, Anna`, the name turned round."""
    yield list(said)
    if len(form) > 1 and all(token.kind in POINTS for token in form):
        before, after = [None, *said[:-1]], [*said[1:], None]
        yield [
            token
            for last, token, then in zip(before, said, after, strict=True)
            if token.value not in _JOINING or not (last and then and {last.kind, then.kind} <= {*POINTS})
        ]
    turned = re.fullmatch(r"\s*([^\W\d_][\w'-]*), ([^\W\d_][\w'-]*)\.?\s*", answer)
    if turned and len(form) == 2 and all(token.named for token in form):
        yield list(tokens(f"{turned[2]} {turned[1]}"))
    if "@" in answer:  # as the mail has it: Anna Keller <anna.keller@x.com>
        plain = _ADDRESS.sub(lambda match: " " if _is_address_of(match[1], form) else match[0], answer)
        if plain.strip() and plain != answer:
            yield list(tokens(plain))
    if form[0].named and form[0].value not in _TITLES:
        yield [token for token in said if token.value not in _TITLES or not token.named]


def _is_address_of(local: str, form: Iterable[Token]) -> bool:
    """Whether what stands before the @ is made of a name's words: anna.keller, a.keller and akeller of Anna Keller."""
    words = [str(token.value) for token in form if token.named]
    parts = re.findall(r"[^\W\d_]+", local.casefold())
    return all(any(word.startswith(part) or part.endswith(word) for word in words) for part in parts) and bool(parts)


def _most_specific(token: Token, known: Iterable[Token]) -> Token:
    """Of a date without a year, or a time without its half of the day, the known one that has it."""
    if token.kind not in ("date", "time"):
        return token
    return next((other for other in known if other.value != token.value and agrees(token, other)), token)

"""Is this answer right? Decided by rule, without a model: the same answer gets the same verdict everywhere.

An answer is right if it says one of the accepted answers: as the same words, whatever their case,
punctuation, articles and currency sign, or the same date, time, weekday or number, however written (`March 5,
2024`, `2024-03-05`; `2:30 pm`, `14:30`). It may say so in a sentence. It may not fish: an answer that is much
longer than the accepted one, names a second candidate, or denies what it says is wrong. The rules are strict
where a doubt remains, since a policy would learn to use what they let through; what a sentence means is for
an LLM judge.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from email_env.values import Token, agrees, specific, tokens

MAX_ANSWER_CHARS = 600
_LENGTH_FACTOR = 3
_SPARE_TOKENS = 12
_DENIALS = frozenset({"not", "never", "isn", "wasn", "cannot", "neither", "nor", "without", "except"})
_HEDGES = frozenset({"or", "either", "maybe", "perhaps", "possibly", "alternatively"})
_FILLERS = frozenset(
    "yes sure ok okay answer final according based per as mail mails email emails message messages thread note notice"  # noqa: SIM905
    " latest update updated current currently confirmed stated mentioned said says see found source sources which who"
    " that it is was".split()
)
_SEPARATORS = re.compile(r"[;/|\n]|,(?!\d{3})|\b(?:and|but)\b|&", re.IGNORECASE)
_FIND = "(?:find|found|locate|located|determine|determined|answer|answered)"
_GIVEN = "(?:mentioned|stated|specified|given|available|found|known|provided)"
_TELL = "(?:say|mention|contain|state|specify)"
_NOTHING = "(?:information|info|answer|mention|records?|evidence|details|e?mails?)"
_DONT_KNOW = re.compile(  # over words without punctuation: "don't" is "don t"
    rf"\bi (?:really )?(?:do not|don t|did not|didn t|cannot|can t) (?:know|say|tell)\b"
    rf"|\b(?:not able|unable) to\b|\b(?:not |un)(?:certain|sure)\b"
    rf"|\b(?:could not|couldn t|cannot|can not|can t|did not|didn t) (?:be )?{_FIND}\b"
    rf"|\bno (?:such )?{_NOTHING}\b"
    rf"|\b(?:(?:is|was|are|were) (?:not|nowhere)|(?:isn|wasn|aren|weren) t) {_GIVEN}\b"
    rf"|\b(?:(?:does|do|did) not|(?:doesn|don|didn) t) {_TELL}\b"
)
_DONT_KNOW_WHOLE = frozenset(
    ("unknown", "not known", "none", "n a", "na", "not found", "not available", "not mentioned", "no idea")
)


def is_right(answer: str, accepted: Sequence[str], question: str = "") -> bool:
    """Whether `answer` says one of the `accepted` answers, and only that.

    Args:
        answer: what the agent said.
        accepted: the reference answer first, then other right forms. A form that is a part of the reference
            ("Anna" of "Anna Keller") counts only as the whole answer.
        question: what was asked. What it names itself is no second candidate.
    """
    if len(answer) > MAX_ANSWER_CHARS:
        return False
    said = tokens(answer)
    given = [form for text in accepted if (form := tokens(text))]
    known = specific(token for form in given for token in form)
    if not said or _other_currency(said, known):
        return False
    forms = [_without_weekday([_most_specific(token, known) for token in form]) for form in given]
    if any(_as_string(said) == _as_string(form) for form in (*given, *forms)):
        return True
    if is_dont_know(answer):
        return False
    asked = tokens(question)
    wholes = [form for form in forms if len(form) >= len(forms[0]) or not set(form) <= set(forms[0])]
    return any(_says(said, form) and not _fishes(answer, said, form, known, asked) for form in wholes)


def is_dont_know(answer: str) -> bool:
    """Whether the answer says that the mailbox does not tell."""
    words = " ".join(re.findall(r"[a-z]+", answer.casefold().replace("’", "'")))
    return words in _DONT_KNOW_WHOLE or bool(_DONT_KNOW.search(words))


def says(text: str, answer: str) -> bool:
    """Whether a text, such as a mail, says the answer: the same words in a row, or the same values."""
    form = tokens(answer)
    return bool(form) and _says(tokens(text), form)


def _says(said: Sequence[Token], form: Sequence[Token]) -> bool:
    """Whether the form stands in the answer."""
    return _find(_content(said), _content(form)) is not None


def _find(content: Sequence[Token], form: Sequence[Token]) -> int | None:
    """Where the form stands in the answer word for word; 0 where it is values alone and each is there, in any order."""
    if not form:
        return None
    if _all_values(form) and len({token.kind for token in form}) == len(form):
        return 0 if all(any(agrees(token, other) for other in content) for token in form) else None
    starts = range(len(content) - len(form) + 1)
    return next((s for s in starts if all(map(agrees, content[s : s + len(form)], form))), None)


def _fishes(
    answer: str, said: Sequence[Token], form: Sequence[Token], known: Sequence[Token], asked: Sequence[Token]
) -> bool:
    """Whether an answer that says the form is too long, denies or doubts it, or names something else as well."""
    if len(said) > _LENGTH_FACTOR * len(form) + _SPARE_TOKENS:
        return True
    if _HEDGES.intersection(token.value for token in said).difference(token.value for token in known):
        return True
    # Where the question names the right answer, it names the wrong ones as well, and excuses none.
    excused = known if set(form) <= set(asked) else [*known, *asked]
    kinds = {token.kind for token in form} | {token.kind for token in known if token.kind in ("date", "weekday")}
    kinds.discard("word")
    if any(token.kind in kinds and not any(agrees(token, other) for other in excused) for token in said):
        return True
    if _all_values(form):
        return bool(_DENIALS.intersection(token.value for token in said))
    return _is_spoilt(_content(said), _content(form), excused, asked) or any(
        _is_candidate(part, form, excused) for part in _SEPARATORS.split(answer)
    )


def _is_spoilt(
    content: Sequence[Token], form: Sequence[Token], excused: Sequence[Token], asked: Sequence[Token]
) -> bool:
    """Whether the words beside the form deny it or make another name of it ("Anna Keller Smith", "Lisbon Oslo")."""
    start = _find(content, form)
    assert start is not None, "the answer says the form"
    if _DENIALS.intersection(token.value for token in content[max(0, start - 3) : start]):
        return True
    end = start + len(form)
    beside = [*content[max(0, start - 1) : start], *content[end : end + 1]]
    if start == 1 and beside[0] not in asked:  # the first word of an answer has a capital anyhow
        del beside[0]
    return any(token in form or (token.named and token not in excused) for token in beside)


def _is_candidate(part: str, form: Sequence[Token], excused: Sequence[Token]) -> bool:
    """Whether a part of the answer could stand for another answer: as short as one, with a word not yet named."""
    said = tokens(part)
    words = [token for token in said if token.kind in ("word", "code", "number")]
    if len(words) > len(form) + 1 or _FILLERS.intersection(token.value for token in words) or _says(said, form):
        return False
    return any(word not in excused for word in words)


def _other_currency(said: Sequence[Token], known: Sequence[Token]) -> bool:
    currencies = [token for token in known if token.kind == "currency"]
    return bool(currencies) and any(token.kind == "currency" and token not in currencies for token in said)


def _content(said: Sequence[Token]) -> list[Token]:
    return [token for token in said if token.kind != "currency"]


def _as_string(form: Sequence[Token]) -> str:
    """The form as one string, so that `KX-12`, `KX 12` and `KX12` are equal."""
    return "".join(str(token.value) for token in _content(form))


def _without_weekday(form: list[Token]) -> list[Token]:
    """A weekday beside a date adds nothing that must be said."""
    dated = any(token.kind == "date" for token in form)
    return [token for token in form if token.kind != "weekday"] if dated else form


def _most_specific(token: Token, known: Iterable[Token]) -> Token:
    return next((other for other in known if agrees(token, other)), token)


def _all_values(form: Sequence[Token]) -> bool:
    return all(token.kind != "word" for token in form)

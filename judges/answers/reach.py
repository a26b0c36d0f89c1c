"""Can a rule ever recognise a right answer? It can where a reference is a value, a name or a few words.

A sentence can be said in too many ways: an answer in other words is right, and the rule leaves it undecided. So the
parts of a reference are counted. A value (a date, an amount), a name of any length and any other word is a part. What
stands in parentheses is none, nor are the question's own words and words such as "in" and "and". A reference that says
itself that nothing is known is within reach, too.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from .beside import SMALL_WORDS, stem
from .giving_up import gives_up
from .values import tokens

MAX_PARTS = 3
"""A reference of more parts is a sentence. Of the bundled questions' none has more."""

_ASIDE = re.compile(r"\([^()]*\)|\[[^\[\]]*\]")
_JOINING = SMALL_WORDS | {"and", "or", "it", "this", "that", "there"}


def within_reach(references: Iterable[str], question: str = "") -> bool:
    """Whether a rule can be expected to recognise right answers."""
    return any(gives_up(text) or parts(text, question) <= MAX_PARTS for text in references)


def parts(reference: str, question: str = "") -> int:
    """How many choices of wording a reference has."""
    asked = {stem(token) for token in tokens(question)}
    count, in_name = 0, False
    for token in tokens(_ASIDE.sub(" ", reference)):
        if token.kind == "symbol" or token.value in _JOINING or stem(token) in asked:
            in_name = False
            continue
        count += not (token.named and in_name)
        in_name = token.named
    return count

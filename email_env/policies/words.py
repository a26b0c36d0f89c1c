"""What a question is about, and what its answer looks like in a mail: both by rules."""

import re

from email_env.scenarios.scenario import DONT_KNOW
from email_env.search.cjk import pairs
from email_env.tools.prompts import question_again

_WORD = re.compile(r"[^\W_]+(?:['’&-][^\W_]+)*")
_STOP_WORDS = frozenset(
    "a about after all also am an and any are as at be been before but by can could day did do does during"  # noqa: SIM905
    " each find for from get give had has have he her him his how i if in into is it its just kind long many"
    " may me most much must my name no not of off on one or our out over please said say see set she should so"
    " some such take tell than that the their them then there these they this those to up use used was we were"
    " what when where which who whom whose why will with would you your".split()
)
_MONTHS = "January|February|March|April|May|June|July|August|September|October|November|December"
_DATE = rf"\b\d{{1,2}} (?:{_MONTHS})(?: \d{{4}})?|\b(?:{_MONTHS}) \d{{1,2}}(?:, \d{{4}})?"
_WEEKDAY = r"\b(?:Mon|Tues|Wednes|Thurs|Fri|Satur|Sun)day\b"
_NAME = r"\b[A-Z][a-z]+ [A-Z][a-z]+\b"
_GREETING = re.compile(r"\A(?:\S+[ \t]+){0,4}\S*,[ \t]*\n")
# What a question asks for, and how that looks in a mail; the first that fits is taken.
_ANSWER_FORMS = (
    (r"\bweekday|(?:which|what) day of\b", _WEEKDAY),
    (r"\bwhat time|\bwhat hour|o'clock\b", r"\b\d{1,2}[:.]\d{2}\b(?: ?[ap]m)?"),
    (r"\bwhen|\bdate|\bwhat day|\bwhich day|\bdue\b", _DATE),
    (r"\bhow much|cost|price|amount|budget|\bpay|\bpaid", r"[$€£] ?\d[\d,.]*\d"),
    (r"\broom\b", r"\bRoom \d+|\b[A-Z][a-z]+ Room\b"),
    (r"\bwho|\bwhom|\bname\b", _NAME),
    (r"\bcode|number|\bid\b|reference|ticket", r"\b[A-Z]+-?\d[\w-]*|\b\d{3,}[\d-]*\b"),
    (r"\bhow many\b", r"\b\d+\b"),
    (r"\bwhere|city|town|place\b", r"(?<=\bin )[A-Z][a-z]+|(?<=\bto )[A-Z][a-z]+|(?<=\bat )[A-Z][a-z]+"),
)


def content_words(text: str) -> list[str]:
    """The words of a text that say something, each once, in their order; of Chinese every two characters."""
    found = [part for word in _WORD.findall(text) for part in (pairs(word) if not word.isascii() else [word])]
    words = [word for word in found if word.casefold() not in _STOP_WORDS and len(word) > 1]
    return list(dict.fromkeys(words))


def telling_words(question: str) -> list[str]:
    """The content words of a question, names and numbers first, then long words before short ones."""
    first = _WORD.search(question)
    opening = first[0] if first else ""

    def plainness(word: str) -> tuple[bool, int]:
        capital_only = word == opening and not any(map(str.isdigit, word))
        return capital_only or not is_name(word), -len(word)

    return sorted(content_words(question), key=plainness)


def is_name(words: str) -> bool:
    """Whether a word or phrase looks like a name or a number."""
    return words[0].isupper() or any(map(str.isdigit, words))


def answer_span(question: str, email: str) -> str:
    """The first span of a mail that looks like what the question asks for, else the sentence nearest to it.

    Whom a first line greets (at most five words and a comma) is no answer.
    """
    body = _GREETING.sub("", email.partition("\n\n")[2].removesuffix(question_again(question)))
    for asked, form in _ANSWER_FORMS:
        if re.search(asked, question, re.IGNORECASE):
            spans = (match[0] for match in re.finditer(form, body))
            if span := next((span for span in spans if span.casefold() not in question.casefold()), None):
                return span
    wanted = {word.casefold() for word in content_words(question)}
    sentences = re.split(r"(?<=[.!?])\s+|(?<=[。！？])|\n+", body)
    nearest = max(sentences, key=lambda sentence: len(wanted.intersection(map(str.casefold, content_words(sentence)))))
    return nearest.strip()[:200] or DONT_KNOW

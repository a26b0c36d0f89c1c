"""Does a text say that the answer is not known? Only if nothing in it could be an answer ("I don't know, 5 pm?")."""

import re

from .tokens import Tokens

MAIL = r"(?:(?:this|that|your|my|an) )?(?:e ?)?(?:mails?|messages?|threads?|inbox|mailbox)"
YES_NO = frozenset(
    "is are do does has have will would can could should may might must shall was were did had".split()  # noqa: SIM905
)
"""What a question that is answered by yes or no begins with."""
_MAX_TOKENS = 300
"""A longer text says something."""
_GIVEN = "(?:mentioned|stated|specified|given|available|found|known|provided|included|listed|contained|indicated)"
_TOLD = "(?:say|mention|contain|state|specify|tell|include|provide|give|indicate)"
_FIND = "(?:find|locate|determine|answer)"
_GIVES_UP = re.compile(
    rf"\b(?:i|we) (?:really |still )?(?:do not|did not|can not|could not) (?:{_FIND}|know|say|tell|see)\b"
    r"|\b(?:i|we) (?:am|was|are|were) (?:not able|unable) to\b"
    r"|\b(?:i am|im) (?:not |un)(?:sure|certain|able)\b"
    r"|^(?:sorry )?(?:not able|unable) to\b"
    r"|^(?:not |un)(?:sure|certain|known|available)$"
    r"|^(?:do not know|no idea|no answer|n a|na)$"
    rf"|^(?:sorry )?(?:could not|can not|did not) (?:{_FIND}|be {_GIVEN}|be determined|be answered)\b"
    rf"|^not {_GIVEN}$"
)
_NOT_THERE = re.compile(
    rf"\b(?:is|was|are|were) (?:not|nowhere) {_GIVEN}\b"
    rf"|\b(?:can|could) not be (?:{_GIVEN}|determined|answered)\b"
    rf"|\bno (?:such )?(?:information|info|answer|mention|records?|evidence|details?|{MAIL})\b"
    rf"|\bis unknown\b|\b{MAIL} (?:do|does|did) not {_TOLD}\b"
)
_IDLE = frozenset(  # what names nothing that could be an answer
    (  # noqa: SIM905
        "a i we am is was are were be been it this that these any anything about on in of to for from with by at and or"
        " but so no not such there do does did can could have has had been really still sorry unfortunately however"
        " after since based my your our their his her mail mails email emails e message messages thread threads inbox"
        " mailbox search searches searching searched looking looked read found find finding know known say tell locate"
        " determine answer answered answering question information info mention mentioned record records evidence"
        " detail details able unable sure certain unknown uncertain unsure nowhere idea im n na stated specified given"
        " available provided included listed contained indicated determined see contain state specify include provide"
        " give indicate relevant related matching specific exact which what who when where date day time number code"
        " name amount price place"
    ).split()
)


def gives_up(said: Tokens, asked: Tokens = ()) -> bool:
    """Whether a text says that the answer is not known, and nothing that could be an answer."""
    words, is_yes_no = _plain(said), bool(asked) and asked[0].value in YES_NO
    if len(said) > _MAX_TOKENS or not (_GIVES_UP.search(words) or (not is_yes_no and _NOT_THERE.search(words))):
        return False
    others = [token for token in said if token.kind not in ("word", "yes-no") and token.value != "/"]
    return all(token in asked for token in others) and (_IDLE | {*_plain(asked).split()}).issuperset(words.split())


def speaks_of_not_knowing(said: Tokens) -> bool:
    """Whether a text says of anything that it is not known: "did not find any records" may be an answer."""
    words = _plain(said)
    return bool(_GIVES_UP.search(words) or _NOT_THERE.search(words) or " not find " in words)


def _plain(said: Tokens) -> str:
    """The words of a text without articles and punctuation, in lower case."""
    return " ".join(str(token.value) for token in said if token.kind in ("word", "yes-no"))

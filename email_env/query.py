"""What a search's arguments may be, checked and put into the form the database asks in.

Every function raises `ToolInputError` with a text that the model can act on. The limits bound what one query costs.
"""

from __future__ import annotations

import re
import reprlib
import unicodedata
from collections.abc import Sequence
from datetime import date

from email_env.errors import ToolInputError

MAX_KEYWORDS = 12
MAX_KEYWORD_CHARS = 80
MAX_SEARCH_WORDS = 24
MAX_RESULTS = 10
MAX_SNIPPET_WORDS = 64

_ISO_DATE = re.compile(r"\d{4}-\d{2}-\d{2}", re.ASCII)
_JOINED = {"all": " AND ", "any": " OR "}
_REPR = reprlib.Repr()
_REPR.maxstring = _REPR.maxother = _REPR.maxlong = 60


def match_words(keywords: Sequence[str], match: str = "all") -> str:
    """The keywords as quoted FTS phrases, all required or ("any") at least one."""
    if match not in _JOINED:
        raise ToolInputError(f'match must be "all" or "any", got {shown(match)}.')
    if isinstance(keywords, str):
        keywords = [keywords]
    if not isinstance(keywords, list | tuple) or not keywords:
        raise ToolInputError(f'keywords must be a list of words or phrases, e.g. ["budget"]; got {shown(keywords)}.')
    if len(keywords) > MAX_KEYWORDS:
        raise ToolInputError(f"At most {MAX_KEYWORDS} keywords, got {len(keywords)}. Use the few most telling words.")
    phrases: list[str] = []
    words = 0
    for keyword in keywords:
        if not isinstance(keyword, str):
            raise ToolInputError(f"Each keyword must be a string, got {shown(keyword)}.")
        if len(keyword) > MAX_KEYWORD_CHARS:
            raise ToolInputError(
                f"A keyword may have {MAX_KEYWORD_CHARS} characters, got {len(keyword)}: {shown(keyword)}."
                " Use single words or short phrases."
            )
        if not storable(keyword):
            raise ToolInputError(f"Keyword {shown(keyword)} holds characters that no mail has. Use plain words.")
        in_word = [unicodedata.category(char)[0] in "LN" for char in keyword]
        if not any(in_word):
            raise ToolInputError(f"Keyword {shown(keyword)} has no letters or digits. Use words from the mail.")
        words += sum(now and not before for before, now in zip([False, *in_word], in_word, strict=False))
        phrases.append('"' + keyword.replace('"', '""') + '"')
    if words > MAX_SEARCH_WORDS:
        raise ToolInputError(f"At most {MAX_SEARCH_WORDS} words over all keywords, got {words}. Use fewer.")
    return _JOINED[match].join(phrases)


def address(value: str, name: str) -> str:
    """An email address in lower case, without angle brackets."""
    if not isinstance(value, str) or "@" not in value or not storable(value):
        raise ToolInputError(
            f"{name} must be an email address such as anna.keller@example.com, got {shown(value)}."
            " Put a person's name into keywords instead."
        )
    return value.strip().removeprefix("<").removesuffix(">").strip().lower()


def iso_day(value: str, name: str) -> str:
    """A day as `YYYY-MM-DD`."""
    day = value.strip() if isinstance(value, str) else ""
    try:
        return date.fromisoformat(day if _ISO_DATE.fullmatch(day) else "").isoformat()
    except ValueError:
        raise ToolInputError(f"{name} must be a date like 2001-05-14, got {shown(value)}.") from None


def whole_number(value: int, name: str, most: int) -> int:
    """A whole number from 1 to `most`."""
    if isinstance(value, bool) or not isinstance(value, int) or not 1 <= value <= most:
        raise ToolInputError(f"{name} must be a whole number from 1 to {most}, got {shown(value)}.")
    return value


def storable(text: str) -> bool:
    """Whether SQLite can hold the text: no NUL, no half of a surrogate pair."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return "\x00" not in text


def shown(value: object) -> str:
    """The value for an error message: short, printable, whatever it is."""
    try:
        return _REPR.repr(value)
    except (ValueError, RecursionError):  # a number of thousands of digits
        return f"a huge {type(value).__name__}"

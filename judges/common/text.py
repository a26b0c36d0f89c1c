"""Hygiene of text that others wrote: no control characters, nothing unseen, whole characters, short quotes."""

import re
import reprlib

UNSEEN = r"\xad\u034f\u200b\u200e\u200f\u202a-\u202e\u2060-\u2069\ufeff"
"""Characters that nobody sees, as a set of a regular expression: soft hyphens, blanks of no width, directions. Joiners
are none of them: Persian and emoji need them."""

_CONTROL = re.compile(f"[\\x00-\\x08\\x0b\\x0c\\x0e-\\x1f\\x7f-\\x9f\\ud800-\\udfff{UNSEEN}]")
_INVISIBLE = re.compile(f"[{UNSEEN}]")
_REPR = reprlib.Repr()
_REPR.maxstring = _REPR.maxother = _REPR.maxlong = 60


def without_controls(text: str) -> str:
    """Text without control characters, halves of characters and what nobody sees; tabs and line ends stay."""
    return _CONTROL.sub("", text)


def for_terminal(text: str) -> str:
    """The text as a terminal may show it: what a model or a mail wrote must not steer the terminal."""
    return without_controls(text).replace("\r", "")


def one_line(text: str) -> str:
    """Text without control characters, with every run of white space as one blank."""
    return " ".join(_CONTROL.sub(" ", _INVISIBLE.sub("", text)).split())


def unix_lines(text: str) -> str:
    """Text with `\\n` line ends and without blank lines around it."""
    if "\r" in text:
        text = text.replace("\r\n", "\n").replace("\r", "\n")
    return text.strip("\n \t")


def is_utf8(text: str) -> bool:
    """Whether the text can be written as UTF-8, that is, holds no half of a surrogate pair."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def as_utf8(text: str) -> str:
    """The text with a question mark for each half of a surrogate pair: JSON can spell one, no tokenizer reads it."""
    return text.encode(errors="replace").decode()


def shown(value: object) -> str:
    """Any value as short, printable text for a message."""
    try:
        return _REPR.repr(value)
    except (ValueError, RecursionError):  # a number of thousands of digits
        return f"a huge {type(value).__name__}"

"""Chinese, Japanese and Korean text, whose words no blanks separate: the index takes every character as a word.

So it does with letters of Thai, Lao, Khmer and Burmese; the marks above and below them are blanks for the tokenizer.

Its tokenizer takes a run of such characters for one word, so a word within a sentence would not be found. Text is
stored with an invisible separator beside each of these characters, and the words of a search get the same: a word of
two characters becomes a phrase of two. Nothing else changes, so searches for other words cost what they did. Reading
takes the separators out; another program can say `replace(body, char(8291), '')`.
"""

import re
import unicodedata

SEPARATOR = "\u2063"
"""The tokenizer takes it for a blank, and no terminal shows it."""

_CJK = (
    "\u3005-\u3007\u3041-\u3096\u309d-\u309f\u30a1-\u30fa\u30fc-\u30ff\u31f0-\u31ff\u3400-\u4dbf\u4e00-\u9fff"
    "\u0e01-\u0e30\u0e32\u0e33\u0e40-\u0e46\u0e81-\u0eb0\u0eb2\u0eb3\u0ec0-\u0ec6\u1000-\u102a\u1780-\u17b3"
    "\uac00-\ud7a3\uf900-\ufaff\uff66-\uff9f\U00020000-\U0003ffff"
)
_CHARACTER = re.compile(f"[{_CJK}]")
_PIECE = re.compile(r"(?s:.{1,1000})(?!\S)|(?s:.{1,1000})")  # to put marks in order takes the square of their number
_RUN = re.compile(f"[{_CJK}]+|[^{_CJK}]+")
_BOUNDARY = re.compile(rf"(?<=[{_CJK}])(?=\w)|(?<=\w)(?=[{_CJK}])")


def separated(text: str) -> str:
    """The text with a separator beside each such character that has a letter or a digit beside it.

    Letters that Macs write in parts (`か` and a mark for `が`) are put together first.
    """
    if text.isascii():
        return text
    text = "".join([unicodedata.normalize("NFC", piece) for piece in _PIECE.findall(text)])
    return _BOUNDARY.sub(SEPARATOR, text)


def joined(text: str) -> str:
    """The text without the separators."""
    return text if text.isascii() else text.replace(SEPARATOR, "")


def pairs(word: str) -> list[str]:
    """The word itself, or of a run of such characters every two neighbours: where its words end, no blank says."""
    found: list[str] = []
    for run in _RUN.findall(word):
        found += [run[at : at + 2] for at in range(len(run) - 1)] if is_cjk(run[0]) and len(run) > 2 else [run]
    return found


def is_cjk(char: str) -> bool:
    """Whether a character is a word of the index."""
    return _CHARACTER.match(char) is not None

"""Bytes of mail as text, and text as the database keeps it: no control characters, `\\n` line ends.

Characters that nobody sees are taken out too, such as soft hyphens, blanks of no width and marks of the direction: HTML
mail is full of them, and a word with one inside is found by no search. Joiners in plain text stay, which Persian and
emoji need.

Names of charsets are read as WHATWG's Encoding Standard reads them, because most programs that write "iso-8859-1" mean
Windows-1252. ASCII is first taken for UTF-8, which such mail often is.
"""

import codecs
import re
from functools import lru_cache

from judges.common.text import without_controls

_CODEC = re.compile(r"utf-(?:7|8|16|32)|iso|cp\d|koi8|big5|gb|euc|johab|hz|mac-|tis|kz|ptcp|hp-")
_CODE_PAGE = re.compile(r"(?:windows|ibm|cp)-?(\d+)")
_MEANT = {  # what the name of a charset stands for in mail, by the names of Python's codecs
    "ascii": "",
    "iso8859-1": "cp1252",
    "iso8859-9": "cp1254",
    "iso8859-11": "cp874",
    "tis-620": "cp874",
    "gb2312": "gb18030",
    "gbk": "gb18030",
    "euc_kr": "cp949",
    "shift_jis": "cp932",
    "iso2022_jp": "iso2022_jp_ext",
    "big5": "big5hkscs",
}
_MAX_LABEL = 40
_CONTROL_BYTES = bytes({*range(32), 127} - {9, 10, 13})
_NOT_ASCII_BASED = ("utf-16", "utf-32", "utf-7", "iso2022", "hz")
_LOST = "\N{REPLACEMENT CHARACTER}"
_NAMED = re.compile(rb"charset\s*=\s*[\"']?((?!utf)[\w.:-]+)", re.IGNORECASE)


@lru_cache(maxsize=256)
def codec_of(label: str) -> str:
    """Python's codec for the name of a charset; "" where the name does not tell, or is none of real mail.

    Python's codecs also include "unicode_escape" and "idna", which no mail has.
    """
    label = label.strip().lower().removeprefix("x-").removesuffix("-i")  # iso-8859-8-i is Hebrew in its usual order
    if not label or len(label) > _MAX_LABEL:
        return ""
    page = _CODE_PAGE.fullmatch(label)
    try:
        name = codecs.lookup(f"cp{page[1]}" if page else label).name
    except (LookupError, ValueError):
        return ""
    name = _MEANT.get(name, name)
    return name if _CODEC.match(name) else ""


def decode(data: bytes, charset: str) -> str:
    """The text of bytes whose charset may be missing or wrong: as declared, else UTF-8, else Windows-1252.

    Some bytes may be wrong in either of the first two; they are left out, as are control characters.
    """
    codec = codec_of(charset)
    if data.isascii() and not codec.startswith(_NOT_ASCII_BASED):
        return data.translate(None, _CONTROL_BYTES).decode("ascii")
    names = [name for name in (codec, "" if data.isascii() else "utf-8") if name]
    for name in names:
        try:
            return without_controls(data.decode(name))
        except UnicodeError:
            pass
    for name in names:
        text = data.decode(name, "replace")
        letters = sum(not char.isascii() for char in text)
        if 2 * text.count(_LOST) < letters:
            return without_controls(text.replace(_LOST, ""))
    return without_controls(data.decode("cp1252", "ignore"))


def decode_named(data: bytes, beginning_bytes: int | None = None) -> str:
    """The text of bytes that may name their charset in their beginning, as pages do: UTF-8 if they are, else that."""
    named = None
    if b"\x1b" in data or not is_utf8(data):
        named = _NAMED.search(data[:beginning_bytes])
    return decode(data, named[1].decode() if named else "")


def is_utf8(data: bytes) -> bool:
    """Whether bytes are UTF-8, as ASCII is."""
    try:
        return data.isascii() or data.decode() is not None
    except UnicodeDecodeError:
        return False

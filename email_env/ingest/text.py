"""Bytes of mail as text, and text as the database keeps it: no control characters, `\\n` line ends.

Names of charsets are read as WHATWG's Encoding Standard reads them, because most programs that write "iso-8859-1" mean
Windows-1252. ASCII is first taken for UTF-8, which such mail often is.
"""

from __future__ import annotations

import codecs
import re
from functools import lru_cache

_CODEC = re.compile(r"utf-(?:7|8|16|32)|iso|cp\d|koi8|big5|gb|euc|johab|hz|mac-|tis|kz|ptcp|hp-")
_CODE_PAGE = re.compile(r"(?:windows|win|cp|ibm|dos|ms|ms-cp)[-_]?(\d+)")
_LABELS = {  # that Python does not know
    "windows-31j": "cp932",
    "cn-big5": "big5",
    "x-big5": "big5",
    "gb_2312-80": "gbk",
    "gb_2312": "gbk",
    "csgb2312": "gbk",
    "ks_c_5601-1989": "cp949",
    "ksc_5601": "cp949",
    "csksc56011987": "cp949",
    "iso-ir-149": "cp949",
    "iso-8859-8-i": "iso8859-8",
    "iso-8859-8-e": "iso8859-8",
    "iso-8859-6-i": "iso8859-6",
    "iso-8859-6-e": "iso8859-6",
    "cseucpkdfmtjapanese": "euc_jp",
    "unicode-1-1-utf-8": "utf-8",
    "koi": "koi8-r",
    "koi8": "koi8-r",
    "koi8-ru": "koi8-u",
}
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
    "big5": "big5hkscs",
}
_MAX_LABEL = 40
_CONTROL = re.compile("[\\x00-\\x08\\x0b\\x0c\\x0e-\\x1f\\x7f-\\x9f\\ud800-\\udfff]")
_CONTROL_BYTES = bytes({*range(32), 127} - {9, 10, 13})
_NOT_ASCII_BASED = ("utf-16", "utf-32", "utf-7", "iso2022", "hz")
_WITH_GAPS = ("cp125", "cp874")


@lru_cache(maxsize=256)
def codec_of(label: str) -> str:
    """Python's codec for the name of a charset; "" where the name does not tell, or is none of real mail.

    Python's codecs also include "unicode_escape" and "idna", which no mail has.
    """
    label = label.strip().lower().removeprefix("x-")
    if not label or len(label) > _MAX_LABEL:
        return ""
    page = _CODE_PAGE.fullmatch(label)
    try:
        name = codecs.lookup(f"cp{page[1]}" if page else _LABELS.get(label, label)).name
    except (LookupError, ValueError):
        return ""
    name = _MEANT.get(name, name)
    return name if _CODEC.match(name) else ""


def decode(data: bytes, charset: str) -> str:
    """The text of bytes whose charset may be missing or wrong: as declared, else UTF-8, else Windows-1252.

    Control characters are left out, and bytes for which a code page of Windows has no character.
    """
    codec = codec_of(charset)
    if data.isascii() and not codec.startswith(_NOT_ASCII_BASED):
        return data.translate(None, _CONTROL_BYTES).decode("ascii")
    for name in (codec, "utf-8"):
        try:
            if name:
                return _CONTROL.sub("", data.decode(name))
        except (LookupError, UnicodeError):
            continue
    return _CONTROL.sub("", data.decode(codec if codec.startswith(_WITH_GAPS) else "cp1252", "ignore"))


def one_line(text: str) -> str:
    """Text without control characters, with every run of white space as one blank."""
    return " ".join(_CONTROL.sub(" ", text).split())


def clean_body(text: str) -> str:
    """Text with `\\n` line ends, without control characters and without blank lines around it."""
    return unix_lines(_CONTROL.sub("", text))


def without_controls(text: str) -> str:
    """Text without control characters, which neither database nor terminal nor report should get."""
    return _CONTROL.sub("", text)


def unix_lines(text: str) -> str:
    """Text with `\\n` line ends and without blank lines around it."""
    if "\r" in text:
        text = text.replace("\r\n", "\n").replace("\r", "\n")
    return text.strip("\n \t")

"""Bytes of mail as text, and text as the database keeps it: no control characters, `\\n` line ends.

Characters that nobody sees are taken out too (`judges.common.text`): HTML mail is full of them, and a word with one
inside is found by no search.

Names of charsets are read as WHATWG's Encoding Standard reads them, because most programs that write "iso-8859-1" mean
Windows-1252. ASCII is first taken for UTF-8, which such mail often is.
"""

from __future__ import annotations

import codecs
import re
from functools import lru_cache

from judges.common.text import unix_lines, without_controls

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
_CONTROL_BYTES = bytes({*range(32), 127} - {9, 10, 13})
_NOT_ASCII_BASED = ("utf-16", "utf-32", "utf-7", "iso2022", "hz")
_WITH_GAPS = ("cp125", "cp874")
_LOST = "\N{REPLACEMENT CHARACTER}"
_NAMED = re.compile(rb"charset\s*=\s*[\"']?((?!utf)[\w.:-]+)", re.IGNORECASE)
_OF_JIS = re.compile(rb"\x1b(\$[@B]|\([BJI])")


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

    Some bytes may be wrong in either of the first two; they are left out, as are control characters.
    """
    codec = codec_of(charset)
    if data.isascii() and not codec.startswith(_NOT_ASCII_BASED):
        return data.translate(None, _CONTROL_BYTES).decode("ascii")
    names = [name for name in (codec, "utf-8") if name]
    for name in names:
        try:
            return without_controls(data.decode(name))
        except (LookupError, UnicodeError):
            if name == "iso2022_jp" and data.isascii():
                return without_controls(_windows_jis(data))
    if codec.startswith(_WITH_GAPS):
        return without_controls(data.decode(codec, "ignore"))
    for name in names:
        text = data.decode(name, "replace")
        letters = sum(not char.isascii() for char in text)
        if 2 * text.count(_LOST) < letters:
            return without_controls(text.replace(_LOST, ""))
    return without_controls(data.decode("cp1252", "ignore"))


def decode_named(data: bytes, beginning_bytes: int | None = None) -> str:
    """The text of bytes that may name their charset in their beginning, as pages do: UTF-8 if they are, else that."""
    try:
        is_utf8 = b"\x1b" not in data and data.decode() is not None
    except UnicodeDecodeError:
        is_utf8 = False
    named = None if is_utf8 else _NAMED.search(data[:beginning_bytes])
    return decode(data, named[1].decode() if named else "")


def _windows_jis(data: bytes) -> str:
    """ISO-2022-JP with what Windows adds to it, such as `①` and half-width kana: its characters are those of cp932."""
    shift, found = b"(B", bytearray()
    for number, part in enumerate(_OF_JIS.split(data)):
        if number % 2:
            shift = part
            continue
        for line in part.splitlines(keepends=True):
            if shift == b"(I":
                line = bytes(byte | 0x80 if byte > 0x20 else byte for byte in line)
            elif shift[:1] == b"$":
                text = line.rstrip(b"\r\n")
                line = b"".join(map(_as_cp932, text[::2], text[1::2])) + line[len(text) :]
            found += line
    return found.decode("cp932", "ignore")


def _as_cp932(row: int, cell: int) -> bytes:
    """A character of JIS X 0208."""
    if min(row, cell) < 0x21 or max(row, cell) > 0x7E:
        return b""
    lead = (row - 0x21) // 2 + (0x81 if row < 0x5F else 0xC1)
    return bytes((lead, cell + (0x7E if row % 2 == 0 else 0x20 if cell >= 0x60 else 0x1F)))


def clean_body(text: str) -> str:
    """Text with `\\n` line ends, without control characters and without blank lines around it."""
    return unix_lines(without_controls(text))

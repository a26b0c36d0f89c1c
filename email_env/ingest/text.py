"""Bytes of mail as text, and text as the database keeps it: no control characters, `\\n` line ends."""

from __future__ import annotations

import re

_TRUSTED_CHARSET = re.compile(r"(?:utf[-_]?(?:8|16|32)|iso-|latin|windows-|cp\d|koi8|big5|gb|euc|shift|sjis|mac|tis)")
_CONTROL = re.compile("[\\x00-\\x08\\x0b\\x0c\\x0e-\\x1f\\x7f\\ud800-\\udfff]")
_CONTROL_BYTES = bytes({*range(32), 127} - {9, 10, 13})
_NOT_ASCII_BASED = ("utf-16", "utf16", "utf_16", "utf-32", "utf32", "utf_32", "iso-2022")


def decode(data: bytes, charset: str) -> str:
    """The text of bytes whose charset may be missing or wrong: as declared, else UTF-8, Windows-1252 or Latin-1.

    Only charsets of real mail are tried, since Python's codecs also include "unicode_escape" and "idna". Control
    characters are left out.
    """
    if data.isascii() and not charset.startswith(_NOT_ASCII_BASED):
        return data.translate(None, _CONTROL_BYTES).decode("ascii")
    for name in (charset if _TRUSTED_CHARSET.match(charset) else "", "utf-8", "cp1252"):
        try:
            if name:
                return _CONTROL.sub("", data.decode(name))
        except (LookupError, UnicodeError):
            continue
    return _CONTROL.sub("", data.decode("latin-1"))


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

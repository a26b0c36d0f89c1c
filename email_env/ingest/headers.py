"""The header block of a message, split and decoded by our own code, because real mail breaks the stdlib's rules.

For the stdlib, a Subject that goes on in an unindented line turns all later headers into body, and the language that
RFC 2231 puts behind the charset of an encoded word makes the charset unknown. Its time grows with the square of the
number of encoded words.
"""

import re
from binascii import Error, a2b_base64, a2b_qp
from codecs import BOM_UTF8
from itertools import groupby
from operator import itemgetter

from email_env.ingest.text import decode, decode_named
from judges.common.text import without_controls

ENCODED_WORD = r"=\?[^?\s]*+\?[bBqQ]\?(?:[^?=]++|\?(?!=)|=(?!\?(?!=)))*+\?="
"""The pattern of an encoded word of RFC 2047. A question mark may stand in it, the beginning of another word not."""

_WORD = re.compile(ENCODED_WORD)
_WORDS = re.compile(rf"{ENCODED_WORD}(?:\s*+{ENCODED_WORD})*+")
_START = re.compile(rb"(?:(?!\r?\n|[!-9;-~]+[ \t]*:)[^\0\n]*\n)*+(?=[!-9;-~]+[ \t]*:)")
_END = re.compile(rb"\n\r?\n")
_FOLD = re.compile(r"\n(?![!-9;-~]++[ \t]*+:)[ \t]*+")  # a header goes on in every line that starts no other
_LISTS = ("to", "cc", "bcc")


def split_message(data: bytes) -> tuple[dict[str, str], bytes]:
    """The headers, each on one line, by lower-case name, and the undecoded body.

    Of a repeated header the first that says something counts, which of `Received` is the last hop; To, Cc and Bcc are
    put together. A byte order mark, blanks and lines that are no headers may stand before them, such as a separator of
    an mbox. A paragraph without a header is all body.
    """
    data = data.removeprefix(BOM_UTF8).lstrip()
    start = _START.match(data)
    if not start:
        return {}, data
    data = data[start.end() :]
    end = _END.search(data)
    block, body = (data[: end.start()], data[end.end() :]) if end else (data, b"")
    text = _FOLD.sub(" ", decode_named(block.replace(b"\r\n", b"\n")))
    lines = [line.partition(":") for line in text.split("\n")]
    said = [(name.rstrip().lower(), text) for name, _, value in lines if (text := value.strip())]
    headers = dict(reversed(said))
    if len(headers) < len(said):
        headers |= {name: ", ".join(text for other, text in said if other == name) for name in _LISTS}
    return headers, body


def readable(header: str) -> str:
    """A header with its RFC 2047 words decoded."""
    return without_controls(_WORDS.sub(_decoded, header)) if "=?" in header else header


def _decoded(words: re.Match[str]) -> str:
    """The text of encoded words in a row; those of one charset are joined first, because some split a letter."""
    runs = groupby(map(_unpacked, _WORD.findall(words[0])), key=itemgetter(0))
    return "".join(decode(b"".join(data for _, data in run), charset) for charset, run in runs)


def _unpacked(word: str) -> tuple[str, bytes]:
    """The charset of an encoded word, behind which its language may stand, and its bytes."""
    charset, kind, text = word[2:-2].split("?", 2)
    data = text.encode("utf-8", "replace")
    try:
        unpacked = a2b_qp(data, header=True) if kind in "qQ" else a2b_base64(data + b"===")
    except Error:  # bad base64
        return "", word.encode("utf-8", "replace")
    return charset.partition("*")[0].lower(), unpacked

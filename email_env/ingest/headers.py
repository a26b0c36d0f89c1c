"""The header block of a message, split by our own code, because real mail breaks the stdlib's rules.

For the stdlib, a Subject that goes on in an unindented line turns all later headers into body.
"""

import re
from codecs import BOM_UTF8
from email.header import decode_header

from email_env.ingest.text import decode, decode_named
from judges.common.text import without_controls

_START = re.compile(rb"(?:(?!\r?\n|[!-9;-~]+[ \t]*:)[^\0\n]*\n)*+(?=[!-9;-~]+[ \t]*:)")
_END = re.compile(rb"\n\r?\n")
_FOLD = re.compile(r"\n(?![!-9;-~]++[ \t]*+:)[ \t]*+")  # a header goes on in every line that starts no other


def split_message(data: bytes) -> tuple[dict[str, str], bytes]:
    """The headers, each on one line, by lower-case name, and the undecoded body.

    The first of a repeated header counts, which of `Received` is the last hop. A byte order mark, blanks and lines that
    are no headers may stand before them, such as a separator of an mbox. A paragraph without a header is all body.
    """
    data = data.removeprefix(BOM_UTF8).lstrip()
    start = _START.match(data)
    if not start:
        return {}, data
    data = data[start.end() :]
    end = _END.search(data)
    block, body = (data[: end.start()], data[end.end() :]) if end else (data, b"")
    lines = _FOLD.sub(" ", decode_named(block.replace(b"\r\n", b"\n"))).split("\n")
    found = [line.partition(":") for line in reversed(lines)]
    return {name.rstrip().lower(): value.strip() for name, _, value in found}, body


def unfolded(value: str) -> str:
    """The value of a header on one line."""
    return (" ".join(map(str.strip, value.split("\n"))) if "\n" in value else value).strip()


def readable(header: str) -> str:
    """A header on one line, with its RFC 2047 words decoded."""
    text = unfolded(header)
    if "=?" not in text:
        return text
    try:
        parts = decode_header(text)
    except Exception:  # bad base64, bad charset names, ...
        return text
    words = (p if isinstance(p, str) else decode(p, (c or "").lower()) for p, c in parts)
    return without_controls("".join(words))

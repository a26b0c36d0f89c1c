"""An mbox file: messages one after another, each behind a line `From <sender> <date>`.

The file is read as a stream and split by our own code. The stdlib's `mailbox.mbox` needs a file in which it can seek,
reads messages of any size, and takes every line that begins with "From " for the start of a message. Here such a line
must look like one: it ends like a date and follows a blank line, or the next line is a header. Where it does not, it
stays text, and a note says so, because some programs write mbox files of their own. `>From ` in a body becomes `From `
again.
"""

import re
from collections.abc import Iterator
from typing import IO

from email_env.errors import SourceError
from email_env.ingest.dates import separator_date
from email_env.ingest.sources.source import Entry, Note, is_too_large
from email_env.mail import RawMail, Skip, SkipReason

_FROM = b"From "
_DATED = re.compile(rb"From .*\b[A-Z][a-z]{2} [A-Z][a-z]{2} +\d{1,2} \d\d:\d\d.*\b\d{4}\b")
_SENDER = re.compile(rb"From (?:(?:\S*@\S*|-|MAILER-DAEMON)\s*\Z|.*\d\d:\d\d)")
_HEADER = re.compile(rb"[!-9;-~]+[ \t]*:")
_QUOTED_FROM = re.compile(rb">+From ")
_MAX_LINE_BYTES = 1 << 20


def mbox_mails(name: str, handle: IO[bytes]) -> Iterator[Entry]:
    """The messages of an mbox, labelled by their number.

    Raises:
        SourceError: it does not begin with a `From ` line.
    """
    lines: list[bytes] = []
    separator = b""
    size, number, after_blank, at_line_start = 0, 0, True, True
    unsure, first_unsure = 0, 0
    following = handle.readline(_MAX_LINE_BYTES)
    while line := following:
        following = handle.readline(_MAX_LINE_BYTES)
        is_from = at_line_start and line.startswith(_FROM)
        if is_from and _is_start(line, following, after_blank):
            if number:
                yield _message(number, lines, size, separator)
            number += 1
            lines, size, separator = [], 0, line
        elif not number:
            if line.strip():
                raise SourceError(
                    f"{name!r} is no mbox: it begins with {line[:60]!r}, not with a line 'From ... date'."
                )
        else:
            if is_from:
                unsure, first_unsure = unsure + 1, first_unsure or number
            elif at_line_start and _QUOTED_FROM.match(line):
                line = line[1:]
            size += len(line)
            if not is_too_large(size):
                lines.append(line)
        after_blank = at_line_start and not line.strip(b"\r\n")
        at_line_start = line.endswith(b"\n")
    if number:
        yield _message(number, lines, size, separator)
    if unsure:
        yield Note(
            f"{name}: lines that begin with 'From ' and do not look like the start of a message are taken for text:"
            f" {unsure:,}, the first in message {first_unsure:,}. If mail is missing, export the mailbox again."
        )


def begins_mbox(beginning: bytes) -> bool:
    """Whether a file that begins so is an mbox."""
    line, _, following = beginning.partition(b"\n")
    return line.startswith(_FROM) and _is_start(line, following, after_blank=True)


def _is_start(line: bytes, following: bytes, after_blank: bool) -> bool:
    """Whether a line that begins with "From " starts a message."""
    dated = _DATED.match(line) is not None
    if _HEADER.match(following):
        return dated or (after_blank and _SENDER.match(line) is not None)
    return dated and after_blank


def _message(number: int, lines: list[bytes], size: int, separator: bytes) -> RawMail | Skip:
    label = f"message {number}"
    if is_too_large(size):
        return Skip(label, SkipReason.TOO_LARGE)
    if lines and not lines[-1].strip(b"\r\n"):  # the blank line before the next `From ` is the mbox's, not the mail's
        lines = lines[:-1]
    return RawMail(label, b"".join(lines), separator_date(separator.decode("ascii", "replace")))

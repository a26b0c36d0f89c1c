"""An mbox file: messages one after another, each behind a line `From <sender> <date>`.

The file is read as a stream and split by our own code. The stdlib's `mailbox.mbox` needs a file in which it can seek,
reads messages of any size, and takes every line that begins with "From " for the start of a message. Here such a line
must also follow a blank one and end like a date. `>From ` in a body becomes `From ` again.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import IO

from email_env.errors import SourceError
from email_env.ingest.sources.source import Entry, is_too_large
from email_env.mail import RawMail, Skip, SkipReason

_START = re.compile(rb"From .*\b[A-Z][a-z]{2} [A-Z][a-z]{2} +\d{1,2} \d\d:\d\d.*\b\d{4}\b")
_QUOTED_FROM = re.compile(rb">+From ")
_MAX_LINE_BYTES = 1 << 20


def mbox_mails(name: str, handle: IO[bytes]) -> Iterator[Entry]:
    """The messages of an mbox, labelled by their number.

    Raises:
        SourceError: it does not begin with a `From ` line.
    """
    lines: list[bytes] = []
    size, number, after_blank, at_line_start = 0, 0, True, True
    while line := handle.readline(_MAX_LINE_BYTES):
        if after_blank and _START.match(line):
            if number:
                yield _message(number, lines, size)
            number += 1
            lines, size = [], 0
        elif not number:
            if line.strip():
                raise SourceError(
                    f"{name!r} is no mbox: it begins with {line[:60]!r}, not with a line 'From ... date'."
                )
        else:
            if at_line_start and _QUOTED_FROM.match(line):
                line = line[1:]
            size += len(line)
            if not is_too_large(size):
                lines.append(line)
        after_blank = at_line_start and not line.strip(b"\r\n")
        at_line_start = line.endswith(b"\n")
    if number:
        yield _message(number, lines, size)


def _message(number: int, lines: list[bytes], size: int) -> RawMail | Skip:
    label = f"message {number}"
    if is_too_large(size):
        return Skip(label, SkipReason.TOO_LARGE)
    if lines and not lines[-1].strip(b"\r\n"):  # the blank line before the next `From ` is the mbox's, not the mail's
        lines = lines[:-1]
    return RawMail(label, b"".join(lines))

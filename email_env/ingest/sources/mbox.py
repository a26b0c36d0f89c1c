"""An mbox file: messages one after another, each behind a line `From <sender> <date>`, or only `From `.

The file is read as a stream and split by our own code. The stdlib's `mailbox.mbox` needs a file in which it can seek,
reads messages of any size, and takes every line that begins with "From " for the start of a message. Here a header
block must follow it: fields, and among them one of mail. Behind a blank line, where the line itself has the date that
every mbox format defines, any field of mail will do, else one that nobody writes below "From now on". Other such lines
stay text, and a note says so, because some programs write mbox files of their own. `>From ` in a body becomes `From `
again. Lengths of bodies (`Content-Length`) are not looked at: they are wrong once a file was edited.
"""

import re
from collections import deque
from collections.abc import Iterable, Iterator
from typing import IO

from email_env.ingest.sources.source import Entry, Note, is_too_large
from email_env.mail import RawMail, Skip, SkipReason

_FROM, _QUOTED_FROM = re.compile(rb"From |From[\r\n]*\Z"), re.compile(rb">+From ")
_DATED = re.compile(rb"From .*\b[A-Z][a-z]{2} [A-Z][a-z]{2} +\d{1,2} \d\d:\d\d.*\b\d{4}\b")
_FIELD = re.compile(rb"[!-9;-~]+[ \t]*:|[ \t]+\S|>+From ")  # or how one goes on, or a separator of an older mbox
_OF_MAIL = re.compile(
    rb"(?:From|To|Cc|Bcc|Date|Subject|Sender|Received|Status|[!-,./-9;-~]+-[!-9;-~]+)[ \t]*:", re.IGNORECASE
)
_OF_MAIL_ALONE = re.compile(rb"(?:From|Message-ID|MIME-Version|Return-Path|X-Mozilla-Status2?)[ \t]*:", re.IGNORECASE)
_MAX_LINE_BYTES = _MAX_FIELDS_BYTES = 1 << 20


def mbox_mails(name: str, handle: IO[bytes]) -> Iterator[Entry]:
    """The messages of an mbox, labelled by their number; what stands before the first `From ` line is one, too."""
    lines: list[bytes] = []
    separator = b""
    size, number, at_line_start, after_blank = 0, 0, True, True
    unsure, first_unsure = 0, 0
    ahead = deque[bytes]()
    while line := ahead.popleft() if ahead else handle.readline(_MAX_LINE_BYTES):
        is_from = at_line_start and _FROM.match(line) is not None
        if is_from and _is_start(line, after_blank, _following(handle, ahead)):
            if number:
                yield _message(number, lines, size, separator)
            number += 1
            lines, size, separator = [], 0, line
        elif number or line.strip():
            number = number or 1
            if is_from:
                unsure, first_unsure = unsure + 1, first_unsure or number
            elif at_line_start and _QUOTED_FROM.match(line):
                line = line[1:]
            size += len(line)
            if not is_too_large(size):
                lines.append(line)
        after_blank = at_line_start and line.isspace()
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
    is_from = _FROM.match(line) is not None
    return is_from and (_DATED.match(line) is not None or _is_start(line, True, following.split(b"\n")[:-1]))


def _is_start(line: bytes, after_blank: bool, following: Iterable[bytes]) -> bool:
    """Whether a `From ` line before these lines starts a message; it does where they end before that is sure."""
    is_dated, has_begun = _DATED.match(line) is not None, False
    proof = _OF_MAIL if is_dated and after_blank else _OF_MAIL_ALONE
    for field in following:
        if proof.match(field):
            return True
        if not _FIELD.match(field):  # behind a date, blank lines and lines that are no fields may stand before them
            if not (is_dated and field) or _FROM.match(field) or (has_begun and field.isspace()):
                return False
            proof = _OF_MAIL_ALONE
        has_begun = has_begun or not field.isspace()
    return True


def _following(handle: IO[bytes], ahead: deque[bytes]) -> Iterator[bytes]:
    """The next lines, which stay to be read, and "" at their end."""
    size = 0
    while size < _MAX_FIELDS_BYTES:
        ahead.append(handle.readline(_MAX_LINE_BYTES))
        size += len(ahead[-1])
        yield ahead[-1]


def _message(number: int, lines: list[bytes], size: int, separator: bytes) -> RawMail | Skip:
    label = f"message {number}"
    if is_too_large(size):
        return Skip(label, SkipReason.TOO_LARGE)
    if lines and not lines[-1].strip(b"\r\n"):  # the blank line before the next `From ` is the mbox's, not the mail's
        lines = lines[:-1]
    return RawMail(label, b"".join(lines), separator.decode("ascii", "replace"))

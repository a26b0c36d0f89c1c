"""What a mailbox marks as deleted, spam or draft: by marks that its format defines, so a folder's name alone is none.

A filter's verdict (`X-Spam-Flag`) is no mark either: mail that it names may lie in an inbox. Gmail's labels are in the
user's language, and known are those in English.
"""

import re
from collections.abc import Mapping

from email_env.ingest.headers import readable
from email_env.mail import SkipReason

MARKS = {
    "deleted": SkipReason.DELETED,
    "spam": SkipReason.SPAM,
    "draft": SkipReason.DRAFT,
    "trash": SkipReason.DELETED,  # this and the next two are Gmail's
    "bin": SkipReason.DELETED,
    "drafts": SkipReason.DRAFT,
}
"""Why mail with a mark is left out."""

_LABELS, _PLACE, _EMLX = "x-gmail-labels", "the place in the source", "the flags of .emlx"
_IN_MAILDIR = "cur/[^/]*[:;!_-]2,[A-Za-z]*"
_FLAGS = [
    (mark, name, re.compile(form))
    for mark, forms in {
        "deleted": {
            _PLACE: rf"/(?:{_IN_MAILDIR}T|\.Trash(?:\.[^/]*)?/(?:cur|new)/|[,#]\d+$)",  # Maildir, Maildir++, MH
            _EMLX: "^[01]*1[01]$",
            "x-mozilla-status": "^[0-9a-fA-F]{3}[89a-fA-F]",  # Thunderbird: 0008 is expunged
            "x-mozilla-status2": "^[0-9a-fA-F]{2}[2367abefABEF]",  # 00200000 is deleted on the server
            "x-status": "^[AFT]*D",  # other mbox files
            "x-evolution": "^[0-9a-f]+-[0-9a-f]{3}[2367abef]",
        },
        "spam": {
            _EMLX: "^[01]*1[01]{24}$",
            "x-mozilla-keys": r"(?:^|[\s,])\$?(?i:junk)(?:[\s,]|$)",
            "x-keywords": r"(?:^|[\s,])\$?(?i:junk)(?:[\s,]|$)",
            "x-evolution": "^[0-9a-f]+-[0-9a-f]{2}[89a-f]",
        },
        "draft": {
            _PLACE: f"/{_IN_MAILDIR}D",
            _EMLX: "^[01]*1[01]{6}$",
            "x-mozilla-draft-info": "",
            "x-status": "^[AF]*T",
            "x-evolution": "^[0-9a-f]+-[0-9a-f]{3}[4-7c-f]",
            "x-unsent": "^1",  # Outlook
        },
    }.items()
    for name, form in forms.items()
]


def marks_of(headers: Mapping[str, str], label: str, emlx_flags: int = 0) -> tuple[str, ...]:
    """The marks of a message by its headers, its place in its source, and the flags of an .emlx file.

    They are `deleted`, `spam`, `draft`, and its labels in Gmail in lower case.
    """
    said = {**headers, _PLACE: f"/{label}", _EMLX: f"{emlx_flags:b}"}
    found = [mark for mark, name, form in _FLAGS if name in said and form.search(said[name])]
    if labels := headers.get(_LABELS):
        found += filter(None, map(str.strip, readable(labels).lower().split(",")))
    return tuple(found)

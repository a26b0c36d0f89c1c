"""A folder with one file per message: the CMU layout, a Maildir with its `.Folder`s, or saved .eml files.

A folder that has both `cur` and `new` is a Maildir. Mail lies in these two; files in `tmp` are still being delivered,
and files beside the three belong to the mail server. Everywhere else every file counts as a message. Folders are walked
in sorted order, and links are not followed. The stdlib's `mailbox.Maildir` is not used: it follows links and has no
limit on sizes.
"""

from __future__ import annotations

import os
import stat
from pathlib import Path

from email_env.errors import SourceError
from email_env.ingest.sources.source import Source, counted_source, is_too_large, storable
from email_env.mail import RawMail, Skip, SkipReason


def folder_source(location: str) -> Source:
    """The mail of a folder and all below it.

    Raises:
        SourceError: a folder cannot be listed, or there is no file in any.
    """
    paths = _message_paths(location)
    if not paths:
        raise SourceError(f"No mail in the folder {location!r}. Name a folder with one file a message.")
    entries = (_file(path, os.path.relpath(path, location)) for path in paths)
    return counted_source(location, entries, len(paths))


def _message_paths(root: str) -> list[str]:
    def failed(error: OSError) -> None:
        raise SourceError(f"Cannot list {error.filename!r}: {error.strerror}.") from error

    paths: list[str] = []
    for folder, folders, files in os.walk(root, onerror=failed):
        if {"cur", "new"} <= set(folders):
            folders[:] = [name for name in folders if name != "tmp"]
            files = []
        folders.sort()
        paths.extend(os.path.join(folder, name) for name in sorted(files))
    return paths


def _file(path: str, label: str) -> RawMail | Skip:
    label = storable(label)
    try:
        found = os.lstat(path)
        if not stat.S_ISREG(found.st_mode):  # a link could lead anywhere, a pipe would never end
            return Skip(label, SkipReason.UNREADABLE)
        if is_too_large(found.st_size):
            return Skip(label, SkipReason.TOO_LARGE)
        return RawMail(label, Path(path).read_bytes())
    except OSError:
        return Skip(label, SkipReason.UNREADABLE)

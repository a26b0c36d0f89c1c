"""A folder of mail and all below it, read file by file for what each is.

A file may be one message, as in the CMU layout, a Maildir or saved .eml files; an mbox, as in Thunderbird's folders; or
an archive or table by its name. Files that are no mail are counted as such. A damaged archive or gzipped file is an
error, as it is where it is named alone; what is an archive only by its name is left out with a note.

A folder that has `cur`, `new` and `tmp` is a Maildir, and files in `tmp` are counted as not delivered yet. Folders are
walked in sorted order, and links are not followed but named. The stdlib's `mailbox.Maildir` is not used: it follows
links and has no limit on sizes.
"""

import os
import stat
from collections.abc import Iterator

from email_env.errors import SourceError
from email_env.ingest.sources.archive import ARCHIVES
from email_env.ingest.sources.file import file_mails
from email_env.ingest.sources.source import Entry, Note, Source, counted_source, storable
from email_env.mail import Skip, SkipReason


def folder_source(location: str) -> Source:
    """The mail of a folder and all below it; progress is counted in files.

    Raises:
        SourceError: a folder cannot be listed, or there is no file in any. When read: an archive or a gzipped file is
            damaged.
    """
    paths = _file_paths(location)
    if not paths:
        raise SourceError(f"No mail in the folder {location!r}. Name a folder of messages, mbox files or archives.")
    files = (_entries(path, storable(os.path.relpath(path, location))) for path in paths)
    return counted_source(location, files, len(paths))


def _file_paths(root: str) -> list[str]:
    def failed(error: OSError) -> None:
        raise SourceError(f"Cannot list {error.filename!r}: {error.strerror}.") from error

    paths: list[str] = []
    for folder, folders, files in os.walk(root, onerror=failed):
        folders.sort()
        linked = [name for name in folders if os.path.islink(os.path.join(folder, name))]
        paths.extend(os.path.join(folder, name) for name in sorted([*files, *linked]))
    return paths


def _entries(path: str, label: str) -> Iterator[Entry]:
    begun = False
    place, name = os.path.split(os.path.dirname(path))
    if name == "tmp" and all(os.path.isdir(os.path.join(place, beside)) for beside in ("cur", "new")):
        yield Skip(label, SkipReason.UNDELIVERED)
        return
    try:
        if not stat.S_ISREG(os.lstat(path).st_mode):  # a link could lead anywhere, a pipe would never end
            raise OSError("no regular file")
        with open(path, "rb") as handle:
            for entry in file_mails(label, handle, path, ARCHIVES):
                begun = True
                yield entry
    except OSError as error:
        if begun:
            raise SourceError(f"{path!r} cannot be read to its end: {error}.") from error
        yield Skip(label, SkipReason.UNREADABLE)
        if os.path.isdir(path):
            yield Note(f"{label} is left out: it is a link to a folder. To read its mail, name that folder, too.")

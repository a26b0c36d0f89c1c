"""The demo database in the user's cache: built at first use, once, by whoever comes first.

The file's name carries the versions of all that shapes it, so a new release builds a new one and never touches what
another may have open. The build is atomic by itself; the lock only spares others the same work.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from email_env.errors import CacheError

_log = logging.getLogger(__name__)


def cache_folder() -> Path:
    """`$EMAIL_ENV_CACHE`, else `$XDG_CACHE_HOME/email_env`, else `~/.cache/email_env`.

    Raises:
        CacheError: none of these is set and the user has no home.
    """
    own = os.environ.get("EMAIL_ENV_CACHE")
    if own:
        return Path(own).expanduser().absolute()
    shared = os.environ.get("XDG_CACHE_HOME", "")
    if os.path.isabs(shared):  # the specification says that a relative one is to be ignored
        return Path(shared) / "email_env"
    try:
        return Path.home() / ".cache" / "email_env"
    except RuntimeError as error:
        raise CacheError("No home folder to cache in; set EMAIL_ENV_CACHE to a folder that can be written.") from error


def demo_database() -> Path:
    """Path of the demo database; builds it (seconds) where it is not there yet.

    Safe to call from many processes at once, from any directory.

    Raises:
        CacheError: the cache cannot be written.
    """
    from email_env.database import SCHEMA_VERSION
    from email_env.demo import GENERATOR_VERSION
    from email_env.ingest.versions import BUILDER_VERSION

    folder = cache_folder()
    path = folder / f"demo-{GENERATOR_VERSION}-{SCHEMA_VERSION}-{BUILDER_VERSION}.db"
    if path.is_file():
        return path
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with _locked(folder / "demo.lock"):
            if not path.is_file():
                _build(path)
    except OSError as error:
        raise CacheError(
            f"Cannot build the demo mailboxes in {str(folder)!r}: {error}."
            " Set EMAIL_ENV_CACHE to a folder that can be written, or EMAIL_ENV_DB to a database."
        ) from error
    return path


def _build(path: Path) -> None:
    from email_env.ingest.build import build_database
    from email_env.ingest.sources import open_source

    _log.info("Building the demo mailboxes in %s (once)", path)
    source = open_source("demo")
    build_database(source.mails, path, scenarios=source.scenarios, source=source.name)


@contextmanager
def _locked(path: Path) -> Iterator[None]:
    """Holds an exclusive lock that the system drops when the process ends, however it ends."""
    with path.open("a") as handle:
        try:
            import fcntl
        except ImportError:  # no POSIX: two builders then do the same work, and the last one's file stays
            yield
            return
        fcntl.flock(handle, fcntl.LOCK_EX)
        yield

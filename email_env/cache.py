"""The demo database in the user's cache: the first process that needs it builds it.

The file's name holds the versions of everything that shapes it, so another release builds another file and never
touches one that is open. The build itself is atomic; the lock only saves other processes the same work.
"""

import logging
import os
from pathlib import Path

from email_env.errors import CacheError
from email_env.versions import BUILDER_VERSION, GENERATOR_VERSION, SCHEMA_VERSION
from judges.common.files import locked

_log = logging.getLogger(__name__)


def cache_folder() -> Path:
    """`$EMAIL_ENV_CACHE`, else `$XDG_CACHE_HOME/email_env`, else `~/.cache/email_env`."""
    shared = os.environ.get("XDG_CACHE_HOME") or "~/.cache"
    return Path(os.environ.get("EMAIL_ENV_CACHE") or f"{shared}/email_env").expanduser().absolute()


def demo_database() -> Path:
    """Path of the demo database; builds it within seconds where it is not there yet.

    Many processes may call it at once, from any directory.

    Raises:
        CacheError: the cache cannot be written.
    """
    folder = cache_folder()
    path = folder / f"demo-{GENERATOR_VERSION}-{SCHEMA_VERSION}-{BUILDER_VERSION}.db"
    if path.is_file():
        return path
    try:
        with locked(folder / "demo.lock"):
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

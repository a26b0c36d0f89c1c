"""What a mail database says about itself, and whether this package can read it."""

import shlex
import sqlite3
from pathlib import Path

from email_env.errors import DatabaseFormatError, DatabaseNotFoundError
from email_env.search.connections import Connections
from email_env.versions import SCHEMA_VERSION


def read_metadata(connections: Connections) -> dict[str, str]:
    """The table `meta` of the file.

    Raises:
        DatabaseNotFoundError: there is no such file.
        DatabaseFormatError: it is no mail database, is cut short, or has another schema version.
    """
    path = connections.path
    if not path.is_file():
        raise DatabaseNotFoundError(
            f"No mail database at {str(path)!r}. Build one with: build-enron-db demo --out {shlex.quote(str(path))}"
        )
    try:
        metadata = dict(connections.get().execute("SELECT key, value FROM meta").fetchall())
        _check(path, metadata)
    except sqlite3.Error as error:
        raise DatabaseFormatError(
            f"{str(path)!r} is not a mail database ({error}). Build one with build-enron-db."
        ) from error
    return metadata


def _check(path: Path, metadata: dict[str, str]) -> None:
    with path.open("rb") as file:
        header = file.read(32)
    page_bytes, pages = int.from_bytes(header[16:18]), int.from_bytes(header[28:32])
    if path.stat().st_size < pages * page_bytes:  # SQLite would notice only when it reads what is missing
        raise DatabaseFormatError(f"{str(path)!r} is cut short. Copy it again, or build it again.")
    version = metadata.get("schema_version")
    if version != SCHEMA_VERSION:
        command = metadata.get("command") or f"build-enron-db {shlex.quote(metadata.get('source', 'SOURCE'))}"
        raise DatabaseFormatError(
            f"{str(path)!r} has schema version {version!r}, this package reads {SCHEMA_VERSION!r}. Rebuild it:"
            f" {command} --out {shlex.quote(str(path))}"
        )

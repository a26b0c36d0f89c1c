"""The exceptions of this package; each is also the stdlib exception a caller would expect.

    EmailEnvError
    ├── ToolInputError (ValueError)          a tool argument that cannot be used; its text is shown to the model
    ├── ConfigurationError (ValueError)      an option that makes no sense
    ├── EpisodeError (RuntimeError)          the environment was used out of order (step before reset, closed)
    ├── ScenarioError (ValueError)           a question in the wrong form
    │   └── UnknownScenarioError (LookupError)
    ├── DatabaseError (RuntimeError)
    │   ├── DatabaseNotFoundError (FileNotFoundError)
    │   ├── DatabaseFormatError (ValueError) not a mail database, or one of another schema version
    │   └── UnknownInboxError (LookupError)  no mail of the database has this address
    ├── SourceError (ValueError)             mail that cannot be read: missing, truncated, of an unknown kind
    ├── HubError (ConnectionError)           a hub data set that cannot be read: no package, no network, no such name
    ├── BuildError (RuntimeError)            a database that could not be built; nothing was written
    └── CacheError (OSError)                 the per-user cache cannot be written

Only a `ToolInputError` is the model's mistake, and the environment turns it into an observation. All others are
mistakes of the calling program or its input, and reach the caller. A message says what was wrong, the value seen and
the next step.
"""

from collections.abc import Sequence
from difflib import get_close_matches
from typing import Any


class EmailEnvError(Exception):
    """Base of every exception this package raises on purpose."""


class ToolInputError(EmailEnvError, ValueError):
    """A tool argument that cannot be used. Its text is written for the model."""


class ConfigurationError(EmailEnvError, ValueError):
    """An option that is out of range or contradicts another."""


class EpisodeError(EmailEnvError, RuntimeError):
    """The environment was used out of order."""


class ScenarioError(EmailEnvError, ValueError):
    """A scenario (question) that is not in a form which `Scenario.from_dict` reads."""


class UnknownScenarioError(ScenarioError, LookupError):
    """A scenario id, index or split that the chosen set does not have."""


class DatabaseError(EmailEnvError, RuntimeError):
    """A mail database that cannot be used."""


class DatabaseNotFoundError(DatabaseError, FileNotFoundError):
    """There is no file at the database's path."""


class DatabaseFormatError(DatabaseError, ValueError):
    """The file is no mail database, or has another schema version."""


class UnknownInboxError(DatabaseError, LookupError):
    """No mail of the database was sent or received by this address."""


class SourceError(EmailEnvError, ValueError):
    """Mail to be built from that is missing, unreadable or of an unknown kind."""


class HubError(EmailEnvError, ConnectionError):
    """A hub data set that is out of reach, or whose package is not installed."""


class BuildError(EmailEnvError, RuntimeError):
    """The database could not be built; what was at the output path is unchanged."""


class CacheError(EmailEnvError, OSError):
    """The per-user cache folder cannot be created or written."""


def check_choice(
    name: str, value: Any, choices: Sequence[object], kind: type[EmailEnvError] = ConfigurationError
) -> Any:
    """The value; raises an error of a kind, with the nearest right one, where it is none of `choices`."""
    if value in choices:
        return value
    near = get_close_matches(str(value), [choice for choice in choices if choice and isinstance(choice, str)], n=1)
    hint = f" Did you mean {near[0]!r}?" if near else ""
    offered = ", ".join(repr(choice) for choice in choices if choice != "")
    raise kind(f"{name} must be one of {offered}; got {value!r}.{hint}")

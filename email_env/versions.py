"""The one place where versions are written: of the package, and of what is on disk.

Those of what is on disk belong to the name of the cached demo database.
"""

__version__ = "0.1.0"

SCHEMA_VERSION = "7"
"""Changes when a mail database gets other tables or columns, or its words another form."""

BUILDER_VERSION = "15"
"""Changes when the same mail gives another database."""

GENERATOR_VERSION = "2"
"""Changes when the same seed gives other demo mails or questions."""

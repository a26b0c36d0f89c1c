"""Versions of what is on disk; each belongs to the name of the cached demo database."""

SCHEMA_VERSION = "7"
"""Changes when a mail database gets other tables or columns, or its words another form."""

BUILDER_VERSION = "13"
"""Changes when the same mail gives another database."""

GENERATOR_VERSION = "1"
"""Changes when the same seed gives other demo mails or questions."""

"""The builder's version; it changes when the same mail would give another database."""

BUILDER_VERSION = "3"

"""The mail database: searches and reads within one inbox, up to one day, over read-only connections."""

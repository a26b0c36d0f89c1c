"""From mail to a database: `sources` reads, `parse` understands, `staging` filters, `build` writes.

All of it runs in one process. Handing 40,000 mails to two workers and taking the parsed ones back cost the first
process 2.0 s of CPU, and parsing them itself costs it 0.8 s. The index takes longest, and SQLite fills it on one core.

What nearly all mail has in common has a fast path (`headers.usual_headers`, `sources.table`, the cached envelope of
`parse`): reading and parsing 100,000 mails of a table fell from 4.8 to 2.8 s of CPU. Everything else takes the general
path, and property tests check that both give the same outcome.

Example::

    from email_env.ingest.build import build_database
    from email_env.ingest.sources import open_source

    source = open_source("enron-maildir.tar.gz")
    report = build_database(source.mails, Path("mail.db"), source=source.name, checksum=source.checksum)
"""

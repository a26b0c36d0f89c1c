"""From mail to a database: `sources` reads, `parse` understands, `staging` filters, `build` writes.

All of it runs in one process. Handing 40,000 mails to two workers and taking the parsed ones back cost the first
process 2.0 s of CPU, and parsing them itself costs it 0.8 s. The index takes longest, and SQLite fills it on one core.

Example::

    from email_env.ingest.build import build_database
    from email_env.ingest.sources import open_source

    source = open_source("enron-maildir.tar.gz")
    report = build_database(source.mails, Path("mail.db"), source=source.name, checksum=source.checksum)
"""

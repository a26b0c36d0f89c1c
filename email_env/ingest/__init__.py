"""From mail to a database: `sources` reads, `parse` understands, `staging` weeds, `build` writes.

Example::

    from email_env.ingest.build import build_database
    from email_env.ingest.sources import open_source

    source = open_source("enron-maildir.tar.gz")
    report = build_database(source.mails, Path("mail.db"), source=source.name, checksum=source.checksum)
"""

from email_env.ingest.mail import ParsedMail, RawMail, Skip, SkipReason

__all__ = ["ParsedMail", "RawMail", "Skip", "SkipReason"]

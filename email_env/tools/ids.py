"""Ids of mail as a small model reads and writes them.

A real Message-ID has some forty characters in parts, `17470830.1075854123748.JavaMail.evans@thyme`. Small models copy
the first part of it. For them there is a short form, `m` and the mail's number in the database, of the same look as the
ids of the bundled mail.
"""

import re

from email_env.search.database import MailDatabase

_SHORT = 12
_NUMBER = re.compile("m([1-9][0-9]{0,17})")


def short_id(database: MailDatabase, message_id: str) -> str:
    """`m` and the number of a mail in the database, instead of a long id; an id of up to 12 characters stays."""
    if len(message_id) <= _SHORT:
        return message_id
    row = database.connection().execute("SELECT id FROM emails WHERE message_id = ?", (message_id,)).fetchone()
    return f"m{row[0]}" if row else message_id


def long_id(database: MailDatabase, given: str) -> str:
    """The id that `short_id` makes `given` of; else `given`."""
    number = _NUMBER.fullmatch(given.strip())
    if not number:
        return given
    row = database.connection().execute("SELECT message_id FROM emails WHERE id = ?", (int(number[1]),)).fetchone()
    return row[0] if row and len(row[0]) > _SHORT else given

"""Ids of mail as a model reads and writes them: whole, their beginning, or short.

A real Message-ID has some forty characters in parts, `17470830.1075854123748.JavaMail.evans@thyme`. Small models copy
the first part of it. For them there is a short form, `m` and the mail's number in the database, of the same look as the
ids of the bundled mail.
"""

import re

from email_env.search.database import MailDatabase
from email_env.search.query import bare_message_id, storable

_MOST_ALIKE = 50
_SHORT = 12
_NUMBER = re.compile("m([1-9][0-9]{0,17})")
_BEGINNING = """
    SELECT message_id FROM emails WHERE message_id >= :key || '.' AND message_id < :key || '/'
    UNION ALL
    SELECT message_id FROM emails WHERE message_id >= :key || '@' AND message_id < :key || 'A' LIMIT :most
"""  # what comes behind a dot is before '/', what comes behind an @ before 'A'


def whole_id(database: MailDatabase, given: str, inbox: str, until: str) -> str:
    """The id that `given` is the beginning of, up to a dot or the @, where one mail alone of the inbox begins so.

    Args:
        database: the mail.
        given: an id, with or without angle brackets.
        inbox: address of the inbox.
        until: day of the last mail that is shown, YYYY-MM-DD.

    Returns:
        `given` without brackets, where it is whole, unknown or the beginning of several.
    """
    key = bare_message_id(given)
    if not key or not storable(key):
        return key
    alike = database.connection().execute(_BEGINNING, {"key": key, "most": _MOST_ALIKE}).fetchall()
    if not alike or database.read(key, inbox=inbox, until=until):
        return key
    own = [name for (name,) in alike if database.read(name, inbox=inbox, until=until)]
    return own[0] if len(own) == 1 and len(alike) < _MOST_ALIKE else key


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

"""Ids of mail as a model writes them: whole, or their beginning.

A real Message-ID has some forty characters in parts, `17470830.1075854123748.JavaMail.evans@thyme`. Small models copy
the first part of it.
"""

from __future__ import annotations

import re

from email_env.search.database import MailDatabase
from email_env.search.query import bare_message_id, storable

_MOST_ALIKE = 50
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


def short_id(database: MailDatabase, message_id: str, inbox: str, until: str) -> str:
    """The shortest beginning of a mail's id, up to a dot or the @, that `whole_id` takes for it; else the whole id.

    Args:
        database: the mail.
        message_id: the id of a mail.
        inbox: address of the inbox.
        until: day of the last mail that is shown, YYYY-MM-DD.
    """
    for end in re.finditer("[.@]", message_id):
        beginning = message_id[: end.start()]
        if beginning and whole_id(database, beginning, inbox, until) == message_id:
            return beginning
    return message_id

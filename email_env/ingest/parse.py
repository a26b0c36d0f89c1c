"""From the bytes of a message to a `ParsedMail`: all bytes give one, and none give an exception."""

import re
from collections.abc import Mapping
from dataclasses import replace
from functools import lru_cache
from hashlib import blake2b
from typing import Any

from email_env.ingest.addresses import display_name, listed_names, parse_mailboxes, parse_sender
from email_env.ingest.body import read_content
from email_env.ingest.dates import NO_DATE, parse_date
from email_env.ingest.headers import readable, split_message
from email_env.ingest.marks import marks_of
from email_env.mail import ParsedMail

_MESSAGE_ID = re.compile(r"<([^<>\s]+)>")
_DELIVERED = ("delivered-to", "x-original-to", "envelope-to")
_ENVELOPE = ("date", "received", "from", "to", "cc", "bcc", "subject", "x-from", "x-to", "x-cc", *_DELIVERED)
_OF_LISTS = ("list-id", "list-post", "mailing-list")
_MAX_LISTED = 30  # mail to more people is mostly left out, and other mail tells their names too


def parse_message(data: bytes, source: str = "", filed: str = "", emlx_flags: int = 0) -> ParsedMail:
    """Reads one RFC 822 message.

    Args:
        data: the message; CRLF, LF and mixed line ends are understood.
        source: label that `ParsedMail.source` carries on.
        filed: a line with the date to guess where the headers have none.
        emlx_flags: those of an .emlx file.

    Returns:
        The message. What cannot be understood is empty, so bytes that are no mail have no addresses. A message without
        a Message-ID gets one that is made from its bytes.
    """
    headers, content = split_message(data)
    body, attachments, attached = read_content(headers, content)
    mail = ParsedMail(
        message_id=parse_message_id(headers.get("message-id", "")) or made_up_id(data),
        body=body,
        source=source,
        listed=any(name in headers for name in _OF_LISTS),
        attachments=attachments,
        attached=attached,
        marks=marks_of(headers, source, emlx_flags),
        **envelope(headers),
    )
    if mail.sent_at == NO_DATE and filed and (guess := parse_date(filed))[1]:
        return replace(mail, sent_at=guess[0])
    return mail


def parse_message_id(header: str) -> str:
    """The id of a Message-ID header without its angle brackets; "" where there is none."""
    match = _MESSAGE_ID.search(header)
    return match[1] if match else "".join(header.split()).strip("<>")


def made_up_id(data: bytes) -> str:
    """A stable id for a message that has none."""
    return f"{blake2b(data, digest_size=12).hexdigest()}@no-message-id"


def envelope(headers: Mapping[str, str]) -> dict[str, Any]:
    """The fields of a `ParsedMail` that tell who sent it to whom, when and about what, by lower-case headers."""
    return _envelope(*[headers.get(name, "") for name in _ENVELOPE])


@lru_cache(maxsize=2048)  # the folders of a mailbox hold many copies of a mail
def _envelope(
    date: str, received: str, sender: str, to: str, cc: str, bcc: str, subject: str, *others: str
) -> dict[str, Any]:
    """`envelope` of the headers `_ENVELOPE`."""
    x_from, x_to, x_cc, *delivered = others
    sent_at, date_ok = parse_date(readable(date))
    if not date_ok:  # the end of the last hop has the time
        arrived = parse_date(received.rpartition(";")[2].strip())
        sent_at, date_ok = arrived if arrived[1] else (sent_at, date_ok)
    from_addr, from_name = parse_sender(sender)
    all_to, all_cc, all_bcc = map(parse_mailboxes, (to, cc, bcc))
    names = (*_names(all_to, x_to), *_names(all_cc, x_cc), *_names(all_bcc, ""))
    return {
        "sent_at": sent_at,
        "date_ok": date_ok,
        "from_addr": from_addr,
        "from_name": from_name or display_name(readable(x_from)),
        "to": tuple(all_to),
        "cc": tuple([address for address in all_cc if address not in all_to]),
        "bcc": tuple([address for address in all_bcc if address not in all_to and address not in all_cc]),
        "subject": " ".join(readable(subject).split()),
        "names": tuple(dict.fromkeys(names)),
        "delivered": tuple(parse_mailboxes(", ".join(filter(None, delivered)))),
    }


def _names(mailboxes: dict[str, str], x_header: str) -> list[tuple[str, str]]:
    """(address, display name) of those mailboxes of a header whose name it or its X-header tells."""
    names = [pair for pair in mailboxes.items() if pair[1]]
    if mailboxes and x_header and len(mailboxes) <= _MAX_LISTED:
        names += listed_names(readable(x_header), mailboxes)
    return names

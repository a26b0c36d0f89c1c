"""From the bytes of a message to a `ParsedMail`: all bytes give one, and none give an exception."""

from __future__ import annotations

import re
from dataclasses import replace
from functools import lru_cache
from hashlib import blake2b

from email_env.ingest.addresses import display_name, listed_names, parse_mailboxes, parse_sender
from email_env.ingest.body import read_content
from email_env.ingest.dates import parse_date
from email_env.ingest.headers import readable, split_message, unfolded
from email_env.mail import ParsedMail

_MESSAGE_ID = re.compile(r"<([^<>\s]+)>")
_CACHED_BYTES = 8192
_Words = tuple[str, ...]
_MAX_LISTED = 30  # mail to more people is mostly left out, and other mail tells their names too


def parse_message(data: bytes, source: str = "", filed: str = "") -> ParsedMail:
    """Reads one RFC 822 message.

    Args:
        data: the message; CRLF, LF, CR and mixed line ends are understood.
        source: label that `ParsedMail.source` carries on.
        filed: the date to guess where the headers have none, in the form of a Date header.

    Returns:
        The message. What cannot be understood is empty, so bytes that are no mail have no addresses. A message without
        a Message-ID gets one that is made from its bytes.
    """
    headers, body = split_message(data)
    message_id, date, sender, to, subject, cc, content_type, transfer_encoding, bcc, *others, disposition = headers
    # The folders of a mailbox hold many copies of a mail, so envelopes are cached; very long headers are not.
    envelope = _envelope if len(data) - len(body) <= _CACHED_BYTES else _envelope.__wrapped__
    fields = envelope(date, sender, to, cc, bcc, subject, *others)
    content = read_content(unfolded(content_type), unfolded(transfer_encoding), body, unfolded(disposition))
    parsed = ParsedMail(
        parse_message_id(unfolded(message_id)) or made_up_id(data),
        *fields[:8],
        content.body,
        source,
        *fields[8:],
        content.attachments,
        content.attached,
    )
    if not parsed.date_ok and filed and (guess := parse_date(filed))[1]:
        return replace(parsed, sent_at=guess[0])
    return parsed


def parse_message_id(header: str) -> str:
    """The id of a Message-ID header without its angle brackets; "" where there is none."""
    match = _MESSAGE_ID.search(header)
    return match[1] if match else "".join(header.split()).strip("<>")


def made_up_id(data: bytes) -> str:
    """A stable id for a message that has none."""
    return f"{blake2b(data, digest_size=12).hexdigest()}@no-message-id"


@lru_cache(maxsize=4096)
def _envelope(
    date: str, sender: str, to: str, cc: str, bcc: str, subject: str, *others: str
) -> tuple[str, bool, str, str, _Words, _Words, _Words, str, tuple[tuple[str, str], ...], _Words, bool]:
    """The fields of `ParsedMail` from `sent_at` to `subject` and from `names` to `listed`, made from folded headers."""
    x_from, x_to, x_cc, received, delivered, mailing_list = others
    from_addr, from_name = parse_sender(unfolded(sender))
    all_to, all_cc = _mailboxes(to), _mailboxes(cc)
    all_bcc = all_cc if bcc == cc else _mailboxes(bcc)  # Enron's Bcc repeats Cc
    names: list[tuple[str, str]] = []
    for addresses, x_header in ((all_to, x_to), (all_cc, x_cc), (all_bcc, "")):
        if any(addresses.values()):
            names += [pair for pair in addresses.items() if pair[1]]
        if addresses and x_header and len(addresses) <= _MAX_LISTED:
            names += listed_names(readable(x_header), addresses)
    sent_at, date_ok = parse_date(unfolded(date))
    if not date_ok and received:  # the end of the last hop has the time
        arrived = parse_date(unfolded(received).rpartition(";")[2].strip())
        sent_at, date_ok = arrived if arrived[1] else (sent_at, date_ok)
    return (
        sent_at,
        date_ok,
        from_addr,
        from_name or display_name(readable(x_from)),
        tuple(all_to),
        tuple([a for a in all_cc if a not in all_to]),
        tuple([a for a in all_bcc if a not in all_to and a not in all_cc]),
        " ".join(readable(subject).split()),
        tuple(dict.fromkeys(names)),
        tuple(_mailboxes(delivered)),
        mailing_list != "",
    )


def _mailboxes(header: str) -> dict[str, str]:
    return parse_mailboxes(unfolded(header)) if header else {}

"""From the bytes of a message to a `ParsedMail`: all bytes give one, and none give an exception."""

from __future__ import annotations

import re
from email.header import decode_header
from functools import lru_cache
from hashlib import blake2b

from email_env.ingest.addresses import display_name, listed_names, parse_mailboxes, parse_sender
from email_env.ingest.body import body_text
from email_env.ingest.dates import parse_date
from email_env.ingest.headers import split_message, unfolded
from email_env.ingest.text import decode, without_controls
from email_env.mail import ParsedMail

_MESSAGE_ID = re.compile(r"<([^<>\s]+)>")
_CACHED_BYTES = 8192


def parse_message(data: bytes, source: str = "") -> ParsedMail:
    """Reads one RFC 822 message.

    Args:
        data: the message; CRLF, LF and mixed line ends are understood.
        source: label that `ParsedMail.source` carries on.

    Returns:
        The message. What cannot be understood is empty, so bytes that are no mail have no addresses. A message without
        a Message-ID gets one that is made from its bytes.
    """
    headers, body = split_message(data)
    message_id, date, sender, to, subject, cc, content_type, transfer_encoding, bcc, x_from, x_to, x_cc = headers
    # The folders of a mailbox hold many copies of a mail, so envelopes are cached; very long headers are not.
    envelope = _envelope if len(data) - len(body) <= _CACHED_BYTES else _envelope.__wrapped__
    fields = envelope(date, sender, to, cc, bcc, subject, x_from, x_to, x_cc)
    return ParsedMail(
        parse_message_id(unfolded(message_id)) or made_up_id(data),
        *fields[:8],
        body_text(unfolded(content_type), unfolded(transfer_encoding), body),
        source,
        fields[8],
    )


def parse_message_id(header: str) -> str:
    """The id of a Message-ID header without its angle brackets; "" where there is none."""
    match = _MESSAGE_ID.search(header)
    return match[1] if match else "".join(header.split()).strip("<>")


def made_up_id(data: bytes) -> str:
    """A stable id for a message that has none."""
    return f"{blake2b(data, digest_size=12).hexdigest()}@no-message-id"


@lru_cache(maxsize=4096)
def _envelope(
    date: str, sender: str, to: str, cc: str, bcc: str, subject: str, x_from: str, x_to: str, x_cc: str
) -> tuple[str, bool, str, str, tuple[str, ...], tuple[str, ...], tuple[str, ...], str, tuple[tuple[str, str], ...]]:
    """The fields of `ParsedMail` from `sent_at` to `subject`, and `names`, made from folded headers."""
    from_addr, from_name = parse_sender(_readable(sender))
    all_to, all_cc, all_bcc = (
        parse_mailboxes(_readable(to)),
        parse_mailboxes(_readable(cc)),
        parse_mailboxes(_readable(bcc)),
    )
    names = [(address, name) for address, name in (*all_to.items(), *all_cc.items(), *all_bcc.items()) if name]
    names += listed_names(_readable(x_to), tuple(all_to))
    names += listed_names(_readable(x_cc), tuple(all_cc))
    return (
        *parse_date(unfolded(date)),
        from_addr,
        from_name or display_name(_readable(x_from)),
        tuple(all_to),
        tuple([a for a in all_cc if a not in all_to]),
        tuple([a for a in all_bcc if a not in all_to and a not in all_cc]),
        " ".join(_readable(subject).split()),
        tuple(dict.fromkeys(names)),
    )


def _readable(header: str) -> str:
    """A header on one line, with its RFC 2047 words decoded."""
    text = unfolded(header)
    if "=?" not in text:
        return text
    try:
        parts = decode_header(text)
    except Exception:  # bad base64, bad charset names, ...
        return text
    words = (p if isinstance(p, str) else decode(p, (c or "").lower()) for p, c in parts)
    return without_controls("".join(words))

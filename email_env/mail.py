"""What flows through a build: raw mail from a source, parsed mail, and skipped mail with the reason."""

from dataclasses import dataclass
from enum import StrEnum


class SkipReason(StrEnum):
    """Why a message of the source is not in the database."""

    NO_ADDRESSES = "no_addresses"
    """Neither a sender nor a recipient: no inbox could show it. Files that are no mail end here."""
    UNREADABLE = "unreadable"
    """An entry whose bytes cannot be read, or a row of a table without a message."""
    PACKED = "packed"
    """A file that is not opened: an archive in an archive, others that are packed but no gzipped mbox, and MMDF."""
    TOO_LARGE = "too_large"
    """The raw message is over `sources.MAX_MESSAGE_BYTES`."""
    UNDELIVERED = "undelivered"
    """In the folder `tmp` of a Maildir: its delivery has not ended."""
    DELETED = "deleted"
    """Filter: its mailbox marks it as deleted or trash, as Thunderbird also does with what was moved or changed."""
    SPAM = "spam"
    """Filter: its mailbox marks it as spam."""
    DRAFT = "draft"
    """Filter: its mailbox marks it as not sent yet."""
    LABEL = "label"
    """Filter: it has another of `Filters.marks`."""
    OTHER_INBOX = "other_inbox"
    """Filter: none of `Filters.inboxes` sent or received it."""
    BODY_TOO_LONG = "body_too_long"
    """Filter: the body has more characters than `Filters.max_body_chars`."""
    TOO_MANY_RECIPIENTS = "too_many_recipients"
    """Filter: more distinct recipients than `Filters.max_recipients`."""
    DUPLICATE_MESSAGE_ID = "duplicate_message_id"
    """A message with this id that says the same was already taken."""
    DUPLICATE_CONTENT = "duplicate_content"
    """Filter: everyone on it already has a mail with the same sender, subject and body that was not sent later."""


@dataclass(slots=True)
class RawMail:
    """A message as bytes, with a label of where it came from (path within the source).

    `filed` is the line of the source that says when it came; "" where none does. `emlx_flags` are those of an .emlx
    file.
    """

    source: str
    data: bytes
    filed: str = ""
    emlx_flags: int = 0


@dataclass(slots=True)
class ParsedMail:
    """A message in the form the database stores.

    Attributes:
        message_id: without angle brackets.
        sent_at: in the zone of the mail, `YYYY-MM-DDTHH:MM:SS` with `-07:00`, or with `Z` in UTC.
        date_ok: False where the date is missing, unreadable or implausible; `sent_at` is then the best guess.
        from_addr: lower-case, "" where unknown.
        from_name: display name of the sender, "" where unknown.
        to: lower-case addresses, each once over `to`, `cc` and `bcc` together.
        cc: as `to`.
        bcc: as `to`.
        subject: one line.
        body: text with `\\n` line ends.
        source: label of where the message came from.
        names: (address, display name) of recipients whose name the mail tells.
        delivered: lower-case addresses that it was delivered to, by the headers that a server adds.
        listed: whether it came by a mailing list.
        attachments: names of the attached files, each once.
        attached: the text of attached files, calendars and messages.
        marks: what its mailbox marks it as, in lower case.
    """

    message_id: str
    sent_at: str
    date_ok: bool
    from_addr: str
    from_name: str
    to: tuple[str, ...]
    cc: tuple[str, ...]
    bcc: tuple[str, ...]
    subject: str
    body: str
    source: str = ""
    names: tuple[tuple[str, str], ...] = ()
    delivered: tuple[str, ...] = ()
    listed: bool = False
    attachments: tuple[str, ...] = ()
    attached: str = ""
    marks: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Skip:
    """A message that was seen and left out."""

    source: str
    reason: SkipReason

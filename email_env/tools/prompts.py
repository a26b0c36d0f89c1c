"""Every word that the model reads, apart from the mail's own: system message, search results, a mail, errors.

Each token costs a small model time and context, so the forms are compact: one line for a search hit, and no labels.
"""

from collections.abc import Mapping, Sequence

from email_env.scenarios.scenario import Scenario
from email_env.search.database import MAX_COUNTED, Email, SearchHit
from email_env.tools.found import Found
from judges.common.text import shown

ANSWER_RECEIVED = "Answer received."
_MAX_LISTED = 20
_MAX_SUBJECT_CHARS = 150
_MAX_SNIPPET_CHARS = 300  # a "word" of a mail can be kilobytes of encoded data


def system_message(scenario: Scenario, max_turns: int) -> str:
    """Who the agent is, whose mail it searches, and its limits; the schemas describe the tools."""
    return (
        f"You are an email search agent. Answer from the mailbox of {scenario.inbox}, using the tools."
        f" Today is {scenario.query_date}. You have {max_turns} turns."
        ' If the mail does not say, answer "I don\'t know".'
    )


def search_results(
    found: Found, keywords: Sequence[str], filters: Mapping[str, str] | None = None, *, terse: bool = False
) -> str:
    """One line for each hit, `m4821 | 2024-03-05 | Anna Keller | Subject | snippet`, or advice where there is none.

    A line above the hits that match only some of the keywords says so, and a line below the hits says that there are
    more. Markup in a mail is escaped. `terse` leaves out what has been counted.
    """
    lines = [_hit_line(hit) for hit in found.hits]
    if found.full < len(lines):
        lines.insert(found.full, _partial_line(found, terse))
    elif found.offset + found.full < found.total and lines:
        shown_to = found.offset + found.full
        total = f"{found.total} or more" if found.total == MAX_COUNTED else found.total
        first = f"{found.offset + 1} to " if found.offset else ""
        lines.append(f"[{first}{shown_to} of {total} shown; offset {shown_to} shows more]")
    if lines:
        return "\n".join(lines)
    if found.total:
        return f"No more mail; {found.total} match."
    return _no_hits(keywords, filters or {}) + _alone(found)


def _hit_line(hit: SearchHit) -> str:
    return " | ".join(
        (
            hit.message_id,
            hit.sent_at[:10],
            _line(hit.from_name or hit.from_addr, _MAX_SUBJECT_CHARS),
            _line(hit.subject, _MAX_SUBJECT_CHARS),
            _line(hit.snippet, _MAX_SNIPPET_CHARS),
        )
    )


def _partial_line(found: Found, terse: bool) -> str:
    if found.full or found.offset:
        return "Mail with some of the words:"
    if terse:
        return "No mail matches all keywords. Some match:"
    return f"No mail matches all keywords.{_alone(found)} Some of the words match:"


def _no_hits(keywords: Sequence[str], filters: Mapping[str, str]) -> str:
    asked = ", ".join(f'"{keyword}"' for keyword in keywords)
    if not filters:
        return f"No mail matches all of: {asked}. Try fewer or other keywords."
    given = " and ".join(f"{name} {value}" for name, value in filters.items())
    if not asked:
        return f"No mail with {given}. Try other ones, or keywords."
    return f"No mail with {given} matches all of: {asked}. Try without {' or '.join(filters)}, or other keywords."


def _alone(found: Found) -> str:
    """How many mails each part of a search fits alone, so that the next one can leave out or change what fits none."""
    if not found.alone:
        return ""
    counts = (f"{part} {f'{MAX_COUNTED}+' if count == MAX_COUNTED else count}" for part, count in found.alone)
    return f" Alone: {', '.join(counts)}."


def whole_email(email: Email, max_body_chars: int, offset: int = 0, *, terse: bool = False) -> str:
    """The mail with its headers, and of its body `max_body_chars` from `offset` on; a line says where it is cut."""
    sender = f"{email.from_name} <{email.from_addr}>" if email.from_name else email.from_addr
    lines = [f"From: {sender}", f"To: {_listed(email.to)}"]
    lines += [
        f"{name}: {_listed(addresses)}" for name, addresses in (("Cc", email.cc), ("Bcc", email.bcc)) if addresses
    ]
    zone = email.sent_at[19:].replace(":", "").removesuffix("Z")
    lines += [f"Date: {email.sent_at[:10]} {email.sent_at[11:16]} {zone}".rstrip(), f"Subject: {email.subject}"]
    if email.attachments:
        lines.append(f"Attachments: {_listed(email.attachments)}")
    body = email.body.strip()
    end = offset + max_body_chars
    part = body[offset:end]
    if offset and not part:
        part = f"No more text; the mail has {len(body)} characters."
    elif offset:
        part = f"[from character {offset} of {len(body)}]\n{part}"
    if len(body) > end:
        part += f"\n[... {len(body) - end} more characters{'' if terse else f'; offset {end} shows them'}]"
    return "\n".join(lines) + f"\n\n{part}"


def question_again(question: str) -> str:
    """What stands below a mail where the question is repeated."""
    return f"\n\nQuestion: {question}"


def unknown_email(message_id: str) -> str:
    """The result of reading an id that this inbox does not show."""
    return f"Error: this inbox has no mail {shown(message_id)}. Use an id from the search results."


def error(message: str) -> str:
    """An error as the model sees it."""
    return f"Error: {message}"


def _line(text: str, max_chars: int) -> str:
    """The text on one line, cut at `max_chars`, with `<` and `>` escaped. `&` stays: one can search for "R&D"."""
    text = " ".join(text.split())
    text = text if len(text) <= max_chars else f"{text[:max_chars]}..."
    return text.replace("<", "&lt;").replace(">", "&gt;")


def _listed(values: Sequence[str]) -> str:
    shown = ", ".join(values[:_MAX_LISTED])
    more = len(values) - _MAX_LISTED
    return f"{shown} and {more} more" if more > 0 else shown

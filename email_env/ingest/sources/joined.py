"""Several sources read one after another as one, so that one database holds a person's mail from everywhere."""

from __future__ import annotations

from collections.abc import Generator, Sequence
from contextlib import ExitStack, closing
from dataclasses import replace
from pathlib import Path

from email_env.ingest.sources.source import MARK, Source
from email_env.mail import ParsedMail, Skip

_NAMED = 10
_STEPS = 1000  # a source's progress is in bytes, files or messages: added up as thousandths of each


def joined_source(sources: Sequence[Source]) -> Source:
    """The mail of all sources in this order, labelled `SOURCE::PLACE`, or `SOURCE` where that is a message. A source
    without mail gives a note.
    """
    names = [Path(source.name).name or source.name for source in sources]
    if len(set(names)) < len(names):
        names = [source.name for source in sources]
    notes: list[str] = []

    def mails() -> Generator[ParsedMail | Skip, None, None]:
        with ExitStack() as opened:
            for source in sources:
                opened.enter_context(closing(source.mails))
            for name, source in zip(names, sources, strict=True):
                empty = True
                for mail in source.mails:
                    empty = False
                    is_whole = mail.source == Path(source.name).name  # a saved message, whose folder is no mailbox
                    yield replace(mail, source=name if is_whole else f"{name}{MARK}{mail.source}")
                notes.extend(source.notes)
                if empty:
                    notes.append(f"{source.name} has no mail.")

    def checksum() -> str:
        checksums = [source.checksum() for source in sources]
        return " ".join(checksums) if all(checksums) else ""

    more = f" and {len(sources) - _NAMED:,} more" if sources[_NAMED:] else ""
    return Source(
        ", ".join(source.name for source in sources[:_NAMED]) + more,
        mails(),
        [scenario for source in sources for scenario in source.scenarios],
        notes,
        total=lambda: _STEPS * len(sources),
        position=lambda: sum(_STEPS * source.position() // max(source.total(), 1) for source in sources),
        checksum=checksum,
    )

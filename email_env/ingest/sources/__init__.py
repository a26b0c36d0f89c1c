"""Where mail comes from: `open_source` finds out what a source is and opens it, `open_sources` opens several as one.

Every source is read as a stream: archives are never unpacked, and downloads are not kept. `file` finds out what a file
is, alone or in a folder or an archive, `stream` has its bytes, and `source` what all sources give.
"""

import os
from collections.abc import Callable, Generator, Sequence
from contextlib import ExitStack, closing
from dataclasses import replace
from functools import partial
from pathlib import Path

from email_env.errors import SourceError, check_choice
from email_env.ingest.sources.archive import tar_mails, zip_mails
from email_env.ingest.sources.file import SUFFIXES, TABLES, eml_mails, kind_by_content, kind_by_name
from email_env.ingest.sources.folder import folder_source
from email_env.ingest.sources.mbox import mbox_mails
from email_env.ingest.sources.source import MARK, MAX_MESSAGE_BYTES, OUTLOOK_ADVICE, Source, counted_source
from email_env.ingest.sources.stream import beginning, is_url, stream_source, unpacked
from email_env.ingest.sources.tables import hub_source
from email_env.mail import ParsedMail, Skip
from email_env.scenarios.hub import MAILS, is_dataset

__all__ = ["FORMATS", "MAX_MESSAGE_BYTES", "Source", "open_source", "open_sources"]

_SHOWN = 10
_STEPS = 1000  # a source's progress is in bytes, files or messages: added up as thousandths of each


def _demo(_location: str) -> Source:
    from email_env import demo

    corpus = demo.generate()
    return counted_source("demo", ([mail] for mail in corpus.mails), len(corpus.mails), corpus.scenarios)


_OF_FILES = {"tar": tar_mails, "mbox": mbox_mails, "zip": zip_mails, "eml": eml_mails, **TABLES}
FORMATS: dict[str, Callable[[str], Source]] = {
    "demo": _demo,
    "hub": hub_source,
    "folder": folder_source,
    **{kind: partial(stream_source, read=read) for kind, read in _OF_FILES.items()},
}
"""Kinds of source by the name that `--format` takes."""

_FROM_URL = ("tar", "mbox", "csv", "jsonl")  # the others do not come in the order in which they are read


def open_source(spec: str | Path | None = None, format: str | None = None) -> Source:
    """Opens a source.

    Args:
        spec: `demo`, a file, a folder, a web address or a hub data set; None for the hub data set of Enron's mail.
        format: one of `FORMATS`; None to find out by name and first bytes.

    Raises:
        SourceError: there is no such source, or its kind is not known. Reading `Source.mails` raises it too, where
            the source turns out to be damaged.
    """
    location = (format if format == "demo" else MAILS) if spec is None else str(spec)
    kind = _detected(location) if format is None else format
    check_choice("the format", kind, tuple(FORMATS), SourceError)
    if kind == "demo" and location != "demo":
        raise SourceError(
            f"Format demo is the bundled mailboxes, which are not in {location!r}. Name another format, or no source."
        )
    if is_url(location):
        if kind not in _FROM_URL:
            raise SourceError(f"A {kind} source cannot be read from {location!r}; download it and name the file.")
    elif kind not in ("demo", "hub") and not os.path.exists(location):
        raise SourceError(_no_mail(location))
    return FORMATS[kind](location)


def open_sources(specs: Sequence[str | Path] = (), format: str | None = None) -> Source:
    """Opens several sources as one; none for the hub data set of Enron's mail. Arguments and errors: `open_source`.

    The mail of several is labelled `SOURCE::PLACE`, or `SOURCE` where that is a message. One without mail gives a note.
    """
    if len(specs) < 2:
        return open_source(specs[0] if specs else None, format)
    sources = [open_source(spec, format) for spec in specs]
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

    more = f" and {len(sources) - _SHOWN:,} more" if sources[_SHOWN:] else ""
    return Source(
        ", ".join(source.name for source in sources[:_SHOWN]) + more,
        mails(),
        [scenario for source in sources for scenario in source.scenarios],
        notes,
        total=lambda: _STEPS * len(sources),
        position=lambda: sum(_STEPS * source.position() // max(source.total(), 1) for source in sources),
        checksum=checksum,
    )


def _detected(location: str) -> str:
    """The format of a source by its name, or the first bytes of a file."""
    if location in ("demo", MAILS):
        return "demo" if location == "demo" else "hub"
    if os.path.isdir(location):
        return "hub" if is_dataset(Path(location)) else "folder"
    if not is_url(location) and not os.path.exists(location):
        raise SourceError(_no_mail(location))
    name = Path(location.partition("?")[0] if is_url(location) else location).name
    kind = kind_by_name(name)
    if not kind and not is_url(location):
        try:
            with open(location, "rb") as handle:
                kind = kind_by_content(name, beginning(unpacked(location, handle)))
        except OSError as error:
            raise SourceError(f"Cannot read {location!r}: {error.strerror}.") from error
    if kind == "Outlook":
        raise SourceError(f"{name!r} is a file of Outlook's, which is not read.{OUTLOOK_ADVICE}")
    if kind and kind not in FORMATS:
        raise SourceError(f"{location!r} is a file of {kind}, which is not read. Unpack it, or make an mbox of it.")
    if not kind:
        raise SourceError(f"Unknown kind of mail {name!r}. Name it with --format: {', '.join(_OF_FILES)}, folder.")
    return kind


def _no_mail(location: str) -> str:
    return (
        f"No mail at {location!r}. A source is `demo`, a folder of mail, a file (.{', .'.join(SUFFIXES)}, .gz), the web"
        " address of one, or with --format hub a data set."
    )

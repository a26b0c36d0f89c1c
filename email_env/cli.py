"""`build-enron-db` turns mail into a searchable database.

    build-enron-db demo --out data/demo.db
    build-enron-db enron_mail_20150507.tar.gz --out data/enron.db
    build-enron-db takeout.zip ~/Maildir --out data/mine.db

Progress goes to stderr, so `--json` leaves stdout to the report alone.
"""

from __future__ import annotations

import json
import os
import shlex
import sys
from contextlib import closing
from dataclasses import asdict
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING

import click
from click.core import ParameterSource

from email_env.errors import EmailEnvError
from email_env.ingest.sources import FORMATS, open_sources
from email_env.versions import __version__

if TYPE_CHECKING:
    from email_env.ingest.build import BuildReport
    from email_env.ingest.sources import Source
    from email_env.ingest.staging import Filters
    from email_env.scenarios.scenario import Scenario

_SHOWN_OWNERS = 10
_NO_INPUT = ("out", "report", "as_json")


@click.command(short_help="Build a mail database.", epilog="Example: build-enron-db demo --out data/demo.db")
@click.argument("sources", nargs=-1, metavar="[SOURCE]...")
@click.option(
    "--out", "-o", required=True, type=click.Path(path_type=Path), help="Database to write; an old one is replaced."
)
@click.option(
    "--format",
    "format_",
    type=click.Choice(list(FORMATS)),
    help="The kind of every SOURCE. Without it, the name and the first bytes tell.",
)
@click.option("--limit", type=click.IntRange(min=1), help="Read at most this many messages.")
@click.option(
    "--inbox", "inboxes", multiple=True, metavar="ADDRESS", help="Take only mail of this inbox; may be repeated."
)
@click.option(
    "--owner",
    "owners",
    multiple=True,
    metavar="ADDRESS[,ADDRESS]...",
    help="Whose mail this is: all addresses of one person, whose inbox then has the mail of each; may be repeated."
    " Other owners of folders are found.",
)
@click.option(
    "--max-body-chars",
    type=click.IntRange(min=0),
    default=5000,
    show_default=True,
    help="Leave out mail with a longer body; 0 is no limit.",
)
@click.option(
    "--max-recipients",
    type=click.IntRange(min=0),
    default=30,
    show_default=True,
    help="Leave out mail to more people; 0 is no limit.",
)
@click.option("--keep-duplicates", is_flag=True, help="Keep copies with the same sender, subject and body.")
@click.option("--keep-marked", is_flag=True, help="Keep mail that its mailbox marks as deleted, spam or draft.")
@click.option(
    "--leave-out", "labels", multiple=True, metavar="LABEL", help="Leave out mail of this Gmail label; may be repeated."
)
@click.option(
    "--scenarios",
    metavar="FILE|NAME",
    help="Questions to put in: a JSONL file, or the hub data set corbt/enron_emails_sample_questions."
    " Without it, the source's own questions.",
)
@click.option(
    "--max-evidence",
    type=click.IntRange(min=0),
    help="Leave out questions that need more mails than this; 0 is no limit.  [default: 1 for a hub data set, else 0]",
)
@click.option("--report", type=click.Path(path_type=Path), help="JSONL file that lists every skipped mail and why.")
@click.option("--json", "as_json", is_flag=True, help="Print the summary as JSON.")
@click.version_option(__version__)
def main(
    sources: tuple[str, ...],
    out: Path,
    format_: str | None,
    limit: int | None,
    inboxes: tuple[str, ...],
    owners: tuple[str, ...],
    max_body_chars: int,
    max_recipients: int,
    keep_duplicates: bool,
    keep_marked: bool,
    labels: tuple[str, ...],
    scenarios: str | None,
    max_evidence: int | None,
    report: Path | None,
    as_json: bool,
) -> None:
    """Build a mail database that EmailSearch-v0 can search, from one SOURCE or several.

    \b
    A SOURCE is one of
      (nothing)       the hub data set corbt/enron-emails, streamed (extra `hub`)
      demo            the bundled mailboxes
      *.tar.gz *.tar  an archive with one file per message, such as CMU's
                      enron_mail_20150507.tar.gz: streamed, never unpacked
      https://...     the same, .csv, .jsonl, .mbox or .mbox.gz on the web
      FOLDER          a Maildir with its .Folders, a tree such as CMU's, .eml and
                      .emlx files, mbox files: each file is read for what it is
      *.zip           an archive of messages or mbox files, as Google Takeout's
      *.mbox *.mbox.gz  an mbox file, gzipped or not
      *.eml *.emlx    a message; .emlx is Apple Mail's
      *.csv           a table with the columns file and message
      *.jsonl *.parquet  records in the schema of the hub data set

    The build leaves out mail without any address, mail marked as deleted, spam or draft, bodies over 5,000 characters,
    mail to more than 30 people, and copies of a mail that everyone on it already has; the summary counts them. It
    writes nothing if anything goes wrong.
    """
    from email_env.ingest.marks import MARKS
    from email_env.ingest.staging import Filters
    from email_env.scenarios.sets import load_scenarios

    questions_file = None if scenarios is None else os.path.expanduser(scenarios)
    files = [os.path.realpath(file) for file in (*sources, questions_file, out, report) if file is not None]
    if len(set(files)) < len(files):
        raise click.UsageError("Every SOURCE, --scenarios, --out and --report must be different files.")
    filters = Filters(
        max_body_chars=max_body_chars or None,
        max_recipients=max_recipients or None,
        drop_duplicates=not keep_duplicates,
        marks=(*(() if keep_marked else MARKS), *(label.strip().lower() for label in labels)),
        inboxes=tuple(dict.fromkeys(inbox.strip().lower() for inbox in inboxes)),
    )
    people = _people(owners)
    try:
        questions = None if scenarios is None else load_scenarios(scenarios, max_evidence)
        done = _build(open_sources(sources, format_), out, limit, questions, filters, people, report)
    except EmailEnvError as error:
        raise click.ClickException(str(error)) from error
    except KeyboardInterrupt:
        click.echo(f"Stopped; {out} is as it was.", err=True)
        sys.exit(130)
    click.echo(json.dumps(asdict(done), indent=2) if as_json else _summary(done))


def _build(
    source: Source,
    out: Path,
    limit: int | None,
    questions: list[Scenario] | None,
    filters: Filters,
    owners: list[tuple[str, ...]],
    report: Path | None,
) -> BuildReport:
    """Builds the database, showing how far it is."""
    from email_env.ingest.build import build_database
    from email_env.ingest.skips import skip_list
    from judges.common.progress import progress

    try:
        with closing(source.mails), skip_list(report) as on_skip, progress() as show:

            def on_read(read: int, skipped: int) -> None:
                done, total = (read, limit) if limit else (source.position(), source.total())
                step = "Indexing" if done == total else "Reading"
                show(f"{step}: {read:,} read, {skipped:,} left out", done, total)

            return build_database(
                islice(source.mails, limit),
                out,
                scenarios=source.scenarios if questions is None else questions,
                source=source.name,
                filters=filters,
                owners=owners,
                checksum=source.checksum,
                command=_command(click.get_current_context()),
                progress=on_read,
                on_skip=on_skip,
            )
    finally:  # they say why no mail is left, too
        for note in source.notes:
            click.echo(f"Note: {note}", err=True)


def _people(owners: tuple[str, ...]) -> list[tuple[str, ...]]:
    """The addresses of each owner, in lower case."""
    people = [tuple(dict.fromkeys(address.strip().lower() for address in owner.split(","))) for owner in owners]
    every = [address for person in people for address in person]
    for address in every:
        if "@" not in address.strip("@") or " " in address:
            raise click.BadParameter(f"{address!r} is no address; write --owner ann@a.com,ann@b.com.")
        if every.count(address) > 1:
            raise click.BadParameter(f"{address} belongs to two owners; name all addresses of a person in one --owner.")
    return people


def _command(context: click.Context) -> str:
    """The command as it was typed, without the options that do not shape the database."""
    words = ["build-enron-db"]
    for parameter in context.command.params:
        name = str(parameter.name)
        if name in _NO_INPUT or context.get_parameter_source(name) is not ParameterSource.COMMANDLINE:
            continue
        given = context.params[name]
        for value in given if isinstance(given, tuple) else (given,):
            option = parameter.opts[:1] if isinstance(parameter, click.Option) else []
            words += option if isinstance(value, bool) else [*option, str(value)]
    return shlex.join(words)


def _summary(report: BuildReport) -> str:
    rate = report.read / max(report.seconds, 1e-9)
    lines = [
        f"{report.path}: {_counted(report.kept, 'mail')} of {_counted(report.addresses, 'address', 'es')},"
        f" {report.bytes / 1e6:,.1f} MB",
        f"  read      {report.read:,} from {report.source} in {report.seconds:.1f} s ({rate:,.0f}/s)",
        *(f"  left out  {count:,} {reason.replace('_', ' ')}" for reason, count in report.skipped.items()),
    ]
    has_folders = any(folder for owner in report.owners for folder in owner.folders)
    for owner in report.owners[:_SHOWN_OWNERS]:
        named = [folder or "the top level" for folder in owner.folders if folder or has_folders]
        folders = ", ".join(named[:3]) + (f" and {len(named) - 3} more" if named[3:] else "")
        where = f", all mail of {folders}" if folders else ""
        lines.append(
            f"  owner     {', '.join((owner.address, *owner.aliases))}: {_counted(owner.mails, 'mail')}{where}"
        )
    if report.owners[_SHOWN_OWNERS:]:
        lines.append(f"            and {len(report.owners) - _SHOWN_OWNERS:,} more; --json lists all")
    if report.uncertain_dates:
        lines.append(f"  dates     {report.uncertain_dates:,} missing or implausible, kept and marked")
    if report.scenarios:
        lines.append(f"  questions {report.scenarios:,}")
    if report.scenario_misfits:
        lines.append(f"  questions {len(report.scenario_misfits):,} left out, for example:")
        lines.extend(f"    {key}: {why}" for key, why in islice(report.scenario_misfits.items(), 5))
    return "\n".join(lines)


def _counted(number: int, noun: str, plural: str = "s") -> str:
    return f"{number:,} {noun}{'' if number == 1 else plural}"

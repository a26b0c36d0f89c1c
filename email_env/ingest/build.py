"""Writes a mail database: all of it or nothing.

Mails wait in a temporary table, lose their duplicates, are numbered from the newest to the oldest and indexed in bulk.
The database grows beside its destination. SQLite's own check and a count come last, and then one rename puts it into
its place. Whatever goes wrong before that, Ctrl-C included, leaves the destination as it was.

The words are indexed before the mails are written, because merging the index leaves free pages, which the mails then
fill; in the other order the file was 4 to 8 % larger. A build does not end with VACUUM: pages in order took 1.5 % off
the mean search, but cost 0.9 s and room for the database a second time.
"""

import json
import os
import re
import sqlite3
import time
from collections.abc import Callable, Iterable, Sequence
from contextlib import closing, suppress
from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path

from email_env.errors import BuildError
from email_env.ingest.mailboxes import Owner
from email_env.ingest.staging import COLUMNS, Filters, Staging
from email_env.mail import ParsedMail, Skip, SkipReason
from email_env.scenarios.misfits import sort_out
from email_env.scenarios.scenario import Scenario
from email_env.search.query import COMMON_MAILS, index_text, who
from email_env.versions import BUILDER_VERSION, SCHEMA_VERSION
from judges.common.files import replacing

_PAGE_BYTES = 16384  # a page holds eight pages of the index, or several mails: 6 % of it is waste, of 4096 bytes 16 %
_CACHE_KIB = 16384
_INDEXED = "subject, body, who, sender_names, recipient_names, attachments"
_FTS_SETTINGS = {
    "hashsize": 64 << 20,  # words wait here to be written in bulk: less costs time, 128 MB is too much memory
    "pgsz": 2000,  # bytes of a page of the index: half of the usual, so that a search skips more; 6 % of its time
    "automerge": 0,  # 'optimize' merges everything once, at the end
    "crisismerge": 2000,
}
_SAMPLED_MAILS = 2000
_STEPS_BETWEEN_SIGNALS = 100_000
_ROOM = (
    "A build needs room beside the database, and about as much in the folder for temporary files"
    " (SQLITE_TMPDIR, else TMPDIR, else /var/tmp). "
)
_SCHEMA = f"""
    CREATE TABLE meta (key TEXT PRIMARY KEY, value TEXT) WITHOUT ROWID;
    CREATE TABLE emails (
        id INTEGER PRIMARY KEY, message_id TEXT, sent_at TEXT, date_ok INTEGER, from_addr TEXT, from_name TEXT,
        to_addrs TEXT, cc_addrs TEXT, bcc_addrs TEXT, subject TEXT, attachments TEXT, body TEXT, who TEXT,
        source TEXT, sender_names TEXT, recipient_names TEXT
    );
    CREATE TABLE addresses (address TEXT PRIMARY KEY, id INTEGER) WITHOUT ROWID;
    CREATE TABLE owners (address TEXT PRIMARY KEY, folders TEXT, mails INTEGER) WITHOUT ROWID;
    CREATE TABLE days (day TEXT PRIMARY KEY, first_id INTEGER, end_id INTEGER) WITHOUT ROWID;
    CREATE TABLE common_words (word TEXT PRIMARY KEY, mails INTEGER) WITHOUT ROWID;
    CREATE TABLE scenarios (scenario_id TEXT PRIMARY KEY, split TEXT, inbox TEXT, data TEXT);
    CREATE VIRTUAL TABLE emails_fts USING fts5({_INDEXED}, content="emails", content_rowid="id");
"""

_PRAGMAS = f"""
    PRAGMA page_size = {_PAGE_BYTES}; PRAGMA cache_size = -{_CACHE_KIB};
    PRAGMA journal_mode = OFF; PRAGMA synchronous = OFF;
"""  # temporary tables, of which the first is made later, have pages of this size too

_FILL_DAYS = """
    INSERT INTO days SELECT day, min(first) OVER (ORDER BY day), max(last) OVER (ORDER BY day DESC) + 1
    FROM (SELECT substr(sent_at, 1, 10) AS day, min(id) AS first, max(id) AS last FROM emails GROUP BY day)
"""  # of all mail up to a day the first number, and of all mail from it on the last


@dataclass(frozen=True, slots=True)
class BuildReport:
    """What a build did: `read` is `kept` plus all of `skipped`, and `bytes` is the size of the file at `path`.

    `source_sha256` is "" where the source is no single file, or was not read to its end.
    """

    path: str
    source: str
    source_sha256: str
    read: int
    kept: int
    skipped: dict[str, int]
    addresses: int
    uncertain_dates: int
    scenarios: int
    scenario_misfits: dict[str, str]
    owners: list[Owner]
    bytes: int
    seconds: float


def build_database(
    mails: Iterable[ParsedMail | Skip],
    out: str | Path,
    *,
    scenarios: Iterable[Scenario] = (),
    source: str,
    filters: Filters | None = None,
    owners: Sequence[tuple[str, ...]] = (),
    checksum: Callable[[], str] = lambda: "",
    command: str = "",
    progress: Callable[[int, int], None] = lambda read, skipped: None,
    on_skip: Callable[[Skip], None] = lambda skip: None,
) -> BuildReport:
    """Builds the database at `out`, replacing what is there.

    Args:
        mails: the mails to put in, and those that the source already skipped.
        out: path of the database.
        scenarios: questions to put in. A question whose evidence its inbox cannot show by its query date is left out
            and named in the report.
        source: where the mail comes from, for the metadata.
        filters: `Filters()` where None.
        owners: the lower-case addresses of each person whose mail this is, as far as they are known. The owners of
            folders are found (`email_env.ingest.mailboxes`).
        command: the command that builds the same database again, without `--out`; a newer release shows it.
        checksum: called when `mails` has been read, for the metadata.
        progress: called with (messages read, messages skipped) every few hundred messages.
        on_skip: called with every message that is left out.

    Raises:
        BuildError: no mail is left, or none of an owner or an inbox that was asked for, `out` is something other than a
            mail database, or it cannot be written. Errors of `mails` pass through. In either case `out` is unchanged.
    """
    started = time.perf_counter()
    out = Path(out)
    _check_replaceable(out)
    questions = list(scenarios)
    evidence = {message_id for question in questions for message_id in question.message_ids}
    try:
        with replacing(out) as temporary, closing(sqlite3.connect(temporary, isolation_level=None)) as connection:
            connection.set_progress_handler(lambda: None, _STEPS_BETWEEN_SIGNALS)  # lets a Ctrl-C interrupt SQLite
            connection.create_function("plain", 1, index_text, deterministic=True)
            connection.executescript(_PRAGMAS + _SCHEMA)
            staging = Staging(connection, filters or Filters(), evidence, owners, progress, on_skip)
            report = _fill(connection, staging, mails, questions, source, checksum, command)
        size = out.stat().st_size
    except (sqlite3.Error, OSError) as error:
        code = getattr(error, "sqlite_errorcode", None)
        if code == sqlite3.SQLITE_INTERRUPT:
            raise KeyboardInterrupt from None
        hint = _ROOM if code in (sqlite3.SQLITE_FULL, sqlite3.SQLITE_IOERR_WRITE) else ""
        raise BuildError(f"Cannot build {str(out)!r}: {error}. {hint}Nothing was written there.") from error
    return replace(report, path=str(out), bytes=size, seconds=time.perf_counter() - started)


def _check_replaceable(out: Path) -> None:
    """Raises BuildError where something other than a mail database is at `out`, for example mail or a device."""
    if not os.path.exists(out) or os.path.isdir(out):  # a folder is told where it is written to
        return
    is_ours = os.path.isfile(out) and not os.path.getsize(out)
    if os.path.isfile(out) and not is_ours:
        uri = f"{out.absolute().as_uri()}?mode=ro&immutable=1"
        with suppress(sqlite3.Error), closing(sqlite3.connect(uri, uri=True)) as old:
            old.execute("PRAGMA writable_schema = 1")  # without it, a database that is cut short cannot be opened
            is_ours = bool(old.execute("SELECT 1 FROM meta WHERE key = 'builder_version'").fetchone())
    if not is_ours:
        raise BuildError(f"{str(out)!r} is there and is no mail database. Remove it, or name another file.")


def _fill(
    connection: sqlite3.Connection,
    staging: Staging,
    mails: Iterable[ParsedMail | Skip],
    questions: list[Scenario],
    source: str,
    checksum: Callable[[], str],
    command: str,
) -> BuildReport:
    _stage(connection, staging, mails, source)
    _index_words(connection)
    _write_mails(connection, staging.address_numbers())
    fitting, misfits = sort_out(connection, questions)
    report = _report(connection, staging, source, checksum(), len(fitting), misfits)
    _write_facts(connection, report, fitting, staging.filters, command)
    _write_owners(connection, report.owners, fitting)
    _count_common_words(connection, report.kept)
    _verify(connection, report.kept)
    return report


def _stage(connection: sqlite3.Connection, staging: Staging, mails: Iterable[ParsedMail | Skip], source: str) -> None:
    """Reads all mail, and numbers what the filters leave."""
    connection.execute("BEGIN")
    staging.run(mails)
    staging.give_to_owners()
    staging.tell_apart()
    if staging.filters.drop_duplicates:
        staging.drop_duplicates()
    if staging.filters.inboxes and (absent := staging.drop_other_inboxes()):
        raise _no_mail(staging, source, absent)
    connection.execute("COMMIT")
    staging.number()


def _index_words(connection: sqlite3.Connection) -> None:
    """Indexes the words of the numbered mail, and merges the index once."""
    connection.execute("BEGIN")
    for setting in _FTS_SETTINGS.items():
        connection.execute("INSERT INTO emails_fts (emails_fts, rank) VALUES (?, ?)", setting)
    _index(connection, "emails_fts", _INDEXED, "newest_first")
    connection.execute("COMMIT")
    connection.execute("BEGIN")
    connection.execute("INSERT INTO emails_fts (emails_fts) VALUES ('optimize')")
    connection.execute("COMMIT")


def _index(connection: sqlite3.Connection, index: str, columns: str, mails: str) -> None:
    """Puts these columns of `mails` into an index, with their text as `index_text` makes it.

    Of what is raised within a function that it calls, SQLite keeps no more than that it failed. `index_text` raises
    nothing, whatever the text, so that was a Ctrl-C. Calling it ourselves, mail by mail, took 9 % more of a build.
    """
    as_indexed = re.sub("subject|body|attachments", r"plain(\g<0>)", columns)
    try:
        connection.execute(f"INSERT INTO {index} (rowid, {columns}) SELECT id, {as_indexed} FROM {mails}")
    except sqlite3.OperationalError as error:
        raise (KeyboardInterrupt if error.sqlite_errorcode == sqlite3.SQLITE_ERROR else error) from None


def _write_mails(connection: sqlite3.Connection, address_numbers: dict[str, int]) -> None:
    connection.execute("BEGIN")
    columns = f"id, {COLUMNS}, sender_names, recipient_names"
    connection.execute(f"INSERT INTO emails ({columns}) SELECT {columns} FROM newest_first")
    connection.execute("CREATE UNIQUE INDEX emails_message_id ON emails (message_id)")
    connection.execute(_FILL_DAYS)
    connection.executemany("INSERT INTO addresses (address, id) VALUES (?, ?)", address_numbers.items())
    connection.execute("COMMIT")


def _report(
    connection: sqlite3.Connection,
    staging: Staging,
    source: str,
    checksum: str,
    scenarios: int,
    misfits: dict[str, str],
) -> BuildReport:
    """What was kept and what was left out; together this must be all that was read."""
    kept, uncertain = connection.execute("SELECT count(*), ifnull(sum(NOT date_ok), 0) FROM emails").fetchone()
    skipped = {reason.value: staging.skipped[reason] for reason in SkipReason if staging.skipped[reason]}
    if not kept:
        why = ", ".join(f"{count:,} {reason.replace('_', ' ')}" for reason, count in skipped.items()) or "it is empty"
        raise _no_mail(staging, f"{source} ({why})")
    if staging.read != kept + sum(skipped.values()):
        raise BuildError(f"{staging.read} messages came in, {kept} are kept and {skipped} skipped: they must add up.")
    owners = staging.known_owners(partial(_mails_of, connection))
    if absent := [owner.address for owner in owners if owner.is_named and not owner.mails]:
        raise _no_mail(staging, f"{source}. Check --owner", absent)
    return BuildReport(
        path="",
        source=source,
        source_sha256=checksum,
        read=staging.read,
        kept=kept,
        skipped=skipped,
        addresses=len(staging.people.ids),
        uncertain_dates=uncertain,
        scenarios=scenarios,
        scenario_misfits=misfits,
        owners=sorted((owner for owner in owners if owner.mails), key=lambda owner: -owner.mails),
        bytes=0,
        seconds=0.0,
    )


def _no_mail(staging: Staging, source: str, inboxes: Sequence[str] = ()) -> BuildError:
    whose = f" of {', '.join(inboxes)}" if inboxes else ""
    return BuildError(f"No mail{whose} is left of {staging.read:,} from {source}. Nothing was written.")


def _write_facts(
    connection: sqlite3.Connection, report: BuildReport, scenarios: list[Scenario], filters: Filters, command: str
) -> None:
    """Writes the questions, and what the database is made of."""
    from sqlite_utils import Database

    tables = Database(connection)
    tables.table("scenarios").insert_all(
        {"scenario_id": q.scenario_id, "split": q.split, "inbox": q.inbox, "data": _json(q.to_dict())}
        for q in scenarios
    )
    facts = {
        "schema_version": SCHEMA_VERSION,
        "builder_version": BUILDER_VERSION,
        "source": report.source,
        "source_sha256": report.source_sha256,
        "command": command,
        "filters": _json(asdict(filters)),
        "read": str(report.read),
        "kept": str(report.kept),
        "skipped": _json(report.skipped),
        "scenarios": str(report.scenarios),
    }
    tables.table("meta").insert_all({"key": key, "value": value} for key, value in facts.items())


def _write_owners(connection: sqlite3.Connection, owners: list[Owner], scenarios: list[Scenario]) -> None:
    """Writes whose mailboxes these are: of the owners, and of those about whose inbox there are questions."""
    known = {address for owner in owners for address in (owner.address, *owner.aliases)}
    asked = dict.fromkeys(scenario.inbox for scenario in scenarios if scenario.inbox not in known)
    rows = [(owner.address, ", ".join(owner.folders), owner.mails) for owner in owners]
    rows += [(address, "", _mails_of(connection, address)) for address in asked]
    connection.executemany("INSERT INTO owners VALUES (?, ?, ?)", rows)


def _mails_of(connection: sqlite3.Connection, address: str) -> int:
    """How many mails an inbox has."""
    found = connection.execute("SELECT id FROM addresses WHERE address = ?", (address,)).fetchone()
    who_match = f"who : {who('p', found[0])}" if found else ""
    count = "SELECT count(*) FROM emails_fts WHERE emails_fts MATCH ?"
    return connection.execute(count, (who_match,)).fetchone()[0] if found else 0


def _count_common_words(connection: sqlite3.Connection, kept: int) -> None:
    """Estimates from a sample in how many mails each common word is; counting them took 5 to 10 % of a build."""
    if kept <= COMMON_MAILS:
        return
    step = -(-kept // _SAMPLED_MAILS)
    words = _INDEXED.replace(" who,", "")
    connection.execute(f"CREATE VIRTUAL TABLE temp.sample USING fts5({words}, content='', detail='none', columnsize=0)")
    connection.execute("INSERT INTO sample (sample, rank) VALUES ('hashsize', ?)", (_FTS_SETTINGS["hashsize"],))
    connection.execute("CREATE VIRTUAL TABLE temp.words USING fts5vocab(temp, sample, row)")
    _index(connection, "sample", words, f"emails WHERE id % {step} = 0")
    connection.execute(
        "INSERT INTO common_words SELECT term, doc * :step FROM words WHERE doc * :step > :common",
        {"step": step, "common": COMMON_MAILS},
    )


def _verify(connection: sqlite3.Connection, kept: int) -> None:
    (verdict,) = connection.execute("PRAGMA integrity_check(1)").fetchone()
    (indexed,) = connection.execute("SELECT count(*) FROM emails_fts_docsize").fetchone()
    if verdict != "ok" or indexed != kept:
        raise BuildError(f"The new database is damaged ({verdict}; {indexed} of {kept} mails indexed). Build again.")


def _json(value: object) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))

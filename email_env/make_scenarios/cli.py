"""`make-scenarios`: an LLM writes questions about the mail of any database, and checks decide which are kept.

    make-scenarios data/mine.db --model openai/gpt-5-mini --out questions.jsonl
    make-scenarios data/mine.db --model qwen3 --api-base http://127.0.0.1:8000/v1 --out questions.jsonl --resume

Progress goes to stderr, so `--json` leaves stdout to the summary alone.
"""

from __future__ import annotations

import json
import sys
from contextlib import closing
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from email_env.errors import EmailEnvError
from email_env.scenarios.scenario import SPLITS
from email_env.versions import __version__
from judges.errors import JudgeCallError, JudgeError
from judges.llm.client import TIMEOUT_SECONDS, JudgeClient
from judges.llm.session import Session, Usage

if TYPE_CHECKING:
    from email_env.make_scenarios.draw import Draw
    from email_env.make_scenarios.maker import Maker
    from email_env.make_scenarios.record import Record

_EXAMPLE = "Example: make-scenarios data/mine.db --model openai/gpt-5-mini --out questions.jsonl"

_NOBODYS = (
    "Note: the database does not say whose mailbox it is, so everyone in it is asked who has enough mail. Name whom to"
    " ask with --inbox, or build the database with --owner."
)


@click.command(short_help="Write questions about mail with an LLM.", epilog=_EXAMPLE)
@click.argument("database", type=click.Path(path_type=Path))
@click.option(
    "--out", "-o", required=True, type=click.Path(dir_okay=False, path_type=Path), help="JSONL file to write."
)
@click.option("--model", required=True, help="A litellm model name, or with --api-base the server's own name for it.")
@click.option("--api-base", metavar="URL", help="A server that speaks OpenAI's protocol, /v1 included.")
@click.option(
    "--limit",
    type=click.IntRange(min=1),
    default=100,
    show_default=True,
    help="Ask about at most this many mails, counting those of the runs that are resumed.",
)
@click.option(
    "--seed", type=int, default=0, show_default=True, help="Decides which mails are drawn, and the split of each inbox."
)
@click.option(
    "--inbox",
    "inboxes",
    multiple=True,
    metavar="ADDRESS",
    help="Take only mail of this inbox, not of every owner; may be repeated.",
)
@click.option(
    "--min-mails",
    type=click.IntRange(min=1),
    default=20,
    show_default=True,
    help="Leave out owners with fewer mails that can be asked about.",
)
@click.option(
    "--min-realism",
    type=click.FloatRange(0, 1),
    default=0.5,
    show_default=True,
    help="Reject questions that the LLM finds less realistic than this.",
)
@click.option("--concurrency", type=click.IntRange(min=1), default=8, show_default=True, help="Mails at a time.")
@click.option(
    "--timeout",
    type=click.FloatRange(min=0, min_open=True),
    default=TIMEOUT_SECONDS,
    show_default=True,
    help="Seconds for one answer of the LLM.",
)
@click.option("--resume", is_flag=True, help="Continue the files that are there.")
@click.option("--json", "as_json", is_flag=True, help="Print the summary as JSON.")
@click.version_option(__version__)
def main(
    database: Path,
    out: Path,
    model: str,
    api_base: str | None,
    limit: int,
    seed: int,
    inboxes: tuple[str, ...],
    min_mails: int,
    min_realism: float,
    concurrency: int,
    timeout: float,
    resume: bool,
    as_json: bool,
) -> None:
    """Write questions about the mail of DATABASE with an LLM, for EmailSearch-v0 and build-enron-db --scenarios.

    The LLM proposes one question per mail. A question is kept if its answer stands in the mail, if neither the subject
    nor another mail of the inbox contains the answer (as far as searches and the LLM find), if the LLM finds it
    realistic, and if the environment can mark it. Each inbox is in one split: train, validation or test. The mails that
    gave no question are listed beside OUT, in a file that ends in .rejected.jsonl, with the reason.

    The mail is sent to the LLM. The key comes from the provider's variable, such as OPENAI_API_KEY.

    Exit status 3 means that the LLM gave no answer for some mails; --resume asks again.
    """
    from email_env.make_scenarios.draw import draw_mails, owners
    from email_env.make_scenarios.maker import Maker
    from email_env.make_scenarios.record import Record
    from email_env.search.database import MailDatabase

    rejected = out.with_name(f"{out.name.removesuffix('.jsonl')}.rejected.jsonl")
    try:
        llm, session = JudgeClient(model, api_base, timeout_seconds=timeout), Session(max_concurrency=concurrency)
        with closing(MailDatabase(database)) as mail:
            chosen = {inbox.strip().lower() for inbox in inboxes}
            if not chosen and not owners(mail.connection()):
                click.echo(_NOBODYS, err=True)
            drawn = draw_mails(mail.connection(), seed=seed, min_mails=min_mails, inboxes=chosen)
            draws = list(islice(drawn, limit))
            with Record(out, rejected, resume=resume) as record:
                record.check(draws)
                try:
                    failures = _make(Maker(mail, llm, session, min_realism=min_realism), draws, record, concurrency)
                except KeyboardInterrupt:
                    click.echo(f"Stopped; {out} keeps what is finished. Go on with --resume.", err=True)
                    click.echo(_summary(out, rejected, record, [], session.usage), err=True)
                    sys.exit(130)
                except OSError as error:
                    kept = (
                        f"{len(record.done):,} mails are finished; make room or see to the disk, and --resume goes on."
                    )
                    raise click.ClickException(f"{out} or {rejected} cannot be written: {error}. {kept}") from error
    except (EmailEnvError, JudgeError, OSError) as error:
        raise click.ClickException(str(error)) from error
    if as_json:
        click.echo(json.dumps(_counts(record, failures, session.usage), indent=2))
    else:
        click.echo(_summary(out, rejected, record, failures, session.usage))
    if failures:
        sys.exit(3)


def _make(maker: Maker, draws: list[Draw], record: Record, concurrency: int) -> list[JudgeCallError]:
    """Makes a question of every draw that is not finished; returns why the LLM gave no answer for some."""
    import asyncio

    from email_env.make_scenarios.maker import make_all
    from judges.common.progress import progress

    left = [draw for draw in draws if draw.scenario_id not in record.done]
    with progress() as show:

        def on_done(done: int, failed: int) -> None:
            questions = sum(record.splits.values())
            show(f"{done:,} of {len(left):,} mails, {questions:,} questions, {failed:,} failed", done, len(left))

        try:
            return asyncio.run(make_all(maker, left, record, concurrency=concurrency, on_done=on_done))
        except JudgeCallError as error:
            kept = f"{len(record.done):,} mails are finished; --resume goes on."
            raise click.ClickException(f"{_told(error)} {kept}") from error


def _told(error: JudgeCallError) -> str:
    return f"{error}. Check --model, --api-base, --timeout and the provider's key."


def _counts(record: Record, failures: list[JudgeCallError], usage: Usage) -> dict[str, Any]:
    return {
        "questions": sum(record.splits.values()),
        "splits": {split: record.splits.get(split, 0) for split in SPLITS},
        "rejected": {reason.value: count for reason, count in sorted(record.reasons.items())},
        "failed": len(failures),
        "last_failure": _told(failures[-1]) if failures else None,
        "usage": usage.to_dict(),
    }


def _summary(out: Path, rejected: Path, record: Record, failures: list[JudgeCallError], usage: Usage) -> str:
    splits = ", ".join(f"{record.splits.get(split, 0):,} {split}" for split in SPLITS)
    lines = [f"{out}: {sum(record.splits.values()):,} questions ({splits}) from {len(record.done):,} mails"]
    for reason, count in sorted(record.reasons.items(), key=lambda item: -item[1]):
        lines.append(f"  rejected  {count:,} {reason.value.replace('_', ' ')}")
    if record.reasons:
        lines.append(f"            listed in {rejected}")
    if failures:
        lines.append(f"  failed    {len(failures):,} without an answer of the LLM; --resume asks again")
        lines.append(f"            the last: {_told(failures[-1])}")
    tokens = f"{usage.prompt_tokens:,} + {usage.completion_tokens:,} tokens"
    cost = f", ${usage.cost_dollars:,.2f}" if usage.cost_dollars else ""
    return "\n".join([*lines, f"  LLM       {usage.calls:,} answers, {tokens}{cost}"])

"""Command line `grpo-judge`: what can be asked of judges and of recorded judgements without new rollouts.

Thin on purpose: options become a call, errors become one clear line and an exit status. Heavy imports wait until a
command runs, so ``--help`` is instant and opens no connection.

Exit status: 0 done, 1 an error that was explained, 2 wrong usage, 130 stopped by the user.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import click

from judges.errors import JudgeError, JudgeInputError


class _Explained(click.Group):
    """One boundary for every command: our errors are printed without a traceback."""

    def invoke(self, ctx: click.Context) -> Any:
        try:
            return super().invoke(ctx)
        except JudgeError as error:
            click.echo(f"Error: {error}", err=True)
            sys.exit(1)
        except KeyboardInterrupt:
            click.echo("\nStopped. Judgements that were recorded or cached are kept.", err=True)
            sys.exit(130)


def _show_progress(compared: int, failed: int) -> None:
    click.echo(f"\r{compared} groups judged, {failed} without a verdict", nl=False, err=True)


def _text_of(rubric: Path | None) -> str | None:
    try:
        return rubric.read_text(encoding="utf-8") if rubric else None
    except (OSError, UnicodeError) as error:
        raise JudgeInputError(f"the rubric {rubric} cannot be read: {error}; write it as text in UTF-8") from error


@click.group(cls=_Explained, epilog="Example: grpo-judge replay runs/judged --judge-model openai/gpt-4.1")
def main() -> None:
    """Judge again what was judged, and measure how far a judge can be trusted."""


@main.command(epilog="Example: grpo-judge replay runs/judged --judge-model openai/gpt-4.1 --cache judge-cache.db")
@click.argument("run", type=click.Path(exists=True, path_type=Path))
@click.option("--judge-model", required=True, multiple=True, help="litellm name; several are averaged.")
@click.option("--judge-api-base", help="OpenAI-compatible URL of the judge; its key comes from the environment.")
@click.option("--rubric", type=click.Path(exists=True, dir_okay=False, path_type=Path), help="Another rubric (a file).")
@click.option("--permutations", type=click.IntRange(1), default=1, show_default=True, help="Orders that are averaged.")
@click.option("--limit", type=click.IntRange(1), help="Judge this many groups, the first ones.")
@click.option("--max-cost", type=click.FloatRange(0, min_open=True), help="Stop when this many dollars are spent.")
@click.option("--concurrency", type=click.IntRange(1), default=8, show_default=True, help="Calls at the same time.")
@click.option("--cache", type=click.Path(dir_okay=False, path_type=Path), help="SQLite file of verdicts to reuse.")
@click.option("--record", type=click.Path(dir_okay=False, path_type=Path), help="JSONL file for the new judgements.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
def replay(
    run: Path,
    judge_model: tuple[str, ...],
    judge_api_base: str | None,
    rubric: Path | None,
    permutations: int,
    limit: int | None,
    max_cost: float | None,
    concurrency: int,
    cache: Path | None,
    record: Path | None,
    as_json: bool,
) -> None:
    """Score the groups of RUN with another judge and print how far the two agree.

    RUN is a run directory with a judgements.jsonl, or such a file. No episode is rolled out again. Kendall's tau and
    the flip rate compare the orders within a group; the mean difference compares the scores themselves.
    """
    from judges.replay import replay as judge_again
    from judges.session import Session

    session = Session(max_concurrency=concurrency, max_cost_dollars=max_cost, cache=cache, record=record)
    agreement = judge_again(
        run,
        judges=judge_model,
        api_base=judge_api_base,
        rubric=_text_of(rubric),
        permutations=permutations,
        limit=limit,
        session=session,
        on_progress=_show_progress if sys.stderr.isatty() else None,
    )
    if sys.stderr.isatty():
        click.echo(err=True)
    click.echo(json.dumps(agreement.to_dict(), indent=2) if as_json else agreement.to_text())


@main.command(epilog="Example: grpo-judge calibrate labelled.jsonl --judge-model openai/o4-mini --permutations 4")
@click.argument("labelled", type=click.Path(exists=True, dir_okay=False, path_type=Path))
@click.option("--judge-model", required=True, help="litellm name.")
@click.option("--judge-api-base", help="OpenAI-compatible URL of the judge; its key comes from the environment.")
@click.option("--rubric", type=click.Path(exists=True, dir_okay=False, path_type=Path), help="Another rubric (a file).")
@click.option("--permutations", type=click.IntRange(1), default=4, show_default=True, help="Orders of each group.")
@click.option("--limit", type=click.IntRange(1), help="Judge this many groups, the first ones.")
@click.option("--max-cost", type=click.FloatRange(0, min_open=True), help="Stop when this many dollars are spent.")
@click.option("--concurrency", type=click.IntRange(1), default=8, show_default=True, help="Calls at the same time.")
@click.option("--cache", type=click.Path(dir_okay=False, path_type=Path), help="SQLite file of verdicts to reuse.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
def calibrate(
    labelled: Path,
    judge_model: str,
    judge_api_base: str | None,
    rubric: Path | None,
    permutations: int,
    limit: int | None,
    max_cost: float | None,
    concurrency: int,
    cache: Path | None,
    as_json: bool,
) -> None:
    """Measure how far a judge can be trusted, on the groups of LABELLED.

    LABELLED is a JSONL file, one group a line: {"trajectories": [[message, ...], ...], "labels": [number, ...]}, with
    "tools" if the agent had any. Higher labels are better; only their order within a group counts.
    """
    from judges.calibration import calibrate as measure
    from judges.labelled import read_labelled
    from judges.session import Session

    calibration = measure(
        read_labelled(labelled)[:limit],
        judge_model,
        api_base=judge_api_base,
        rubric=_text_of(rubric),
        permutations=permutations,
        session=Session(max_concurrency=concurrency, max_cost_dollars=max_cost, cache=cache),
        on_progress=_show_progress if sys.stderr.isatty() else None,
    )
    if sys.stderr.isatty():
        click.echo(err=True)
    click.echo(json.dumps(calibration.to_dict(), indent=2) if as_json else calibration.to_text())


if __name__ == "__main__":
    main()

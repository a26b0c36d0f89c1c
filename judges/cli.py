"""Command line `grpo-judge`: what can be asked of judges and of recorded judgements without new rollouts.

Options become a call, figures become a table, errors become one line and an exit status. Heavy imports wait until a
command runs, so ``--help`` is instant and opens no connection.

Exit status: 0 done, 1 an error that was explained, 2 wrong usage, 130 stopped by the user.
"""

from __future__ import annotations

import errno
import json
import sys
from collections.abc import Callable
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from judges.common.text import for_terminal
from judges.errors import JudgeError, JudgeInputError
from judges.llm.client import TIMEOUT_SECONDS
from judges.llm.loop import STOPPED

if TYPE_CHECKING:
    from judges.reliability.calibration import Calibration
    from judges.reliability.replay import Agreement

_IN_FILE = click.Path(exists=True, dir_okay=False, path_type=Path)
_OUT_FILE = click.Path(dir_okay=False, path_type=Path)


class _ErrorsInOneLine(click.Group):
    """Prints our errors without a traceback, for every command."""

    def invoke(self, ctx: click.Context) -> Any:
        try:
            return super().invoke(ctx)
        except JudgeError as error:
            click.echo(f"Error: {error}", err=True)
            sys.exit(1)
        except OSError as error:
            if error.errno == errno.EPIPE:  # "| head": click ends quietly
                raise
            click.echo(f"Error: {error}; see to the disk, the permissions and the limits (ulimit -a)", err=True)
            sys.exit(1)
        except KeyboardInterrupt:
            click.echo(f"\n{STOPPED}", err=True)
            sys.exit(130)


def _params(_ctx: click.Context, _parameter: click.Parameter, value: str | None) -> dict[str, Any] | None:
    try:
        parsed = None if value is None else json.loads(value)
    except ValueError:
        parsed = value
    if parsed is not None and not isinstance(parsed, dict):
        raise click.BadParameter("it is no JSON object; for example '{\"temperature\": 0}'")
    return parsed


_SHARED_OPTIONS = (
    click.option("--judge-api-base", help="OpenAI-compatible URL; the judge's key comes from the environment."),
    click.option(
        "--rubric", type=_IN_FILE, help="Text file of grading standards, instead of the recorded or generic ones."
    ),
    click.option("--limit", type=click.IntRange(1), help="Judge only the first N groups.", metavar="N"),
    click.option("--max-cost", type=click.FloatRange(0, min_open=True), help="Stop when this many dollars are spent."),
    click.option("--concurrency", type=click.IntRange(1), default=8, show_default=True, help="Calls at the same time."),
    click.option("--cache", type=_OUT_FILE, help="SQLite file that keeps verdicts; none is paid for twice."),
    click.option(
        "--max-prompt-tokens",
        type=click.IntRange(1),
        default=100_000,
        show_default=True,
        help="Longer prompts are cut; keep it some thousands below the judge's context.",
    ),
    click.option(
        "--timeout-seconds",
        type=click.FloatRange(0, min_open=True),
        default=TIMEOUT_SECONDS,
        show_default=True,
        help="For one call.",
    ),
    click.option(
        "--extra-litellm-params",
        callback=_params,
        metavar="JSON",
        help="Parameters of the calls: temperature, reasoning_effort, input_cost_per_token, ...",
    ),
    click.option("--json", "as_json", is_flag=True, help="Print one JSON object instead of a table."),
)
"""What both commands take; those of a call are named as the library's, which its errors tell."""


def _measures(command: Callable[..., Agreement | Calibration]) -> Callable[..., None]:
    """A command that gives figures: it takes the shared options, and the figures are printed."""

    @wraps(command)
    def run(
        judge_api_base: str | None,
        rubric: Path | None,
        concurrency: int,
        max_cost: float | None,
        cache: Path | None,
        as_json: bool,
        record: Path | None = None,
        **options: Any,
    ) -> None:
        from judges.common.progress import progress
        from judges.llm.session import Session

        session = Session(max_concurrency=concurrency, max_cost_dollars=max_cost, cache=cache, record=record)
        standards = _text_of(rubric)
        with progress() as show:

            def on_progress(judged: int, failed: int) -> None:
                show(f"{judged} groups judged, {failed} without a verdict", judged + failed, 0)

            on_progress(0, 0)
            figures = command(
                api_base=judge_api_base, rubric=standards, session=session, on_progress=on_progress, **options
            )
        _print(figures, as_json)

    for option in reversed(_SHARED_OPTIONS):
        run = option(run)
    return run


@click.group(
    cls=_ErrorsInOneLine,
    short_help="Measure how far a judge can be trusted.",
    epilog="Example: grpo-judge replay runs/judged --judge-model openai/gpt-4.1",
)
@click.version_option(package_name="email-rl")
def main() -> None:
    """How far can a judge be trusted? Compare it with another judge, or with labels."""


@main.command(epilog="Example: grpo-judge replay runs/judged --judge-model openai/gpt-4.1 --cache judge-cache.db")
@click.argument("run", type=click.Path(exists=True, path_type=Path))
@click.option("--judge-model", required=True, multiple=True, help="Name for litellm; repeat it to average judges.")
@click.option("--permutations", type=click.IntRange(1), default=1, show_default=True, help="Orders to average.")
@click.option("--record", type=_OUT_FILE, help="JSONL file to which the new judgements are appended.")
@_measures
def replay(run: Path, judge_model: tuple[str, ...], **options: Any) -> Agreement:
    """Judge recorded groups again and compare the scores.

    RUN is a run directory with a judgements.jsonl, or such a file. Another judge scores the groups that stand in it; no
    episode is rolled out again. Kendall's tau-b and the flip rate compare the orders within a group; the mean
    difference compares the scores themselves.
    """
    from judges.reliability.replay import replay as judge_again

    return judge_again(run, judges=judge_model, **options)


@main.command(epilog="Example: grpo-judge calibrate labelled.jsonl --judge-model openai/o4-mini --permutations 4")
@click.argument("labelled", type=_IN_FILE)
@click.option("--judge-model", required=True, help="Name for litellm, such as openai/o4-mini.")
@click.option("--permutations", type=click.IntRange(1), default=4, show_default=True, help="Orders to compare.")
@_measures
def calibrate(labelled: Path, limit: int | None, **options: Any) -> Calibration:
    """Compare a judge's scores with labels.

    LABELLED is a JSONL file, one group a line: {"trajectories": [[message, ...], ...], "labels": [number, ...]}, with
    "tools" if the agent had any and a "rubric" if the group has one of its own. Higher labels are better; only their
    order within a group counts. The figures say how often the judge orders two trajectories as the labels do, how much
    its scores depend on the order in which it sees them, how often it gives no usable verdict, and what a group costs.
    """
    from judges.reliability.calibration import calibrate as measure
    from judges.reliability.groups import read_labelled

    return measure(read_labelled(labelled)[:limit], **options)


def _text_of(rubric: Path | None) -> str | None:
    try:
        text = rubric.read_text(encoding="utf-8-sig") if rubric else None
    except (OSError, UnicodeError) as error:
        raise JudgeInputError(f"the rubric {rubric} cannot be read: {error}; write it as text in UTF-8") from error
    if text is not None and not text.strip():
        raise JudgeInputError(f"the rubric {rubric} is empty; leave it out for the generic one")
    return text


def _print(figures: Agreement | Calibration, as_json: bool) -> None:
    """Print figures as JSON, or as a table with one line a figure."""
    rows = figures.rows()
    width = max(map(len, rows))
    lines = [f"{name:{width}}  {for_terminal(value)}" for name, value in rows.items()]
    click.echo(json.dumps(figures.to_dict(), indent=2) if as_json else "\n".join(lines))


if __name__ == "__main__":
    main()

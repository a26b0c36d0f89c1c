"""``grpo-compare``: two evaluations of the same questions, paired."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

import click

from grpo.cli.common import explained

if TYPE_CHECKING:
    from grpo.eval.compare import Comparison, Measure

SHOWN_CHARS = 100


@click.command(short_help="Compare two evaluations.", epilog="Example: grpo-compare evals/bm25 evals/mine")
@click.argument("a", type=click.Path(exists=True, path_type=Path))
@click.argument("b", type=click.Path(exists=True, path_type=Path))
@click.option("--flips", type=click.IntRange(0), default=20, show_default=True, help="Flipped episodes to print.")
@click.option("--anyway", is_flag=True, help="Compare even where database, split, questions or env differ.")
@click.option("--json", "as_json", is_flag=True, help="Print all of it as JSON, with every flipped episode.")
@explained()
def compare(a: Path, b: Path, flips: int, anyway: bool, as_json: bool) -> None:
    """Compare evaluation B with the baseline A (folders of grpo-eval, or the results.jsonl in them).

    Scenarios are paired. Shown are the difference with its interval, McNemar's exact test, and the episodes that
    flipped.
    """
    from grpo.eval.compare import compare as compared
    from grpo.eval.compare import load_evaluation

    result = compared(load_evaluation(a), load_evaluation(b), anyway=anyway)
    if as_json:
        click.echo(json.dumps(result.to_dict(), indent=2))
        return
    _show(result, flips)


def _show(result: Comparison, limit: int) -> None:
    from grpo.display.metrics import counted
    from grpo.display.terminal import Display
    from grpo.eval.compare import telling

    display = Display()
    for line in result.warnings:
        display.note(line)
    scenarios = counted(result.reward.difference.n, "scenario")
    title = f"A {result.a}, B {result.b}: {scenarios}, paired; in brackets 95 % intervals"
    display.table(title, ["", "A", "B", "B - A"], [_row(measure) for measure in result.measures])
    for line in filter(None, (result.mcnemar, result.conclusion)):
        display.note(line)
    if result.flips and limit:
        gained = sum(flip.change == "gained" for flip in result.flips)
        display.note(f"Flipped: {gained} gained, {len(result.flips) - gained} lost; the greatest change first")
        for flip in telling(result.flips, limit):
            mark = "+" if flip.change == "gained" else "-"
            name = f"{flip.scenario_id}#{flip.sample}"
            display.note(f"{mark} {name} ({flip.reward_change:+.2f})  {_short(flip.question)}")
            answers = {"A": flip.a_answer, "B": flip.b_answer}
            for side, answer in answers.items() if any(answers.values()) else ():  # of a plain env there is none
                display.note(f"    {side}: {'no answer' if answer is None else _short(answer)}")


def _row(measure: Measure) -> list[str]:
    metric, difference = measure.metric, measure.difference
    ends = metric.format_ends(difference).replace(" pp", "")
    change = f"{metric.format_difference(difference.mean)} {ends}"
    return [metric.label, metric.format(measure.a), metric.format(measure.b), change]


def _short(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= SHOWN_CHARS else f"{line[: SHOWN_CHARS - 3]}..."

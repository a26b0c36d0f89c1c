"""``grpo-compare``: two evaluations of the same questions, paired."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

import click

from grpo.cli.common import explained

if TYPE_CHECKING:
    from grpo.display.metrics import ShownMetric
    from grpo.eval.compare import Comparison, Flip, Measure

SHOWN_SCENARIOS = 5
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

    Scenarios are paired. Shown are the difference with its bootstrap interval, McNemar's exact test, and the episodes
    that flipped.
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

    display = Display()
    for line in result.differences:
        display.note(f"Not the same: {line}")
    rows = [[metric.label, *_cells(metric, measure)] for metric, measure in result.measures]
    scenarios = counted(result.scenarios, "scenario")
    title = f"A {result.a}, B {result.b}: {scenarios}, paired; in brackets 95 % bootstrap intervals"
    display.table(title, ["", "A", "B", "B - A"], rows)
    if result.p_value is not None:
        display.note(
            f"McNemar's exact test: {counted(result.gained, 'scenario')} right in B alone, {result.lost} in A alone, "
            f"p = {result.p_value:.3g}"
        )
    display.note(result.conclusion)
    for side, names in (("A", result.unpaired_a), ("B", result.unpaired_b)):
        if names:
            first = ", ".join(names[:SHOWN_SCENARIOS]) + (", ..." if len(names) > SHOWN_SCENARIOS else "")
            display.note(f"Left out, in {side} alone: {counted(len(names), 'scenario')} ({first})")
    if result.flips and limit:
        gained = [flip for flip in result.flips if flip.gained]
        lost = [flip for flip in result.flips if not flip.gained]
        room_for_gained = min(len(gained), max(limit - len(lost), (limit + 1) // 2))
        room_for_lost = min(len(lost), limit - room_for_gained)
        shown = [*gained[:room_for_gained], *lost[len(lost) - room_for_lost :]]
        display.note(f"Flipped: {len(gained)} gained, {len(lost)} lost; best first")
        for flip in shown:
            for line in _lines(flip):
                display.note(line)


def _cells(metric: ShownMetric, measure: Measure) -> list[str]:
    d = measure.difference
    ends = metric.format_ends(d).replace(" pp", "")
    return [metric.format(measure.a), metric.format(measure.b), f"{metric.format_difference(d.mean)} {ends}"]


def _lines(flip: Flip) -> list[str]:
    mark = "+" if flip.gained else "-"
    answers = (
        f"    {side}: {'no answer' if answer is None else _short(answer)}"
        for side, answer in (("A", flip.a_answer), ("B", flip.b_answer))
    )
    return [f"{mark} {flip.key[0]}#{flip.key[1]} ({flip.reward_change:+.2f})  {_short(flip.question)}", *answers]


def _short(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= SHOWN_CHARS else f"{line[: SHOWN_CHARS - 3]}..."


if __name__ == "__main__":
    compare()

"""One judgement, readable, on stderr: prompts, raw answers, parsed scores. Nothing is printed unless asked for."""

from __future__ import annotations

import re

from rich.console import Console
from rich.panel import Panel
from rich.table import Table
from rich.text import Text

from judges.scoring.judgement import Judgement

_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")


def show_judgement(judgement: Judgement) -> None:
    """Print what the judges were asked, their raw answers, and the scores unless a verdict failed."""
    console = Console(stderr=True)
    verdicts, scores = judgement.verdicts, judgement.scores()
    for verdict in verdicts:
        prompt, exchange = verdict.prompt, verdict.exchange
        for message in prompt.messages:
            order = f"seed {prompt.seed}, order {prompt.permutation + 1}"
            title = f"to {verdict.client.model} ({message['role']}, {order})"
            console.print(Panel(_visible(message["content"]), title=Text(title), title_align="left"))
        for number, answer in enumerate(exchange.answers, start=1):
            origin = " (from the cache)" if exchange.cached else " (after the repair turn)" if number > 1 else ""
            console.print(
                Panel(_visible(answer or "(empty)"), title=f"raw answer {number}{origin}", title_align="left")
            )
        if verdict.error is not None:
            console.print(_visible(f"no verdict: {verdict.error}"))
    if not scores:
        return
    table = Table("trajectory", "label", "score", *(["spread", "scores"] if len(verdicts) > 1 else []), "explanation")
    for place, score in enumerate(scores):
        labels = " ".join(dict.fromkeys(verdict.prompt.labels[place] for verdict in verdicts))
        given = " ".join(f"{verdict.entry(place).score:.2f}" for verdict in verdicts)
        several = [f"{score.spread:.3f}", given] if len(verdicts) > 1 else []
        table.add_row(score.trajectory_id, labels, f"{score.score:.3f}", *several, _visible(score.explanation))
    console.print(table)


def _visible(text: str) -> Text:
    """A text that cannot move the cursor of the terminal: a judge may repeat what a mail holds."""
    return Text(_CONTROL.sub("?", text))

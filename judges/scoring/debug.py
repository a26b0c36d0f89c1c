"""One judgement, readable, on stderr: prompts, raw answers, parsed scores. Nothing is printed unless asked for."""

from __future__ import annotations

from rich.console import Console
from rich.panel import Panel
from rich.table import Table
from rich.text import Text

from judges.scoring.judgement import Judgement


def show_judgement(judgement: Judgement) -> None:
    """Print what the judges were asked, their raw answers, and the scores unless a verdict failed."""
    console = Console(stderr=True)
    verdicts, scores = judgement.verdicts, judgement.scores()
    for verdict in verdicts:
        prompt, exchange = verdict.prompt, verdict.exchange
        for message in prompt.messages:
            order = f"seed {prompt.seed}, order {prompt.permutation + 1}"
            title = f"to {verdict.client.model} ({message['role']}, {order})"
            console.print(Panel(Text(message["content"]), title=Text(title), title_align="left"))
        for number, answer in enumerate(exchange.answers, start=1):
            origin = " (from the cache)" if exchange.cached else " (after the repair turn)" if number > 1 else ""
            console.print(Panel(Text(answer or "(empty)"), title=f"raw answer {number}{origin}", title_align="left"))
        if verdict.error is not None:
            console.print(Text(f"no verdict: {verdict.error}"))
    if not scores:
        return
    table = Table("trajectory", "label", "score", *(["spread", "scores"] if len(verdicts) > 1 else []), "explanation")
    for place, score in enumerate(scores):
        labels = " ".join(dict.fromkeys(verdict.prompt.labels[place] for verdict in verdicts))
        given = " ".join(f"{verdict.entry(place).score:.2f}" for verdict in verdicts)
        several = [f"{score.spread:.3f}", given] if len(verdicts) > 1 else []
        table.add_row(score.trajectory_id, labels, f"{score.score:.3f}", *several, Text(score.explanation))
    console.print(table)

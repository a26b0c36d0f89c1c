"""One judgement, readable, on stderr: prompt, raw answers, parsed scores. Nothing is printed unless asked for."""

from __future__ import annotations

from collections.abc import Sequence

from judges.prompt import JudgePrompt
from judges.types import TrajectoryScore


def show_judgement(
    judge_model: str, prompt: JudgePrompt, answers: Sequence[str], scores: Sequence[TrajectoryScore]
) -> None:
    """Print what the judge was asked and what became of its answers. ``scores`` is empty where there is no verdict."""
    from rich.console import Console
    from rich.panel import Panel
    from rich.table import Table
    from rich.text import Text

    console = Console(stderr=True)
    for message in prompt.messages:
        title = f"to {judge_model} ({message['role']}, seed {prompt.seed})"
        console.print(Panel(Text(message["content"]), title=Text(title), title_align="left"))
    for number, answer in enumerate(answers, start=1):
        title = f"raw answer {number}" + (" (after the repair turn)" if number > 1 else "")
        console.print(Panel(Text(answer or "(empty)"), title=title, title_align="left"))
    if not scores:
        console.print("no verdict")
        return
    table = Table("trajectory", "label", "score", "explanation")
    for score, label in zip(scores, prompt.labels, strict=True):
        table.add_row(score.trajectory_id, label, f"{score.score:.3f}", Text(score.explanation))
    console.print(table)

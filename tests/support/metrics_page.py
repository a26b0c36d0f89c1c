"""The text of docs/metrics.md, from the table of meanings; ``python -m tests.support.metrics_page`` writes it."""

from collections.abc import Iterator, Mapping

from grpo.display.meanings import MEANINGS, OF_IMITATION
from grpo.display.steps import COLUMNS
from grpo.report.training import CURVES, SUSPECT
from tests import ROOT

PAGE = ROOT / "docs" / "metrics.md"

INTRODUCTION = """\
# Metrics

You want to know what a number of a run means.

A run writes a line of metrics for each step to `RUN/metrics.jsonl`, and `--track` sends the same numbers to a tracker. A metric that a step cannot
have is left out: a step without an update has no `gap/mean_abs`. [Reports](reports.md) says which charts to look at first, and [Training](training.md#when-nothing-is-learned)
what goes wrong. This page is made from the code (`python -m tests.support.metrics_page`).
"""

OF_MAIL = {
    "success": "1 if the answer is right",
    "answered": "1 if there was an answer",
    "dont_know": '1 if the answer was "I don\'t know" where the mailbox does not prove that right',
    "undecided": "1 if the rule could not decide on the answer",
    "implicit_answer": "1 if the answer was prose, without `return_final_answer`",
    "found": "share of the evidence that searches showed",
    "read": "share of the evidence that was read",
    "turns": "turns",
    "tool_calls": "tool calls",
    "invalid_calls": "tool calls that could not be run",
    "valid_call_rate": "share of tool calls that could be run",
    "unknown_ids": "reads of an id that the inbox does not have",
    "source_precision": "share of the named sources that are evidence",
    "source_recall": "share of the evidence that the answer names",
    "reward": "the reward, the sum of the five below",
    "reward_tier": "the base: right, no answer, wrong, no valid call",
    "reward_partial": "credit for finding and reading, without a right answer",
    "reward_sources": "credit for the sources of a right answer",
    "reward_speed": "credit for turns that are left after a right answer",
    "reward_penalty": "penalties of invalid calls",
    "difficulty_easy": "1 if the question is easy",
    "difficulty_medium": "1 if the question is of medium difficulty",
    "difficulty_hard": "1 if the question is hard",
    "answerable": "1 if the mailbox holds the answer",
}
"""Metrics of EmailSearch-v0."""

OF_PLAIN_ENVS = {
    "return": "sum of the env's rewards",
    "length": "steps of the env",
    "turns": "turns of the policy",
    "invalid_calls": "turns without a valid call",
    "valid_call_rate": "share of turns with a valid call",
    "success": "1 if the env reports success; missing where it never does",
}
"""Metrics of a plain Gymnasium env."""


def page() -> str:
    """The page."""
    return "\n".join(_parts())


def _parts() -> Iterator[str]:
    yield INTRODUCTION
    yield "## Of a training step\n"
    yield "Means are over the step's episodes that did not fail, unless the table says otherwise. The last column says where a report or the terminal shows the metric; a chart with a star is drawn only where a warning is about it.\n"
    yield from _table(MEANINGS, _shown())
    yield "## Of the env\n"
    yield "What an env puts into `info[\"metrics\"]` is logged as `env/NAME`, mean over the step's episodes. Values are those after an episode's last turn.\n"
    yield "`EmailSearch-v0` has these. Flags are 0 or 1, so their mean is a share.\n"
    yield from _table(OF_MAIL, prefix="env/")
    yield "A plain Gymnasium env has these:\n"
    yield from _table(OF_PLAIN_ENVS, prefix="env/")
    yield "Envs of OpenEnv, MCP and verifiers have `env/turns`, `env/calls` and `env/faults` (turns with a wrong call).\n"
    yield "## Of imitation\n"
    yield "`RUN/warmstart.jsonl` of a run's warm start, and `metrics.jsonl` of `grpo-sft`:\n"
    yield from _table(OF_IMITATION)
    yield "## Of an evaluation\n"
    yield (
        "`RUN/eval/LABEL.json` and `summary.json` of `grpo-eval` have, under `metrics`, the names above that are means of episodes: `reward/mean`, `answer/...`, `env/...`, "
        "`turns/...`, `tokens/...`, `time/episode`. Each has `mean`, `low` and `high`, the ends of its 95 % interval (null where there are too few scenarios). "
        "`reward/mean` is over all episodes that count. [Formats](formats.md#summaries) has the other keys.\n"
    )
    yield "## In a tracker\n"
    yield "| name | what it is |"
    yield "|---|---|"
    yield "| the names above | of a training step, by its number |"
    yield "| `warmstart/NAME` | of a step of the warm start |"
    yield "| `eval/greedy/NAME`, `eval/sampled/NAME` | means of the evaluations before and after GRPO: greedy, and at temperature 1 |"
    yield "| `selection/sampled/NAME` | means of the evaluations between steps, which choose the best checkpoint |"
    yield "| `eval/greedy/episodes`, `rollout/episodes`, ... | the best and the worst episode, as text |"
    yield ""


def _shown() -> dict[str, str]:
    charts = {key: f'chart "{title}" *' for title, _, keys in SUSPECT for key, _ in keys}
    charts |= {key: f'chart "{title}"' for title, _, keys in CURVES for key, _ in keys}
    columns = {key: f'column "{title}"' for key, title in COLUMNS}
    return {key: ", ".join(filter(None, (charts.get(key), columns.get(key)))) for key in charts | columns}


def _table(meanings: Mapping[str, str], shown: Mapping[str, str] | None = None, prefix: str = "") -> Iterator[str]:
    head = ["metric", "what it is", *(["shown as"] if shown else [])]
    yield f"| {' | '.join(head)} |"
    yield "|---" * len(head) + "|"
    for name, meaning in meanings.items():
        cells = [f"`{prefix}{name}`", meaning, *([shown.get(name, "")] if shown else [])]
        yield f"| {' | '.join(cells)} |"
    yield ""


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")

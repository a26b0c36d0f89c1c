"""What ``grpo-eval`` prints: a dry run's plan, how far it is, and the table of a summary with the lines below it."""

import json
import shlex
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import click

from grpo.display.metrics import CORRECT, REWARD, RunningMean, ShownMetric, counted, short_duration
from grpo.display.terminal import Bar, Display
from grpo.ending import Ending
from grpo.episodes.player import PlannedEpisode
from grpo.episodes.summary import told
from grpo.statistics import slice_order
from grpo.types import Episode

_SHARES = (
    CORRECT,
    ShownMetric("answer/none", "No answer", 1, True),
    ShownMetric("env/dont_know", '"I don\'t know"', 1, True),
    ShownMetric("env/undecided", "Undecided by rule", 1, True),
    ShownMetric("answer/implicit", "Answer in prose", 1, True),
    ShownMetric("env/source_precision", "Source precision", 1, True),
    ShownMetric("env/source_recall", "Source recall", 1, True),
)
_NUMBERS = (
    REWARD,
    ShownMetric("turns/mean", "Turns", 2),
    ShownMetric("env/tool_calls", "Tool calls", 2),
    ShownMetric("env/invalid_calls", "Invalid calls", 2),
    ShownMetric("tokens/calls_mean", "Model calls", 2, exceptional=True),
    ShownMetric("tokens/prompt_mean", "Prompt tokens", 0, exceptional=True),
    ShownMetric("tokens/completion_mean", "Completion tokens", 0, exceptional=True),
)
_ONLY_OF_ANSWERS = {"answer/none", "answer/implicit"}


class EvaluationProgress(Bar):
    """How far an evaluation is; ``Display.progress`` makes it and shows it.

    ``37/100  correct 43.2 %  errors 2  tokens 81,204  0.8/s  1 min 19 s left``
    """

    def __init__(self, *args: Any):
        super().__init__(*args)
        self.errors = 0
        self.tokens = 0
        self.cost = 0.0
        self.correct = RunningMean()
        self.reward = RunningMean()

    def add(self, episode: Episode, *, earlier: bool = False) -> None:
        """Count an episode; ``earlier`` ones were played by a former process."""
        self.earlier += earlier
        self.errors += not episode.ending.compared
        self.tokens += episode.num_prompt_tokens + episode.num_sampled_tokens
        self.cost += episode.cost or 0.0
        if episode.correct is not None:
            self.correct.add(float(episode.correct))
        if episode.ending.counted:
            self.reward.add(episode.reward)
        self.update()

    def parts(self) -> list[str]:
        """How good, what failed, and what it took."""
        score = "no score yet"
        if self.correct.count:
            score = f"correct {CORRECT.format(self.correct.mean)}"
        elif self.reward.count:
            score = f"reward {self.reward.mean:.3f}"
        tokens = [f"tokens {self.tokens:,}"] if self.tokens else []
        return [score, f"errors {self.errors}", *tokens, *([f"${self.cost:.4f}"] if self.cost else [])]


def print_plan(config: Mapping[str, Any], episodes: Sequence[PlannedEpisode], *, as_json: bool) -> None:
    """Print what a dry run would play."""
    names = [f"{planned.task.key}#{planned.sample_index}" for planned in episodes]
    if as_json:
        click.echo(json.dumps({**config, "episodes": names}, indent=2))
        return
    for name, value in config.items():
        click.echo(f"{name:12} {json.dumps(value) if isinstance(value, dict) else value}")
    first = ", ".join(names[:3]) + (", ..." if len(names) > 3 else "")
    click.echo(f"{len(names)} episodes would be played: {first}")


def print_summary(summary: Mapping[str, Any], folder: Path, *, as_json: bool) -> None:
    """Print an evaluation's summary, and where the evaluation lies."""
    if as_json:
        click.echo(json.dumps({**summary, "folder": str(folder)}, indent=2))
        return
    split = f", {summary['split']} split" if summary["split"] else ""
    title = f"{summary['agent']} on {summary['env']}{split}; in brackets 95 % intervals, clustered by scenario"
    Display().table(title, ["", ""], list(table_rows(summary)))
    for entry in summary["errors"][:5]:
        click.echo(told(entry))
    if summary["model"] and summary["metrics"].get("tokens/calls_mean", {}).get("mean") == 0:
        where = "model.base_url (OPENAI_BASE_URL and ANTHROPIC_BASE_URL for a program)"
        click.echo(f"No request came to the model of --model; the agent is to send them to {where}")
    if worst := [
        f"{entry['scenario_id']} ({entry['reward']:.2f})" for entry in summary["worst"] if entry["correct"] < 1
    ]:
        click.echo(f"Worst: {', '.join(worst)}")
    click.echo(f"Saved in {folder}; a page of it: grpo-view {shlex.quote(str(folder))}")


def table_rows(summary: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Names and values of the table; what an env does not measure has no row."""
    metrics, k, endings = summary["metrics"], len(summary["pass_at_k"]), dict(summary["endings"])
    asks = summary["answers"] > 0 or Ending.ANSWERED not in endings  # else the env ends its episodes by itself
    if not asks:
        endings = {"ended by the env": endings.pop(Ending.ANSWERED), **endings}
    yield "Episodes", f"{summary['episodes']} of {summary['planned']}, {counted(summary['scenarios'], 'scenario')}"
    for metric in _SHARES:
        if metric.name in metrics and ((asks and CORRECT.name in metrics) or metric.name not in _ONLY_OF_ANSWERS):
            yield metric.label, metric.with_interval(metrics[metric.name])
    if k > 1:
        yield f"pass@{k}", CORRECT.format(summary["pass_at_k"][str(k)])
        yield f"pass^{k}", CORRECT.format(summary["pass_hat_k"][str(k)])
    if refusal := summary["refusal"]:
        yield f"Refusals right ({refusal['episodes']} unanswerable)", CORRECT.with_interval(refusal["correct"])
        yield "Hallucination rate", CORRECT.with_interval(refusal["hallucination_rate"])
        if refusal["false_refusal_rate"]:
            yield "False refusal rate", CORRECT.with_interval(refusal["false_refusal_rate"])
    for metric in _NUMBERS:
        if (value := metrics.get(metric.name)) and metric.is_shown([value["mean"]]):
            yield metric.label, metric.with_interval(value)
    yield from _costs(summary)
    yield "Ended", _counts(endings.items())
    if summary["error_codes"]:
        yield "Invalid calls by kind", _counts(sorted(summary["error_codes"].items(), key=lambda item: -item[1]))
    for name in sorted(summary["slices"], key=slice_order):
        if share := summary["slices"][name].get(CORRECT.name):
            yield f"Correct, {name}", CORRECT.with_interval(share)
    if summary["failed"]:
        yield "Infrastructure failures", f"{summary['failed']}, in no mean; --resume plays them again"


def _costs(summary: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    if judge := summary["answer_judge"]:
        by_model = f"{judge['by_model']} by {summary['judge_model']}"
        yield "Answer judge", f"{judge['verdicts']} answers ({by_model}), {judge['accepted']} accepted"
        if judge["audited"]:
            yield "Audit of the rule", f"{judge['audited']} that it accepted, {judge['refused']} refused by the judge"
    if summary["cost"] is not None:
        yield "Cost", f"${summary['cost']:.4f}"
    if latency := summary["latency"]:
        yield "Latency p50 / p95", f"{_duration(latency['p50'])} / {_duration(latency['p95'])}"


def _counts(pairs: Any) -> str:
    return ", ".join(f"{name} {count}" for name, count in pairs)


def _duration(seconds: float) -> str:
    return f"{1000 * seconds:.1f} ms" if seconds < 1 else short_duration(seconds)

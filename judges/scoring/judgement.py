"""One judgement of a group: the verdicts of several judges on several orders, their means, and the record of it all."""

import asyncio
import sys
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from statistics import fmean
from typing import Any

from judges.common.text import for_terminal
from judges.errors import JudgeError
from judges.llm.ask import Exchange, Question, ask
from judges.llm.client import JudgeClient
from judges.llm.prompt_text import as_plain
from judges.llm.session import Session
from judges.scoring.prompt import JudgePrompt
from judges.scoring.types import Message, TrajectoryScore
from judges.scoring.verdict import RESPONSE_FORMAT, Entry, parse_verdict


@dataclass(slots=True)
class Verdict:
    """What one judge answered on one order: entries by label, or the error."""

    client: JudgeClient
    prompt: JudgePrompt
    exchange: Exchange = field(default_factory=Exchange)
    entries: dict[str, Entry] | None = None
    error: JudgeError | None = None

    @property
    def was_malformed(self) -> bool:
        """Whether the first answer was no verdict."""
        usable_answers = 0 if self.entries is None else 1
        return len(self.exchange.answers) > usable_answers

    def entry(self, place: int) -> Entry:
        """The entry of the trajectory at a place of the input, from 0."""
        assert self.entries is not None
        return self.entries[self.prompt.labels[place]]


async def judge_prompts(
    clients: Sequence[JudgeClient],
    prompts: Sequence[JudgePrompt],
    session: Session,
    max_prompt_tokens: int | None = None,
) -> list[Verdict]:
    """Ask every judge about every prompt. A failure is kept in its verdict; the others are waited for."""
    verdicts = [Verdict(client, prompt) for client in clients for prompt in prompts]
    await asyncio.gather(*(_judge(verdict, session, max_prompt_tokens) for verdict in verdicts))
    return verdicts


async def _judge(verdict: Verdict, session: Session, max_prompt_tokens: int | None) -> None:
    shown = verdict.prompt.shown
    question = Question(
        messages=verdict.prompt.messages,
        response_format=RESPONSE_FORMAT,
        parse=lambda content: parse_verdict(content, shown),
        wanted=f"one entry for each of the ids {', '.join(shown)}, each score a number from 0 to 1",
        subject=f"{len(shown)} trajectories",
        max_prompt_tokens=max_prompt_tokens,
    )
    try:
        verdict.entries = await ask(verdict.client, question, session, verdict.exchange)
    except JudgeError as error:
        verdict.error = error


@dataclass(frozen=True, slots=True)
class Judgement:
    """All verdicts on one group, and what was judged."""

    message_lists: Sequence[Sequence[Message]]
    rubric: str | None
    tools: Sequence[Mapping[str, Any]] | None
    verdicts: Sequence[Verdict]

    @property
    def failure(self) -> JudgeError | None:
        """The first error. One failed verdict fails the group: a mean over the rest would not be balanced."""
        return next((verdict.error for verdict in self.verdicts if verdict.error is not None), None)

    def scores(self) -> list[TrajectoryScore]:
        """The means over all verdicts, one per trajectory of the input; none where a verdict failed."""
        if self.failure is not None:
            return []
        return [_mean_score(place, self.verdicts) for place in range(len(self.message_lists))]

    def to_record(self) -> dict[str, Any]:
        """All of it as JSON: what was judged, every prompt with its seed, every answer, scores, cost and time.

        ``scores`` is empty where the judgement failed; the verdicts' ``error`` says why.
        """
        return {
            "kind": "ruler",
            "trajectories": as_plain(self.message_lists),
            "rubric": self.rubric,
            "tools": as_plain(self.tools),
            "scores": [asdict(score) for score in self.scores()],
            "verdicts": [_verdict_record(verdict) for verdict in self.verdicts],
        }


def _mean_score(place: int, verdicts: Sequence[Verdict]) -> TrajectoryScore:
    """The mean score of the trajectory at a place of the input, with the explanation that is nearest to it."""
    entries = [verdict.entry(place) for verdict in verdicts]
    values = [entry.score for entry in entries]
    mean = fmean(values)
    nearest = min(entries, key=lambda entry: abs(entry.score - mean))
    return TrajectoryScore(str(place + 1), nearest.explanation, mean, max(values) - min(values))


def _verdict_record(verdict: Verdict) -> dict[str, Any]:
    prompt, entries = verdict.prompt, verdict.entries
    return {
        "judge": verdict.client.identity(),
        "seed": prompt.seed,
        "permutation": prompt.permutation,
        "prompt": list(prompt.messages),
        "labels": list(prompt.labels),
        "scores": None if entries is None else [entries[label].score for label in prompt.labels],
        "error": None if verdict.error is None else f"{type(verdict.error).__name__}: {verdict.error}",
        **verdict.exchange.to_record(),
    }


def show_judgement(judgement: Judgement) -> None:
    """Print on stderr what the judges were asked, their raw answers, and the scores unless a verdict failed."""
    for verdict in judgement.verdicts:
        said = [(message["role"], message["content"]) for message in verdict.prompt.messages]
        said += [(verdict.client.model, answer) for answer in verdict.exchange.answers]
        said += [("no verdict", str(verdict.error))] if verdict.error is not None else []
        print(*(for_terminal(f"--- {who}\n{text}") for who, text in said), sep="\n", file=sys.stderr)
    print(*(for_terminal(f"--- {score}") for score in judgement.scores()), sep="\n", file=sys.stderr)

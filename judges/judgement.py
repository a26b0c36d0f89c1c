"""One judgement: several judges, several orders of the same trajectories, asked at the same time; and its record."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from judges.ask import Exchange, ask
from judges.client import JudgeClient
from judges.encoding import as_plain
from judges.errors import JudgeError
from judges.prompt import JudgePrompt
from judges.session import Session
from judges.tokens import count_message_tokens
from judges.types import Message, TrajectoryScore
from judges.verdict import RESPONSE_FORMAT, Entry, parse_verdict, repair_turn


@dataclass(slots=True)
class Verdict:
    """What one judge made of one order: entries by label, or the error."""

    client: JudgeClient
    prompt: JudgePrompt
    exchange: Exchange = field(default_factory=Exchange)
    entries: dict[str, Entry] | None = None
    error: JudgeError | None = None

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
    prompt = verdict.prompt

    def room() -> int | None:
        return None if max_prompt_tokens is None else max_prompt_tokens - count_message_tokens(prompt.messages)

    try:
        verdict.entries = await ask(
            verdict.client,
            prompt.messages,
            response_format=RESPONSE_FORMAT,
            parse=lambda content: parse_verdict(content, prompt.shown),
            repair=lambda content, problem: repair_turn(content, problem, prompt.shown, room()),
            session=session,
            exchange=verdict.exchange,
            subject=f"{len(prompt.shown)} trajectories",
        )
    except JudgeError as error:
        verdict.error = error


def judgement_record(
    message_lists: Sequence[Sequence[Message]],
    rubric: str | None,
    tools: Sequence[Mapping[str, Any]] | None,
    verdicts: Sequence[Verdict],
    scores: Sequence[TrajectoryScore],
) -> dict[str, Any]:
    """All of a judgement as JSON: what was judged, every prompt with its seed, every answer, scores, cost and time.

    ``scores`` is empty where the judgement failed; the verdicts' ``error`` says why.
    """
    return {
        "kind": "ruler",
        "trajectories": as_plain(message_lists),
        "rubric": rubric,
        "tools": as_plain(tools),
        "scores": [asdict(score) for score in scores],
        "verdicts": [_verdict_record(verdict) for verdict in verdicts],
    }


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
        **asdict(verdict.exchange),
    }

"""The result of an episode: one line of ``results.jsonl``, as a dict."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from grpo.episodes.ending import Ending
from grpo.episodes.episode import Episode, EpisodeKey
from grpo.errors import EvaluationError
from grpo.files import read_jsonl

Row = dict[str, Any]
"""One line of ``results.jsonl``: see ``result_of``."""

FILE_NAME = "results.jsonl"


def result_of(episode: Episode, ending: Ending, error: str, seconds: float) -> Row:
    """The result of an episode.

    ``seed`` is for what the agent leaves to chance, ``env_seed`` what the env was reset with.
    ``correct`` and ``reward`` are null after an infrastructure failure; ``correct`` is null too where the env has no
    metric ``success``. ``reward`` is what the env paid until the episode stopped. An answer judge puts its ``verdict``
    there, which then decides ``correct`` and ``reward``, and its ``audit`` (see ``answer_judge``); ``metrics`` stay the
    env's own.
    """
    failed = ending is Ending.INFRASTRUCTURE
    success = episode.metrics.get("success")
    calls = episode.model_calls
    costs = [call.cost for call in calls if call.cost is not None]
    return {
        "scenario_id": episode.key.scenario_id,
        "sample": episode.key.sample,
        "seed": episode.seed,
        "env_seed": episode.env_seed,
        "ending": ending.value,
        "error": error,
        "correct": None if failed or success is None else ending is Ending.ANSWERED and success >= 0.5,
        "verdict": None,
        "audit": None,
        "reward": None if failed else episode.reward,
        "answer": episode.answer.text if episode.answer else None,
        "sources": list(episode.answer.sources) if episode.answer else [],
        "implicit": episode.implicit,
        "steps": episode.steps,
        "error_codes": dict(episode.error_codes),
        "model_calls": len(calls),
        "prompt_tokens": sum(call.prompt_tokens for call in calls),
        "completion_tokens": sum(call.completion_tokens for call in calls),
        "cost": sum(costs) if costs else None,
        "seconds": round(seconds, 6),
        "metrics": episode.metrics,
    }


def key_of(row: Row) -> EpisodeKey:
    """Which episode a result is of."""
    return EpisodeKey(row["scenario_id"], row["sample"])


def read_rows(root: Path) -> list[Row]:
    """The results in the folder of an evaluation; a torn last line is left out.

    Raises:
        EvaluationError: A line before the last cannot be read, or one is no result.
    """
    path = root / FILE_NAME
    try:
        rows = read_jsonl(path)
        for row in rows:
            if missing := [name for name in ("scenario_id", "sample", "ending") if name not in row]:
                raise ValueError(f"{path} has a line without {missing[0]!r}: {json.dumps(row)[:80]}")
    except ValueError as error:
        raise EvaluationError(f"the results are damaged: {error}. Remove the line to play its episode again") from error
    return rows

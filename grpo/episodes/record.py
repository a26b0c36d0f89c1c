"""The record of an episode: one line of JSON, the same in every file that holds episodes.

    RUN/trajectories/step-0007.jsonl   every episode of a step
    RUN/eval/after-sampled.jsonl       those of a held-out evaluation
    RUN/partial/                       groups that no finished step has learned from
    EVALUATION/results.jsonl           those of ``grpo-eval``

A line has the fields of `Episode` under their names, but ``scenario_id`` and ``env_seed`` for the task, ``sample`` for
the ``sample_index``, and ``answer`` and ``sources`` for the answer. What can be read off the others is there too, for
people and programs that read lines: ``correct``, ``turns``, ``error_codes``, ``model_calls``, ``prompt_tokens``,
``completion_tokens`` and ``cost``. ``reward`` is null where an episode counts nowhere. Fields of a call that have
nothing to say are left out. ``tools`` of a call is null where they are those of the call before, or the episode's.
"""

import math
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import fields
from pathlib import Path
from typing import Any

from grpo.ending import Ending
from grpo.types import Answer, Episode, ModelCall, Task
from judges.common.files import each_record, json_bytes, record_at, write_bytes

_AS_THEY_ARE = (
    "env",
    "seed",
    "error",
    "late_calls",
    "implicit",
    "verdict",
    "audit",
    "unmarked",
    "explanation",
    "seconds",
)
_TRANSCRIPT = ("messages", "tools")
_HEAVY = ("tools", "messages", "reply", "other_replies", "prompt_ids", "sampled_ids", "logprobs", "sampled")
"""What a call has said: left out where records are read without their transcripts."""
_DEFAULTS = {field.name: getattr(ModelCall(), field.name) for field in fields(ModelCall)}


def line_of(episode: Episode, *, logprobs: bool = False) -> bytes:
    """The record as a line.

    Args:
        episode: What to keep.
        logprobs: Keep the sampler's logprobs, too. Only training needs them; people have them in ``sampled``.
    """
    e = episode
    record: dict[str, Any] = {
        "scenario_id": e.task.key,
        "sample": e.sample_index,
        "env_seed": e.task.seed,
        "ending": e.ending.value,
        "correct": e.correct,
        "reward": e.reward if e.ending.counted else None,
        "answer": e.answer.text if e.answer else None,
        "sources": list(e.answer.sources) if e.answer else [],
        "turns": e.num_turns,
        "turn_errors": e.turn_errors,
        "error_codes": dict(Counter(code for code in e.turn_errors if code)),
        "model_calls": len(e.calls),
        "prompt_tokens": e.num_prompt_tokens,
        "completion_tokens": e.num_sampled_tokens,
        "cost": e.cost,
        **{name: getattr(e, name) for name in _AS_THEY_ARE},
        "began": e.began,
        "metrics": e.metrics,
        "calls": [
            _call_record(call, before, logprobs)
            for call, before in zip(e.calls, [e.tools, *(call.tools for call in e.calls)], strict=False)
        ],
        "messages": e.messages,
        "tools": e.tools,
    }
    return json_bytes(record, _json_value) + b"\n"


def episode_of(record: Mapping[str, Any]) -> Episode:
    """The episode that `line_of` wrote, token for token; logprobs that were not kept are 0.0.

    Raises:
        ValueError: It is no such record.
    """
    try:
        answer = record["answer"]
        return Episode(
            task=Task.of_key(record["scenario_id"], int(record["env_seed"])),
            sample_index=record["sample"],
            ending=Ending(record["ending"]),
            reward=math.nan if record["reward"] is None else float(record["reward"]),
            answer=None if answer is None else Answer(answer, tuple(record["sources"])),
            turn_errors=list(record["turn_errors"]),
            # JSON has no word for a number that is not finite
            metrics={name: math.nan if v is None else v for name, v in record["metrics"].items()},
            began=record.get("began", 0.0),
            calls=list(_calls(record["calls"], record.get("tools", []))),
            **{name: record.get(name, []) for name in _TRANSCRIPT},
            **{name: record[name] for name in _AS_THEY_ARE},
        )
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise ValueError(f"this is no saved episode ({type(error).__name__}: {error})") from error


def write_episodes(path: Path, episodes: Iterable[Episode]) -> None:
    """Write the records of all, atomically."""
    write_bytes(path, b"".join(map(line_of, episodes)))


def read_episodes(path: Path, *, transcripts: bool = True, damaged: list[str] | None = None) -> Iterator[Episode]:
    """The episodes of a file, one after the other; a torn last line is left out.

    Args:
        path: What `write_episodes` or a log of lines has written; a file that is missing holds none.
        transcripts: False: without what was said, which is most of it; `with_transcript` reads it later.
        damaged: Where the episodes are only shown: what is wrong with a line that is no record is added here.

    Raises:
        ValueError: A line before the last is no record, and ``damaged`` is None; with its number.
    """
    if not path.exists():
        return
    for number, (place, record) in enumerate(each_record(path, damaged), start=1):
        if not transcripts:
            for name in _TRANSCRIPT:
                record.pop(name, None)
            for call in record.get("calls") or ():
                for name in _HEAVY:
                    call.pop(name, None)
        try:
            episode = episode_of(record)
        except ValueError as error:
            if damaged is None:
                raise ValueError(f"{path} line {number}: {error}") from error
            damaged.append(f"{path} record {number}: {error}")
            continue
        episode.place = str(path), place
        yield episode


def drop_transcript(episode: Episode) -> None:
    """Keep what an episode came to, and nothing of what was said."""
    episode.messages, episode.tools = [], []
    for call in episode.calls:
        for name in _HEAVY:
            setattr(call, name, _DEFAULTS[name])


def with_transcript(episode: Episode) -> Episode:
    """An episode as it was saved, where it was read from a file; any other as it is.

    Raises:
        ValueError: Its file is gone or damaged.
    """
    if episode.place is None:
        return episode
    path, place = episode.place
    try:
        return episode_of(record_at(Path(path), place))
    except (OSError, ValueError) as error:
        raise ValueError(
            f"{path} has no record of {episode.task.key}#{episode.sample_index} at byte {place}: {error}"
        ) from error


def _call_record(call: ModelCall, before: list[Any], logprobs: bool) -> dict[str, Any]:
    found = {name: value for name, default in _DEFAULTS.items() if (value := getattr(call, name)) != default}
    if call.tools and call.tools == before:
        found["tools"] = None
    if not logprobs:
        found.pop("logprobs", None)
    return found


def _calls(records: Iterable[Mapping[str, Any]], tools: list[Any]) -> Iterator[ModelCall]:
    for record in records:
        call = ModelCall(**record)
        call.tools = tools = tools if call.tools is None else call.tools  # pyright: ignore[reportUnnecessaryComparison]
        if not call.logprobs:
            call.logprobs = [0.0] * len(call.sampled_ids)
        numbers = sum(isinstance(logprob, float | int) for logprob in call.logprobs)  # others are null in a file
        if numbers != len(call.sampled_ids):
            raise ValueError(f"a call has {len(call.sampled_ids)} sampled ids and {numbers} logprobs")
        yield call


def _json_value(value: Any) -> Any:
    """For what JSON has no word for: numbers of numpy are numbers, everything else is text."""
    return float(value) if isinstance(value, float) else str(value)

"""Episodes as logs of Inspect (https://inspect.aisi.org.uk): ``inspect view --log-dir FOLDER`` shows them.

A log is JSON as Inspect writes it, version 2 of its format (read by ``inspect_ai`` 0.3.285), made without that package.
A scenario is a sample, and its episodes are epochs. Means and intervals are those of our own summary.

    grpo-view evals/bm25 --inspect logs
"""

import hashlib
import re
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from grpo.episodes.summary import summarise
from grpo.errors import ReportError
from grpo.report.traced import Source, apart
from grpo.types import Episode, Message
from judges.common.files import json_bytes, write_bytes

_MEANS = {"reward": "reward/mean", "correct": "answer/correct"}


def export_logs(sources: Sequence[Source], folder: Path) -> list[Path]:
    """Write a log for each file of episodes, over an earlier one of the same; returns where they are.

    Raises:
        ReportError: The episodes cannot be read, or a log cannot be written.
    """
    written: list[Path] = []
    for source in sources:
        if episodes := list(source.episodes()):
            log = log_of(episodes, source)
            parts = (re.sub(r"[\W_]+", "-", log["eval"][name]) for name in ("created", "task", "task_id"))
            written.append(folder / f"{'_'.join(parts)}.json")
            try:
                write_bytes(written[-1], json_bytes(log))
            except OSError as error:
                raise ReportError(f"{written[-1]} cannot be written: {error}; name another folder") from error
    return written


def log_of(episodes: Sequence[Episode], source: Source) -> dict[str, Any]:
    """The log of a file of episodes."""
    began, ended = min(e.began for e in episodes), max(e.began + e.seconds for e in episodes)
    summary = summarise(episodes, ended - began)
    name = hashlib.sha256(f"{source.path.resolve()} {began}".encode()).hexdigest()[:22]
    env, keys = episodes[0].env, list(dict.fromkeys(e.task.key for e in episodes))
    spec = {"eval_id": name, "run_id": name, "task_id": name, "created": _time(began), "solver": source.agent}
    spec |= {"task": f"{env} {source.label}", "model": "/".join(source.model), "metadata": source.config}
    spec |= {"dataset": {"name": env, "samples": len(keys), "sample_ids": keys}}
    spec |= {"config": {"epochs": max(e.sample_index for e in episodes) + 1}}
    means = {score: summary["metrics"][mean] for score, mean in _MEANS.items() if mean in summary["metrics"]}
    metrics = {s: {n: {"name": n, "value": v} for n, v in mean.items() if v is not None} for s, mean in means.items()}
    scores = [{"name": score, "scorer": score, "metrics": metrics[score]} for score in metrics]
    results = {"total_samples": len(episodes), "completed_samples": summary["episodes"], "scores": scores}
    whole = {"version": 2, "status": "success", "eval": spec, "results": results | {"metadata": summary}}
    stats = {"started_at": _time(began), "completed_at": _time(ended)}
    return whole | {"stats": stats, "samples": [_sample(episode, source) for episode in episodes]}


def _sample(e: Episode, source: Source) -> dict[str, Any]:
    messages = list(map(_message, apart(e.messages)))
    first = next((place for place, m in enumerate(messages) if m["role"] == "assistant"), len(messages))
    said = {"answer": e.answer and e.answer.text, "explanation": e.explanation}
    scores: dict[str, Any] = {"reward": {"value": e.reward, **said}} if e.ending.counted else {}
    scores |= {} if e.correct is None else {"correct": {"value": "C" if e.correct else "I", **said}}
    usage = {"input_tokens": e.num_prompt_tokens, "output_tokens": e.num_sampled_tokens}
    kept = {"ending": e.ending.value, "turn_errors": e.turn_errors, "error": e.error, "verdict": e.verdict}
    sample = {"id": e.task.key, "epoch": e.sample_index + 1, "input": messages[:first], "target": ""}
    sample |= {"messages": messages, "scores": scores, "metadata": {**kept, **e.metrics}, "total_time": e.seconds}
    sample |= {"started_at": _time(e.began), "completed_at": _time(e.began + e.seconds)}
    failed = {"message": e.error, "traceback": e.error, "traceback_ansi": e.error}
    return sample | {"model_usage": {"/".join(source.model): usage}, "error": None if e.ending.counted else failed}


def _message(message: Message) -> Message:
    form: Message = {"role": message["role"], "content": message["content"]}
    if "of" in message:
        form |= {"tool_call_id": message["of"].call_id, "function": message["of"].name}
    calls = [{"id": c.call_id, "function": c.name, "arguments": c.arguments} for c in message.get("calls", ())]
    return form | ({"tool_calls": calls} if calls else {})


def _time(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, UTC).isoformat(timespec="seconds")

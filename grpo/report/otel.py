"""Episodes as OpenTelemetry traces, by its conventions for generative AI: in a file, or sent to a collector.

An episode is a trace, ``invoke_agent`` with ``chat`` and ``execute_tool`` under it, and what it was given are events
``gen_ai.evaluation.result``. A line, or a request, is the OTLP/JSON of one episode, which needs no package. The
conventions are in development: names stand here as they were in November 2026.

    grpo-view runs/first --otel http://localhost:4318   (with OTEL_EXPORTER_OTLP_HEADERS, where it is set)
"""

import hashlib
import json
import os
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

import httpx

from grpo.errors import ReportError
from grpo.report.traced import Source, model_calls, tool_calls
from grpo.types import Episode, Message
from judges.common.files import json_bytes, replacing
from judges.common.loopback import is_loopback
from judges.common.secrets import without_credentials


def export_traces(sources: Sequence[Source], target: str) -> int:
    """Write the episodes to a file, or to a collector's address; returns how many there are.

    Raises:
        ReportError: They cannot be read or written, or the collector refuses one.
    """
    lines = (json_bytes(trace_of(episode, source)) for source in sources for episode in source.episodes())
    if target.startswith(("http://", "https://")):
        return _sent(lines, target if urlsplit(target).path.strip("/") else f"{target.rstrip('/')}/v1/traces")
    try:
        with replacing(Path(target)) as partial, partial.open("wb") as file:
            return sum(file.write(line + b"\n") > 0 for line in lines)
    except OSError as error:
        raise ReportError(f"the traces cannot be written to {target}: {error}; name another file") from error


def _sent(lines: Iterator[bytes], url: str) -> int:
    pairs = (pair.partition("=") for pair in os.environ.get("OTEL_EXPORTER_OTLP_HEADERS", "").split(",") if pair)
    headers = {name.strip(): unquote(value.strip()) for name, _, value in pairs} | {"Content-Type": "application/json"}
    count = 0
    with httpx.Client(timeout=30.0, trust_env=not is_loopback(url), headers=headers) as client:
        for count, line in enumerate(lines, start=1):
            try:
                answer = client.post(url, content=line)
                refused = "" if answer.is_success and '"rejectedSpans"' not in answer.text else answer.text or answer
            except httpx.HTTPError as error:
                refused = error
            if refused:
                where = f"{without_credentials(url)} took {count - 1} episodes and refuses the next"
                raise ReportError(f"{where}: {str(refused)[:300]}")
    return count


def trace_of(episode: Episode, source: Source) -> dict[str, Any]:
    """An episode as the body of a request to a collector; its ids are the same each time."""
    provider, model = source.model
    conversation = f"{source.label}/{episode.task.key}#{episode.sample_index}"
    trace = hashlib.sha256(f"{conversation} {episode.env} {episode.began}".encode()).hexdigest()
    always = {"gen_ai.conversation.id": conversation, "gen_ai.provider.name": provider}
    spans: list[dict[str, Any]] = []

    def span(operation: str, name: str, began: float, seconds: float, error: str, said: Mapping[str, Any]) -> None:
        start = round((episode.began + began) * 1e9) + 1000 * len(spans)  # in order, where nobody has timed them
        spans.append(
            {"traceId": trace[:32], "spanId": f"{trace[32:44]}{len(spans):04x}", "name": f"{operation} {name}"}
            | ({"parentSpanId": spans[0]["spanId"]} if spans else {"events": _events(episode)})
            | {"kind": 3 if operation == "chat" else 1, "startTimeUnixNano": str(start)}  # of a client, or internal
            | {"endTimeUnixNano": str(start + round(seconds * 1e9)), "status": {"code": 2} if error else {}}
            | {"attributes": _pairs({"gen_ai.operation.name": operation, **always, **said, "error.type": error})}
        )

    ending = episode.ending
    whole = {"gen_ai.agent.name": source.agent, "gen_ai.request.model": model, "grpo.env": episode.env}
    whole |= {"grpo.scenario_id": episode.task.key, "grpo.ending": ending.value, "grpo.error": episode.error}
    whole |= {f"grpo.metrics.{name}": value for name, value in episode.metrics.items()}
    span("invoke_agent", source.agent, 0.0, episode.seconds, "" if ending.compared else ending.value, whole)
    for call, asked, reply in model_calls(episode):
        said = {f"gen_ai.request.{name}": call.asked.get(name) for name in ("temperature", "top_p", "max_tokens")}
        said |= {
            "gen_ai.request.model": call.model or model,
            "gen_ai.system_instructions": json.dumps([p for m in asked if m["role"] == "system" for p in _parts(m)]),
            "gen_ai.tool.definitions": json.dumps(call.tools if call.is_of_agent else episode.tools),
            "gen_ai.input.messages": json.dumps([_message(m) for m in asked if m["role"] != "system"]),
            "gen_ai.output.messages": reply and json.dumps([{**_message(reply), "finish_reason": call.finish_reason}]),
            "gen_ai.response.finish_reasons": reply and [call.finish_reason],
            "gen_ai.usage.input_tokens": call.prompt_tokens,
            "gen_ai.usage.output_tokens": call.completion_tokens,
        }
        span("chat", call.model or model, call.began, call.seconds, call.error and str(call.status or "none"), said)
    for call, result, error, began, seconds in tool_calls(episode):
        said = {"type": "function", "name": call.name, "call.id": call.call_id, "call.result": result}
        said = {f"gen_ai.tool.{name}": value for name, value in said.items()}
        said |= {"gen_ai.tool.call.arguments": json.dumps(call.arguments)}
        span("execute_tool", call.name, began, seconds, error, said)
    resource = {"attributes": _pairs({"service.name": "grpo", "grpo.source": source.label})}
    return {"resourceSpans": [{"resource": resource, "scopeSpans": [{"scope": {"name": "grpo"}, "spans": spans}]}]}


def _events(episode: Episode) -> list[dict[str, Any]]:
    """Its reward, and whether it is right; nothing where it counts nowhere."""
    given = [("reward", episode.reward, "", episode.explanation)] if episode.ending.counted else []
    if episode.correct is not None:
        given.append(("correct", float(episode.correct), "pass" if episode.correct else "fail", None))
    names = [f"gen_ai.evaluation.{name}" for name in ("name", "score.value", "score.label", "explanation")]
    end = {"name": "gen_ai.evaluation.result", "timeUnixNano": str(round((episode.began + episode.seconds) * 1e9))}
    return [{**end, "attributes": _pairs(dict(zip(names, one, strict=True)))} for one in given]


def _message(message: Message) -> dict[str, Any]:
    return {"role": message["role"], "parts": _parts(message)}


def _parts(message: Message) -> list[dict[str, Any]]:
    if "of" in message:
        return [{"type": "tool_call_response", "id": message["of"].call_id, "response": message["content"]}]
    text = [{"type": "text", "content": message["content"]}] if message["content"] else []
    calls = message.get("calls", ())
    return [*text, *({"type": "tool_call", "id": c.call_id, "name": c.name, "arguments": c.arguments} for c in calls)]


def _pairs(values: Mapping[str, Any]) -> list[dict[str, Any]]:
    return [{"key": key, "value": _value(value)} for key, value in values.items() if value not in ("", None)]


def _value(value: Any) -> dict[str, Any]:
    if isinstance(value, list):
        return {"arrayValue": {"values": list(map(_value, value))}}
    if isinstance(value, int):
        return {"intValue": str(value)}
    return {"doubleValue": value} if isinstance(value, float) else {"stringValue": str(value)}

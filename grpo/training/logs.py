"""Logs of agents in production as episodes, however they were kept.

A line is a chat (``messages``, ``tools``), a request with its response, as proxies and OpenAI's stored completions have
them, or an episode of ours. A ``reward`` or ``score`` stands there, or in ``metadata``. Of requests that carry each
other on, the last holds the whole conversation; of what an assistant says in one, the log's replies are imitated.
"""

import json
import math
from collections import Counter
from pathlib import Path
from typing import Any

from grpo.agents.wire import CHAT, SPOKEN
from grpo.agents.wire.form import joined
from grpo.chat.tree import canonical
from grpo.chat.turns import calls_of
from grpo.ending import Ending
from grpo.episodes.record import episode_of
from grpo.errors import DataError
from grpo.types import Episode, Task

_ROLES = {role: role for role in ("system", "user", "assistant", "tool")} | {"developer": "system"}


def read_log(path: Path, left_out: Counter[str]) -> list[Episode]:
    """What a log holds, in its order; turns that are context have ``"weight": 0``.

    Raises:
        DataError: A line is none of these; with its number.
    """
    found: list[tuple[Episode, tuple[str, ...]]] = []
    for number, line in enumerate(path.read_bytes().splitlines(), start=1):
        try:
            if line.strip() and (one := _of_line(json.loads(line), left_out)) is not None:
                found.append(one)
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise DataError(f"{path} line {number}: {error}") from error
    replies = {key for _, key in found}
    carried_on = {key[:end] for key in replies for end in range(1, len(key))}
    for episode, key in found:
        for place, message in enumerate(episode.messages, start=2):
            if key and message["role"] == "assistant" and key[:place] not in replies:
                message["weight"] = 0
    left_out.update("carried on by another request" for _, key in found if key in carried_on)
    return [episode for episode, key in found if key not in carried_on]


def _of_line(record: Any, left_out: Counter[str]) -> tuple[Episode, tuple[str, ...]] | None:
    """An episode and, of a request, what tells it from others: the tools, and each message up to the reply."""
    if isinstance(record, dict) and "env_seed" in record:
        return episode_of(record), ()
    request = _holding(record, ("messages", "input"), "request", "input", "body")
    if request is None:
        raise ValueError('expected an object with a list "messages", for example {"messages": [{"role": "user", ...}]}')
    response = _holding(record, ("choices", "output"), "response", "output")
    tools = request.get("tools") or (record.get("model_parameters") or {}).get("tools") or []
    form, messages = SPOKEN[CHAT], request.get("messages")
    if messages is None:
        form = SPOKEN["responses"]
        asked = form.read({name: request.get(name) for name in ("input", "instructions", "tools")})
        messages, tools = asked.messages, asked.tools
    if response is not None or "response" in record:
        reply, reason = form.choices(response or {})[0]
        if reason in ("length", "content_filter") or not (reply.get("content") or reply.get("tool_calls")):
            left_out["request without a whole reply"] += 1
            return None
        messages = [*messages, reply]
    _check(messages, tools)
    try:
        messages = [{**m, "content": joined(m.get("content")), "role": _ROLES[m["role"]]} for m in messages]
        list(map(calls_of, messages if response else ()))
    except ValueError as error:
        left_out[f"cannot be read: {error}".partition(": line ")[0]] += 1
        return None
    list(map(calls_of, messages))  # a chat was written to be learned from: what is wrong with it is named
    places = [part for part in (record, request, response) if part is not None]
    places += [part["metadata"] for part in places if isinstance(part.get("metadata"), dict)]
    given = [place[name] for place in places for name in ("reward", "score") if place.get(name) is not None]
    prompt = json.dumps([m for m in messages if m["role"] in ("system", "user")], sort_keys=True)
    episode = Episode("", Task(0, prompt), messages=messages, tools=tools, ending=Ending.ANSWERED)
    episode.reward = float(given[0]) if given else math.nan
    return episode, (json.dumps(tools, sort_keys=True), *map(canonical, messages)) if response else ()


def _holding(record: Any, names: tuple[str, ...], *parts: str) -> dict[str, Any] | None:
    """What has one of the ``names``, as a list (an input may be a text): the line, a part of it, or the body of one."""
    within = [record, *(record.get(part) for part in parts)] if isinstance(record, dict) else []
    within = [part for part in within if isinstance(part, dict)]
    within += [part["body"] for part in within if isinstance(part.get("body"), dict)]
    kinds = {name: str | list if name == "input" else list for name in names}
    return next((part for part in within if any(isinstance(part.get(n), kinds[n]) for n in names)), None)


def _check(messages: list[Any], tools: Any) -> None:
    roles: list[str] = []
    for place, message in enumerate(messages, start=1):
        role = message.get("role") if isinstance(message, dict) else message
        if not isinstance(message, dict) or role not in _ROLES:
            raise ValueError(f"message {place} has the role {role!r}; it must be one of {', '.join(_ROLES)}")
        if not isinstance(message.get("content"), str | list) and not message.get("tool_calls"):
            raise ValueError(f'message {place} ({role}) has no text in "content"')
        if role == "assistant" and roles[-1:] == ["assistant"]:
            raise ValueError(f"messages {place - 1} and {place} are both of the assistant; join them")
        roles.append(role)
    if "assistant" not in roles or roles[0] == "assistant":
        raise ValueError("the messages must begin with a system or user message and hold an assistant's turn")
    if not isinstance(tools, list) or not all(isinstance(tool, dict) for tool in tools):
        raise ValueError('"tools" must be a list of function schemas')

"""Two plain forms of a judge's prompt to compare with, under our own instructions, so that the form alone differs.

Send-everything writes every trajectory whole. Prefix-once writes the messages that all begin with once, then the rest
of each, which is how RULER was first built. Neither joins equal trajectories, unless all are equal.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from judges.scoring.prompt import SYSTEM, default_rubric

Messages = Sequence[Mapping[str, Any]]


def send_everything(message_lists: Sequence[Messages], tools: Sequence[Mapping[str, Any]]) -> list[dict[str, str]]:
    """Every trajectory whole, as one line of JSON."""
    return _prompt(_tools(tools) + [_block(number, messages) for number, messages in enumerate(message_lists, start=1)])


def prefix_once(message_lists: Sequence[Messages], tools: Sequence[Mapping[str, Any]]) -> list[dict[str, str]]:
    """The common beginning once, then what follows it in each."""
    shared = 0
    shortest = min(map(len, message_lists))
    while shared < shortest and all(messages[shared] == message_lists[0][shared] for messages in message_lists):
        shared += 1
    parts = _tools(tools)
    if shared:
        parts.append(f"<context>\n{json.dumps(message_lists[0][:shared])}\n</context>")
    parts += [_block(number, messages[shared:]) for number, messages in enumerate(message_lists, start=1)]
    return _prompt(parts)


def scores_by_position(content: str, count: int) -> list[float]:
    """The verdict as such forms read it: whatever stands there, in the order in which it stands."""
    return [float(entry["score"]) for entry in json.loads(content)["scores"]][:count]


def _tools(tools: Sequence[Mapping[str, Any]]) -> list[str]:
    return [f"<tools>\n{json.dumps(list(tools))}\n</tools>"]


def _block(number: int, messages: Messages) -> str:
    return f'<trajectory id="{number}">\n{json.dumps(list(messages))}\n</trajectory>'


def _prompt(parts: Sequence[str]) -> list[dict[str, str]]:
    return [
        {"role": "system", "content": SYSTEM.format(rubric=default_rubric())},
        {"role": "user", "content": "\n\n".join(parts)},
    ]

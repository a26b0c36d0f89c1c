"""The JSON object that a judge is asked for, and how it is found in the raw answer.

Fences, prose around the object and a reasoning block before it are accepted.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any

from judges.errors import MalformedVerdict

_END_OF_REASONING = re.compile(r"</(?:think|thinking|reasoning)>", re.IGNORECASE)

STRING = {"type": "string"}


def response_format(name: str, **properties: Mapping[str, Any]) -> dict[str, Any]:
    """Structured output for providers that have it: an object with exactly these properties."""
    return {
        "type": "json_schema",
        "json_schema": {"name": name, "strict": True, "schema": exact_object(**properties)},
    }


def exact_object(**properties: Mapping[str, Any]) -> dict[str, Any]:
    """The JSON schema of an object with exactly these properties."""
    return {
        "type": "object",
        "properties": properties,
        "required": list(properties),
        "additionalProperties": False,
    }


def last_object(content: str, key: str) -> dict[str, Any]:
    """The last JSON object with ``key`` that stands after any reasoning.

    Raises:
        MalformedVerdict: There is none.
    """
    if not content.strip():
        raise MalformedVerdict("the answer is empty")
    objects = _json_objects(content)
    # A closing tag inside an object is text that the judge quotes.
    ends_of_reasoning = [
        match.end()
        for match in _END_OF_REASONING.finditer(content)
        if not any(start <= match.start() < end for start, end, _ in objects)
    ]
    reasoning_end = max(ends_of_reasoning, default=0)
    found = [value for start, _, value in objects if start >= reasoning_end and key in value]
    if not found:
        raise MalformedVerdict(f"there is no complete JSON object with the key {json.dumps(key)} in the answer")
    return found[-1]


def _json_objects(text: str) -> list[tuple[int, int, dict[str, Any]]]:
    """Every outermost JSON object in a text, with its start and end."""
    decoder = json.JSONDecoder()
    objects: list[tuple[int, int, dict[str, Any]]] = []
    start = text.find("{")
    while start >= 0:
        try:
            value, end = decoder.raw_decode(text, start)
        except ValueError:
            end = start + 1
        except RecursionError:
            raise MalformedVerdict("the JSON of the answer is nested too deeply") from None
        else:
            objects.append((start, end, value))
        start = text.find("{", end)
    return objects

"""Values as the JSON that a judge reads inside a tag of the prompt: no text in them can close that tag or open one.

Every ``<`` is written as ``\\u003c``, and the bracket of ``[INST]`` and its like as ``\\u005b``. To leave harmless tags
such as ``<tool_call>`` as they are would save 3 % of the tokens, but a mail could then write what the judge's own chat
template reads as a special token.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any

from judges.errors import JudgeInputError

_JSON = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"))
_BRACKET = re.compile(r"\[(?=/?[gs]?[A-Z][A-Z_]*\])")
"""What begins a special token of Mistral (``[/INST]``) or GLM (``[gMASK]``). No list of JSON begins so."""
_SURROGATE = re.compile("[\ud800-\udfff]")


def encode(value: object, name: str) -> str:
    """Compact JSON without a ``<``, the bracket of an ``[INST]`` or a lone surrogate.

    Keys are sorted, with ``role`` and ``name`` first.

    Args:
        value: Dicts, lists, strings and numbers.
        name: What the error message calls the value.

    Raises:
        JudgeInputError: ``value`` is not plain JSON.
    """
    try:
        text = _JSON.encode(as_plain(value))
    except (TypeError, ValueError, RecursionError) as error:
        raise JudgeInputError(
            f"{name} is not plain JSON ({error}); hand in dicts, lists, strings and numbers"
        ) from error
    text = _BRACKET.sub(r"\\u005b", text.replace("<", "\\u003c"))
    return text if text.isascii() else _SURROGATE.sub(lambda match: f"\\u{ord(match.group()):04x}", text)


def type_name(value: object) -> str:
    """What stands for a value that is not JSON, such as an HTTP client in the parameters: the same in every run."""
    return f"<{getattr(value, '__qualname__', type(value).__qualname__)}>"


def as_plain(value: Any) -> Any:
    """Dicts and lists for mappings and sequences of any kind, keys sorted with ``role`` and ``name`` first.

    A pydantic object, such as a tool call of the openai package, becomes a dict too.
    """
    if isinstance(value, str):
        return value
    if isinstance(value, (dict, Mapping)):
        keys = sorted(value, key=lambda key: (key != "role", key != "name", key))
        return {key: as_plain(value[key]) for key in keys}
    if isinstance(value, (list, tuple)):
        return [as_plain(item) for item in value]
    if hasattr(value, "model_dump"):
        return as_plain(value.model_dump(mode="json", exclude_none=True))
    return value

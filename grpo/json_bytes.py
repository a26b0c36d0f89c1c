"""JSON for files that grow line by line: quick where values are usual, and never lost over one that is not.

``orjson`` refuses lone surrogates, whole numbers beyond 64 bits, keys that are no text and deep nesting, all of which
models and agents write. Such a value goes the standard library's way; ``json.loads`` reads both alike.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from typing import Any, cast

import orjson

MAX_DEPTH = 250
"""Lists and dicts in each other; what is deeper becomes ``null``."""


def json_bytes(value: Any, default: Callable[[Any], Any] | None = None) -> bytes:
    """``value`` as JSON in UTF-8 without a line break; numbers that are not finite become ``null``.

    Args:
        value: Dicts, lists, texts, numbers.
        default: Gives what to write for anything else.

    Raises:
        TypeError: A value JSON can't hold, for example a tensor, and there is no ``default``.
    """
    try:
        return orjson.dumps(value, default)
    except TypeError:
        text = json.dumps(_plain(value, MAX_DEPTH), ensure_ascii=False, default=default)
        return text.encode("utf-8", "backslashreplace")


def _plain(value: Any, depth: int) -> Any:
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if not isinstance(value, dict | list | tuple):
        return value
    if not depth:
        return None
    if isinstance(value, dict):
        return {key: _plain(item, depth - 1) for key, item in cast(dict[Any, Any], value).items()}
    return [_plain(item, depth - 1) for item in cast(list[Any], value)]

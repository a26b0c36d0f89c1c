"""Text of a prompt: data as JSON that cannot leave its tag, random labels, and how many tokens a prompt takes at most.

Every ``<`` of data is written as ``\\u003c``, and the bracket of ``[INST]`` and its like as ``\\u005b``. To leave
harmless tags such as ``<tool_call>`` as they are would save 3 % of the tokens, but a mail could then write what the
judge's own chat template reads as a special token.

Tokens are estimated, for the tokenizers of most judges would have to be downloaded. The estimate is high on purpose. It
was above the counts of GPT-4's, Claude's and SmolLM2's tokenizers on mail, code, JSON, base64 and texts in German,
Russian and Chinese; on English mail it is about 1.4 to 1.7 times as high. It is no proof: random small letters, which
no one writes, took up to 1.9 times the estimate, hexadecimal 1.03 times. A judge that still says that its context is
full is a `ContextOverflow`. 100 KB take about 2 ms.
"""

import json
import math
import random
import re
from collections.abc import Iterable, Mapping
from typing import Any

from judges.errors import JudgeInputError

LABEL_LETTERS = "bcdfghjkmnpqrtvwxz"
"""No vowels, so no words; no digits, so no label can be taken for a number or for a position."""

TOKENS_PER_MESSAGE = 8
"""Role and separators that a chat template puts around each message."""

_SMALL = bytes(range(ord("a"), ord("z") + 1))
_CYRILLIC_LEAD = bytes(range(0xD0, 0xD4))
_TWO_TOKENS_LEAD = bytes(byte for byte in range(0xC2, 0xF0) if byte not in _CYRILLIC_LEAD)
_FOUR_TOKENS_LEAD = bytes(range(0xF0, 0xF8))
_WORD_SHAPE = bytes(ord("a") if byte in _SMALL else ord(" ") for byte in range(256))
_NO_SIGN = _SMALL + b" " + bytes(range(0x80, 0x100))
_JSON = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"))
_UNSAFE = re.compile(
    r"\[(?=[/|]?(?!(?:true|false|null)\])[a-z]\w*\|?\])|\[(?=\w~)|\](?=~)|[\ud800-\udfff]", re.ASCII | re.IGNORECASE
)
"""What may begin a special token of Mistral (``[/INST]``), GLM (``[gMASK]``) or EXAONE (``[|user|]``): a word in
brackets, in capitals or not; or of MiniMax (``]~b]``, ``[e~[``). A list of JSON is none. And half a character."""


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
    return _UNSAFE.sub(lambda match: f"\\u{ord(match.group()):04x}", text.replace("<", "\\u003c"))


def random_labels(count: int, rng: random.Random) -> list[str]:
    """Different labels of three letters (18^3 = 5,832 of them), longer ones for a group that would crowd them."""
    size = 3
    while len(LABEL_LETTERS) ** size < 4 * count:
        size += 1
    chosen: dict[str, None] = {}
    while len(chosen) < count:
        chosen["".join(rng.choices(LABEL_LETTERS, k=size))] = None
    return list(chosen)


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


def count_tokens(text: str) -> int:
    """A high estimate of the tokens of a text; never above its UTF-8 bytes.

    - A run of small letters: one, and a quarter for every letter after the first.
    - A capital, a digit, a sign, a line break: one. Every second blank of several: one.
    - A Cyrillic letter: one. Any other character of two or three bytes: two. One of four bytes: four.
    """
    data = text.encode("utf-8", "surrogatepass")
    shape = b" " + data.translate(_WORD_SHAPE)
    letters, words = shape.count(b"a"), shape.count(b" a")
    signs, double_blanks = len(data.translate(None, _NO_SIGN)), data.count(b"  ")
    tokens = words + math.ceil((letters - words) / 4) + signs + double_blanks
    if len(data) > len(text):
        tokens += _count(data, _CYRILLIC_LEAD)
        tokens += 2 * _count(data, _TWO_TOKENS_LEAD)
        tokens += 4 * _count(data, _FOUR_TOKENS_LEAD)
    return tokens


def count_message_tokens(messages: Iterable[Mapping[str, str]]) -> int:
    """A high estimate of the tokens of a prompt, chat template included."""
    return sum(count_tokens(message["content"]) + TOKENS_PER_MESSAGE for message in messages)


def _count(data: bytes, which: bytes) -> int:
    """How many bytes of ``data`` are one of ``which``."""
    return len(data) - len(data.translate(None, which))

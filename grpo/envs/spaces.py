"""A Gymnasium space in words: an action space as JSON schema, JSON to an action, an observation as text.

Actions are numbers (Discrete, Box, MultiDiscrete, MultiBinary: a space of these is its bounds), Text, and Tuple and
Dict of these. An observation is shown by what it is, whatever its space. Pictures, and arrays too large to read, are
refused: a language model is to be told what they show, which is a wrapper's work. What looks like a small picture is
taken for symbols where a text stands beside it in a dict, as the mission does in MiniGrid.
"""

import math
import re
from collections.abc import Mapping
from typing import Any

import numpy as np
from gymnasium import spaces

from grpo.errors import EnvError
from judges.common.text import shown

MAX_ACTION_NUMBERS = 64
MAX_OBSERVATION_NUMBERS = 512
"""Most numbers of one array."""
MAX_PATTERN_CHARS = 64
"""Longest list of a text's characters that stands in a prompt."""


def schema_of(space: spaces.Space[Any]) -> dict[str, Any]:
    """The JSON schema of a space's values, with its ranges.

    Raises:
        EnvError: The space has no form in JSON that a model could write.
    """
    if (bounds := _bounds(space)) is not None:
        low, high = bounds
        if low.size > MAX_ACTION_NUMBERS:
            raise EnvError(
                f"an action is an array of {low.size} numbers (shape {low.shape}), above the {MAX_ACTION_NUMBERS} that "
                "a language model can be expected to write; wrap the env so that it takes less"
            )
        ranges = np.vectorize(_range, otypes=[object])(low, high)
        return ranges.item() if low.shape in ((), (1,)) else _arrays(ranges)
    if isinstance(space, spaces.Text):
        pattern = _pattern(space)
        return {"type": "string", "minLength": space.min_length, "maxLength": space.max_length} | pattern
    if isinstance(space, spaces.Tuple):
        parts = [schema_of(part) for part in space.spaces]
        return {"type": "array", "prefixItems": parts, "minItems": len(parts), "maxItems": len(parts)}
    if isinstance(space, spaces.Dict):
        properties = {str(key): schema_of(part) for key, part in space.spaces.items()}
        return {"type": "object", "properties": properties, "required": list(properties)}
    raise EnvError(
        f"actions of the space {space} cannot be written as a tool call; wrap the env so that its action space is "
        "Discrete, Box, MultiDiscrete, MultiBinary, Text, or a Tuple or Dict of these"
    )


def in_words(schema: Mapping[str, Any]) -> str:
    """A schema of `schema_of` in a few words: ``integer from 0 to 3``."""
    kind = schema["type"]
    if kind == "object":
        parts = [f"{key} ({in_words(part)})" for key, part in schema["properties"].items()]
        return f"object with {', '.join(parts)}"
    if kind == "array" and "items" in schema:
        return f"list of {schema['minItems']}, each {in_words(schema['items'])}"
    if kind == "array":
        parts = [f"({in_words(part)})" if part["type"] == "array" else in_words(part) for part in schema["prefixItems"]]
        return f"list of {', '.join(parts)}"
    if kind == "string":
        low, high = schema["minLength"], schema["maxLength"]
        length = f"{low}" if low == high else f"{low} to {high}" if low else f"at most {high}"
        allowed = f", each one of {schema['pattern'][1:-2]}" if "pattern" in schema else ""
        return f"text of {length} character{'' if high == 1 else 's'}{allowed}"
    low, high = schema.get("minimum"), schema.get("maximum")
    bounds = [f"from {low}"] if low is not None else []
    bounds += [f"{'to' if bounds else 'up to'} {high}"] if high is not None else []
    return " ".join([kind, *bounds])


def to_action(space: spaces.Space[Any], value: Any) -> Any:
    """The action that a JSON value stands for.

    Numbers may be written as text, and a list of one number as the number.

    Raises:
        ValueError: It stands for none; the message is written for the model.
    """
    if (bounds := _bounds(space)) is not None:
        numbers = _numbers(value, *bounds)
        return numbers.item() if isinstance(space, spaces.Discrete) else numbers
    if isinstance(space, spaces.Tuple):
        if not isinstance(value, list) or len(value) != len(space.spaces):
            raise ValueError(f"expected a list of {len(space.spaces)} values, got {shown(value)}")
        return tuple(to_action(part, item) for part, item in zip(space.spaces, value, strict=True))
    if isinstance(space, spaces.Dict):
        keys = [str(key) for key in space.spaces]  # as the schema has them; those of a space may be numbers
        if not isinstance(value, dict) or value.keys() != set(keys):
            raise ValueError(f"expected an object with the keys {', '.join(keys)}, got {shown(value)}")
        return {key: to_action(part, value[str(key)]) for key, part in space.spaces.items()}
    assert isinstance(space, spaces.Text), "schema_of refuses other spaces"
    if not isinstance(value, str) or not space.contains(value):
        raise ValueError(f"expected {in_words(schema_of(space))}, got {shown(value)}")
    return value


def to_json(space: spaces.Space[Any], action: Any) -> Any:
    """The JSON value that stands for an action, or for a near one: fractions have three digits, where these lie within.

    A float32 in full has up to 17 digits, each a token for many models: more than a turn may hold.
    """
    if isinstance(space, spaces.Tuple):
        return [to_json(part, item) for part, item in zip(space.spaces, action, strict=True)]
    if isinstance(space, spaces.Dict):
        return {str(key): to_json(part, action[key]) for key, part in space.spaces.items()}
    if isinstance(action, str):
        return action
    array = np.asarray(action)
    if isinstance(space, spaces.Box) and np.issubdtype(space.dtype, np.floating):
        array = np.clip(np.vectorize(lambda number: float(f"{number:.3g}"))(array), space.low, space.high)
    return array.item() if array.shape == (1,) else array.tolist()  # as its schema has it


def to_text(observation: Any, names: Mapping[int, str] | None = None, *, symbols: bool = False) -> str:
    """An observation as compact text.

    Args:
        observation: Numbers, texts, arrays, and dicts and lists of them.
        names: Those of a list's or a vector's entries, where they are known.
        symbols: Small arrays of bytes are no pictures; the numbers of one place stand together.

    Raises:
        ValueError: It is a picture, or an array of more than `MAX_OBSERVATION_NUMBERS`; the message says what to do.
    """
    if isinstance(observation, np.ndarray):
        _check_readable(observation, symbols=symbols)
        if observation.ndim == 0:
            return _number(observation.item())
        if observation.ndim == 2:
            return "\n".join(" ".join(map(to_text, row)) for row in observation)
        if observation.ndim == 3 and symbols:
            return "\n".join(" ".join(",".join(map(to_text, cell)) for cell in row) for row in observation)
        if observation.ndim > 2:
            return "\n\n".join(map(to_text, observation))
    if isinstance(observation, Mapping):
        symbols = any(isinstance(value, str) for value in observation.values())
        entries = [(key, to_text(value, symbols=symbols)) for key, value in observation.items()]
        lines = [f"{key}:\n{text}" if "\n" in text else f"{key}: {text}" for key, text in entries]
        return "\n".join(lines) or "(nothing)"
    if isinstance(observation, np.ndarray | list | tuple | set | frozenset):
        parts = [to_text(item) for item in observation]
        if names and sorted(names) == list(range(len(parts))):
            parts = [f"{names[place]} {part}" for place, part in enumerate(parts)]
        elif any("\n" in part or ", " in part for part in parts):  # parts that have parts: a line each
            return "\n".join(f"{place}: {part}" for place, part in enumerate(parts))
        return ", ".join(parts) or "(nothing)"
    return _number(observation) if isinstance(observation, int | float | np.number | np.bool_) else str(observation)


def _check_readable(array: np.ndarray, *, symbols: bool) -> None:
    if array.dtype == np.uint8 and array.ndim >= 2 and not (symbols and array.size <= MAX_OBSERVATION_NUMBERS):
        raise ValueError(
            f"shows pictures (uint8 of shape {array.shape}), which a language model cannot read; choose a variant with "
            "numbers or text if the env has one (as Atari's obs_type='ram'), or wrap the env so that it describes the "
            "picture in words (docs/your-env.md)"
        )
    if array.size > MAX_OBSERVATION_NUMBERS:
        raise ValueError(
            f"shows an array of {array.size} numbers (shape {array.shape}), above the {MAX_OBSERVATION_NUMBERS} that a "
            "language model can be expected to handle; wrap the env so that it says less"
        )


def _bounds(space: spaces.Space[Any]) -> tuple[np.ndarray, np.ndarray] | None:
    """Lowest and highest values of a space of numbers, in its shape and dtype; None for any other space."""
    if isinstance(space, spaces.Discrete):
        return np.asarray(space.start), np.asarray(space.start + space.n - 1)
    if isinstance(space, spaces.MultiDiscrete):
        return space.start, space.start + space.nvec - 1
    if isinstance(space, spaces.MultiBinary):
        return np.zeros(space.shape, space.dtype), np.ones(space.shape, space.dtype)
    return (space.low, space.high) if isinstance(space, spaces.Box) else None


def _range(low: float, high: float) -> dict[str, Any]:
    if isinstance(low, int):
        return {"type": "integer", "minimum": low, "maximum": high}
    bounds = {"minimum": low, "maximum": high}
    return {"type": "number", **{key: float(f"{end:.6g}") for key, end in bounds.items() if math.isfinite(end)}}


def _arrays(items: np.ndarray) -> dict[str, Any]:
    """The schema of nested lists whose innermost entries have the schemas ``items``, of the array's shape."""
    parts = [_arrays(part) if isinstance(part, np.ndarray) else part for part in items]
    size = {"minItems": len(parts), "maxItems": len(parts)}
    same = bool(parts) and all(part == parts[0] for part in parts)
    return {"type": "array", "items": parts[0], **size} if same else {"type": "array", "prefixItems": parts, **size}


def _pattern(space: spaces.Text) -> dict[str, str]:
    """``pattern`` of a text's characters, ``^[DLRU]*$``; nothing where they are too many or unknown."""
    if type(space).contains is not spaces.Text.contains:
        return {}
    characters = re.sub(r"[\\\]^-]", r"\\\g<0>", "".join(sorted(space.character_set)))
    return {"pattern": f"^[{characters}]*$"} if len(characters) <= MAX_PATTERN_CHARS else {}


def _number(value: Any) -> str:
    return f"{value:.4g}" if isinstance(value, float | np.floating) else str(int(value))


def _numbers(value: Any, low: np.ndarray, high: np.ndarray) -> np.ndarray:
    """``value`` as an array within the bounds; fractions may miss them by the rounding of their print.

    What the dtype of the bounds cannot hold is outside, too.
    """
    shape, whole = low.shape, np.issubdtype(low.dtype, np.integer)
    if shape == (1,) and not isinstance(value, list):
        value = [value]
    try:
        found = np.asarray(value, dtype=object)
        if found.shape != shape:
            raise ValueError
        numbers = [_leaf(leaf, whole) for leaf in found.flat]
    except (TypeError, ValueError, OverflowError):
        what = "integer" if whole else "number"
        wanted = f"{'an' if whole else 'a'} {what}" if not shape else f"{what}s in a list of shape {list(shape)}"
        raise ValueError(f"expected {wanted}, got {shown(value)}") from None
    margin = 0 if whole else 1e-5
    for place, (number, bottom, top) in enumerate(zip(numbers, low.flat, high.flat, strict=True)):
        bottom, top = bottom.item(), top.item()
        if number < bottom - margin * abs(bottom) or number > top + margin * abs(top):
            where = f" at {[int(i) for i in np.unravel_index(place, shape)]}" if len(numbers) > 1 else ""
            raise ValueError(f"{_number(number)}{where} is outside {_number(bottom)} to {_number(top)}")
        numbers[place] = min(max(number, bottom), top)
    with np.errstate(over="ignore"):
        array = np.array(numbers, dtype=low.dtype).reshape(shape)
    if not np.isfinite(array).all():
        raise ValueError(f"{shown(value)} is outside the range of {low.dtype}")
    return array


def _leaf(value: Any, whole: bool) -> int | float:
    """A number, or a text of one."""
    number = value if isinstance(value, int) else float(value)
    if isinstance(value, bool) or not math.isfinite(number) or (whole and number != int(number)):
        raise ValueError
    return int(number) if whole else float(number)

"""A Gymnasium space in words: an action space as JSON schema, JSON to an action, an observation as text.

Actions may be Discrete, Box, MultiDiscrete, MultiBinary, Text, and Tuple and Dict of these; observations of any space,
Sequence, OneOf and Graph too. Pictures, and arrays too large to read, are refused: a language model is to be told what
they show, which is a wrapper's work.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
from gymnasium import spaces
from gymnasium.vector.utils import iterate

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
    if isinstance(space, spaces.Discrete):
        return _integers(int(space.start), int(space.start + space.n) - 1)
    if isinstance(space, spaces.MultiDiscrete):
        _check_size(space, MAX_ACTION_NUMBERS, "action")
        return _arrays(np.vectorize(_integers, otypes=[object])(space.start, space.start + space.nvec - 1))
    if isinstance(space, spaces.MultiBinary):
        _check_size(space, MAX_ACTION_NUMBERS, "action")
        return _arrays(np.full(space.shape, _integers(0, 1), dtype=object))
    if isinstance(space, spaces.Box):
        _check_size(space, MAX_ACTION_NUMBERS, "action")
        kind = "integer" if np.issubdtype(space.dtype, np.integer) else "number"
        items = np.vectorize(lambda low, high: _range(kind, low, high), otypes=[object])(space.low, space.high)
        return _arrays(items) if space.shape not in ((), (1,)) else items.item()
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
        return f"object with {', '.join(parts)}" if parts else "empty object {}"
    if kind == "array" and "items" in schema:
        return f"list of {schema['minItems']}, each {in_words(schema['items'])}"
    if kind == "array":
        parts = [f"({in_words(part)})" if part["type"] == "array" else in_words(part) for part in schema["prefixItems"]]
        return f"list of {', '.join(parts)}" if parts else "empty list []"
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
    if isinstance(space, spaces.Discrete):
        return int(_numbers(space, value, int(space.start), int(space.start + space.n) - 1))
    if isinstance(space, spaces.MultiDiscrete):
        return _numbers(space, value, space.start, space.start + space.nvec - 1)
    if isinstance(space, spaces.MultiBinary):
        return _numbers(space, value, 0, 1)
    if isinstance(space, spaces.Box):
        return _numbers(space, value, space.low, space.high)
    if isinstance(space, spaces.Text):
        if not isinstance(value, str) or not space.contains(value):
            raise ValueError(f"expected {in_words(schema_of(space))}, got {shown(value)}")
        return value
    if isinstance(space, spaces.Tuple):
        if not isinstance(value, list) or len(value) != len(space.spaces):
            raise ValueError(f"expected a list of {len(space.spaces)} values, got {shown(value)}")
        return tuple(to_action(part, item) for part, item in zip(space.spaces, value, strict=True))
    if isinstance(space, spaces.Dict):
        keys = [str(key) for key in space.spaces]  # as the schema has them; those of a space may be numbers
        if not isinstance(value, dict) or value.keys() != set(keys):
            wanted = f"object with the keys {', '.join(keys)}" if keys else "empty object {}"
            raise ValueError(f"expected an {wanted}, got {shown(value)}")
        return {key: to_action(part, value[str(key)]) for key, part in space.spaces.items()}
    raise AssertionError(f"schema_of refuses {space}")


def to_json(space: spaces.Space[Any], action: Any) -> Any:
    """The JSON value that stands for an action: the inverse of `to_action`."""
    if isinstance(space, spaces.Tuple):
        return [to_json(part, item) for part, item in zip(space.spaces, action, strict=True)]
    if isinstance(space, spaces.Dict):
        return {str(key): to_json(part, action[key]) for key, part in space.spaces.items()}
    if isinstance(action, str):
        return action
    one_number = isinstance(space, spaces.Box) and space.shape == (1,)  # as its schema has it
    return np.asarray(action).item() if one_number else np.asarray(action).tolist()


def check_readable(space: spaces.Space[Any], env_id: str) -> None:
    """Refuse observations that are no text for a language model.

    Raises:
        EnvError: A picture, or an array of more than `MAX_OBSERVATION_NUMBERS`.
    """
    for part in _parts(space):
        check_readable(part, env_id)
    if isinstance(space, spaces.Box) and space.dtype == np.uint8 and len(space.shape) >= 2:
        raise EnvError(
            f"{env_id} shows pictures ({space.dtype} of shape {space.shape}), which a language model cannot read; "
            "choose a variant with numbers or text (many such envs have one: obs_type='ram', render_mode='ansi'), or "
            "wrap the env so that it describes the picture in words"
        )
    if isinstance(space, spaces.Box | spaces.MultiBinary | spaces.MultiDiscrete):
        _check_size(space, MAX_OBSERVATION_NUMBERS, f"{env_id}: an observation")


def to_text(space: spaces.Space[Any], observation: Any, names: Mapping[int, str] | None = None) -> str:
    """An observation as compact text; ``names`` are those of a vector's or tuple's entries, where they are known."""
    if isinstance(space, spaces.Dict):
        return _entries((key, to_text(part, observation[key])) for key, part in space.spaces.items())
    if isinstance(space, spaces.Tuple):
        parts = [to_text(part, item) for part, item in zip(space.spaces, observation, strict=True)]
        return _named(parts, names) or "(nothing)"
    if isinstance(space, spaces.Sequence):
        items = iterate(space.stacked_feature_space, observation) if space.stack else observation
        return _listed(space.feature_space, items)
    if isinstance(space, spaces.OneOf):
        chosen, item = observation
        return f"choice {int(chosen)}: {to_text(space.spaces[int(chosen)], item)}"
    if isinstance(space, spaces.Graph):
        return _drawn(space, observation)
    if isinstance(observation, np.ndarray) and observation.ndim == 1:
        return _named([_number(item) for item in observation], names) or "(nothing)"
    if isinstance(observation, np.ndarray) and observation.ndim == 2:
        return "\n".join(" ".join(_number(item) for item in row) for row in observation)
    if isinstance(observation, np.ndarray) and observation.ndim > 2:
        return "\n\n".join(to_text(space, layer) for layer in observation)
    if isinstance(observation, int | float | np.number | np.bool_ | np.ndarray):
        return _number(np.asarray(observation).item())
    return _freely(observation)


def _freely(value: Any) -> str:
    """What is of a space that is not known, or not as its space says: dicts and lists as in known spaces."""
    if isinstance(value, dict):
        return _entries((key, _freely(item)) for key, item in value.items())
    if isinstance(value, list | tuple | set | frozenset):
        return ", ".join(f"({_freely(item)})" if isinstance(item, list | tuple) else _freely(item) for item in value)
    return _number(value) if isinstance(value, int | float) else str(value)


def _entries(entries: Iterable[tuple[Any, str]]) -> str:
    """``key: value`` line by line; what has lines of its own begins below its key."""
    lines = [f"{key}:\n{text}" if "\n" in text else f"{key}: {text}" for key, text in entries]
    return "\n".join(lines) or "(nothing)"


def _listed(space: spaces.Space[Any], items: Iterable[Any]) -> str:
    """Items of one space: numbers side by side, all else a line each."""
    parts = [to_text(space, item) for item in items]
    if isinstance(space, spaces.Discrete | spaces.Box) and space.shape in ((), (1,)):
        return ", ".join(parts) or "(none)"
    return "\n".join(f"{number}: {part}" for number, part in enumerate(parts)) or "(none)"


def _drawn(space: spaces.Graph, graph: Any) -> str:
    """A graph: its nodes, then its edges as ``0 -> 1``, each with what it holds."""
    nodes = [f"node {number}: {to_text(space.node_space, node)}" for number, node in enumerate(graph.nodes)]
    links = [] if graph.edge_links is None else graph.edge_links
    values = [None] * len(links) if graph.edges is None else graph.edges
    edges = [
        f"edge {int(a)} -> {int(b)}" + (f": {to_text(space.edge_space, value)}" if space.edge_space else "")
        for (a, b), value in zip(links, values, strict=True)
    ]
    return "\n".join([*nodes, *edges]) or "(no nodes)"


def _parts(space: spaces.Space[Any]) -> list[spaces.Space[Any]]:
    """What a space is made of."""
    if isinstance(space, spaces.Dict):
        return list(space.spaces.values())
    if isinstance(space, spaces.Tuple | spaces.OneOf):
        return list(space.spaces)
    if isinstance(space, spaces.Sequence):
        return [space.feature_space]
    return (
        [space.node_space, *([space.edge_space] if space.edge_space else [])] if isinstance(space, spaces.Graph) else []
    )


def _pattern(space: spaces.Text) -> dict[str, str]:
    """``pattern`` of a text's characters, ``^[0-9A-Za-z]*$``; nothing where they are too many or unknown."""
    if type(space).contains is not spaces.Text.contains:
        return {}
    runs: list[list[int]] = []
    for code in sorted(map(ord, space.character_set)):
        if runs and runs[-1][1] == code - 1:
            runs[-1][1] = code
        else:
            runs.append([code, code])
    named = "".join(_run(chr(first), chr(last)) for first, last in runs)
    return {"pattern": f"^[{named}]*$"} if 0 < len(named) <= MAX_PATTERN_CHARS else {}


def _run(first: str, last: str) -> str:
    between = "" if ord(last) - ord(first) < 2 else "-"
    return _escaped(first) if first == last else f"{_escaped(first)}{between}{_escaped(last)}"


def _escaped(character: str) -> str:
    if character in "\\]^-[":
        return f"\\{character}"
    return character if character.isprintable() else character.encode("unicode_escape").decode()


def _named(parts: list[str], names: Mapping[int, str] | None) -> str:
    if names and sorted(names) == list(range(len(parts))):
        return ", ".join(f"{names[index]} {part}" for index, part in enumerate(parts))
    return ", ".join(parts)


def _number(value: Any) -> str:
    return f"{value:.4g}" if isinstance(value, float | np.floating) else str(int(value))


def _integers(low: int, high: int) -> dict[str, Any]:
    return {"type": "integer", "minimum": int(low), "maximum": int(high)}


def _range(kind: str, low: Any, high: Any) -> dict[str, Any]:
    def rounded(bound: Any) -> int | float:
        return int(bound) if kind == "integer" else float(f"{bound:.6g}")

    bounds = {"minimum": low, "maximum": high}
    return {"type": kind, **{key: rounded(bound) for key, bound in bounds.items() if np.isfinite(bound)}}


def _arrays(items: np.ndarray) -> dict[str, Any]:
    """The schema of nested lists whose innermost entries have the schemas ``items``, of the array's shape."""
    parts = [_arrays(part) if isinstance(part, np.ndarray) else part for part in items]
    size = {"minItems": len(parts), "maxItems": len(parts)}
    same = bool(parts) and all(part == parts[0] for part in parts)
    return {"type": "array", "items": parts[0], **size} if same else {"type": "array", "prefixItems": parts, **size}


def _numbers(space: spaces.Space[Any], value: Any, low: Any, high: Any) -> np.ndarray:
    """``value`` as an array of a space within the bounds; fractions may miss them by the rounding of their print.

    What the space's dtype cannot hold is outside, too.
    """
    shape, whole = space.shape or (), np.issubdtype(space.dtype, np.integer)
    what = "integer" if whole else "number"
    wanted = f"{'an' if whole else 'a'} {what}" if not shape else f"{what}s in a list of shape {list(shape)}"
    if shape == (1,) and not isinstance(value, list):
        value = [value]
    try:
        found = np.asarray(value, dtype=object)
        if found.shape != shape:
            raise ValueError
        numbers = [_integer(leaf) if whole else _finite(leaf) for leaf in found.flat]
    except (TypeError, ValueError, OverflowError):
        raise ValueError(f"expected {wanted}, got {shown(value)}") from None
    bottoms, tops = (np.broadcast_to(bound, shape).ravel().tolist() for bound in (low, high))
    margin = 0 if whole else 1e-5
    for place, (number, bottom, top) in enumerate(zip(numbers, bottoms, tops, strict=True)):
        if number < bottom - margin * abs(bottom) or number > top + margin * abs(top):
            where = f" at {[int(i) for i in np.unravel_index(place, shape)]}" if len(numbers) > 1 else ""
            raise ValueError(f"{_number(number)}{where} is outside {_number(bottom)} to {_number(top)}")
        numbers[place] = min(max(number, bottom), top)
    with np.errstate(over="ignore"):
        array = np.array(numbers, dtype=space.dtype).reshape(shape)
    if not np.isfinite(array).all():
        raise ValueError(f"{shown(value)} is outside the range of {space.dtype}")
    return array


def _integer(leaf: Any) -> int:
    """Exactly, as a float is not above 2**53; one of more than 64 bits is none."""
    if isinstance(leaf, str):
        try:
            leaf = int(leaf)
        except ValueError:
            leaf = float(leaf)
    if isinstance(leaf, bool) or not -(2**63) <= leaf < 2**64 or int(leaf) != leaf:
        raise ValueError
    return int(leaf)


def _finite(leaf: Any) -> float:
    if isinstance(leaf, bool) or not math.isfinite(number := float(leaf)):
        raise ValueError
    return number


def _check_size(space: Any, limit: int, what: str) -> None:
    size = int(np.prod(space.shape))
    if size > limit:
        raise EnvError(
            f"{what} is an array of {size} numbers (shape {tuple(space.shape)}), above the {limit} that a language "
            "model can be expected to handle; wrap the env so that it says less"
        )

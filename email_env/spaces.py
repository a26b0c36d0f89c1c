"""Text spaces: any UTF-8 string up to a length, the empty one too.

`TextSpace` is Gymnasium's `Text` without an alphabet, and `ToolCallSpace` samples valid tool calls. Neither can be
flattened into numbers.

Both work with the shared memory of `AsyncVectorEnv`. Gymnasium's own `Text` does not: it returns the blank first
observation for ever and fails on letters outside its alphabet. Here each string is written as UTF-8 behind its length.
The parent process holds a live view of that memory, and a copy of the view is a tuple of strings.
"""

from __future__ import annotations

from ctypes import c_uint8
from multiprocessing.sharedctypes import SynchronizedArray
from types import ModuleType
from typing import Any, NoReturn

import numpy as np
from gymnasium.spaces import Text
from gymnasium.spaces.utils import flatten_space
from gymnasium.vector.utils import create_shared_memory, read_from_shared_memory, write_to_shared_memory

from judges.common.text import is_utf8
from judges.common.tool_calls import format_call

_LENGTH_BYTES = 4
_MAX_UTF8_BYTES = 4  # of one character
_MAX_SAMPLE_CHARS = 80
_ALPHABET = "abcdefghijklmnopqrstuvwxyz0123456789 "
_WORDS = ("meeting", "budget", "invoice", "contract", "report", "schedule", "office", "travel", "project", "price")
_ANSWERS = ("I don't know", "Monday", "March 5", "14:30", "$4,200")


class TextSpace(Text):
    """Strings of at most `max_length` characters that can be written as UTF-8.

    Args:
        max_length: characters, inclusive.
        seed: of the sampler.
    """

    def __init__(self, max_length: int, *, seed: int | np.random.Generator | None = None) -> None:
        super().__init__(max_length, min_length=0, charset=_ALPHABET, seed=seed)

    def contains(self, x: Any) -> bool:
        """Whether `x` is a string of this space."""
        return isinstance(x, str) and len(x) <= self.max_length and is_utf8(x)

    def sample(self, mask: Any = None, probability: Any = None) -> str:
        """A random short string.

        Raises:
            ValueError: `mask` or `probability` is given; there is no alphabet to apply it to.
        """
        if mask is not None or probability is not None:
            raise ValueError(f"{type(self).__name__}.sample takes no mask and no probability; it has no alphabet.")
        return self._sample()[: self.max_length]

    def _sample(self) -> str:
        length = int(self.np_random.integers(0, _MAX_SAMPLE_CHARS + 1))
        return "".join(_ALPHABET[i] for i in self.np_random.integers(0, len(_ALPHABET), size=length))

    @property
    def is_np_flattenable(self) -> bool:
        """No: there is no alphabet to count in."""
        return False

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.max_length})"

    def __eq__(self, other: object, /) -> bool:
        return type(other) is type(self) and self.max_length == other.max_length  # type: ignore[attr-defined]

    __hash__ = None  # type: ignore[assignment]  # as every Gymnasium space


class ToolCallSpace(TextSpace):
    """A `TextSpace` whose samples are valid calls of the environment's three tools."""

    def _sample(self) -> str:
        rng = self.np_random
        kind = rng.random()
        if kind < 0.6:
            words = [_WORDS[i] for i in rng.choice(len(_WORDS), size=int(rng.integers(1, 3)), replace=False)]
            return format_call("search_inbox", {"keywords": words})
        message_id = f"m{int(rng.integers(1, 10_000))}"
        if kind < 0.9:
            return format_call("read_email", {"message_id": message_id})
        answer = _ANSWERS[int(rng.integers(len(_ANSWERS)))]
        return format_call("return_final_answer", {"answer": answer, "sources": [message_id]})


class SharedTexts:
    """The strings that several processes last wrote to shared memory; reading decodes, copying gives a plain tuple."""

    def __init__(self, memory: SynchronizedArray[Any], count: int) -> None:
        self._rows = _rows(memory, count)

    def __len__(self) -> int:
        return len(self._rows)

    def __getitem__(self, index: int) -> str:
        row = self._rows[index]
        length = int.from_bytes(row[:_LENGTH_BYTES].tobytes(), "little")
        return row[_LENGTH_BYTES : _LENGTH_BYTES + length].tobytes().decode()

    def __deepcopy__(self, memo: dict[int, Any]) -> tuple[str, ...]:
        return tuple(self[index] for index in range(len(self)))


def _rows(memory: SynchronizedArray[Any], count: int) -> np.ndarray:
    """The memory as one row of bytes an environment, shape (count, length field + text)."""
    return np.frombuffer(memory.get_obj(), dtype=np.uint8).reshape(count, -1)  # type: ignore[call-overload]


@flatten_space.register(TextSpace)
def _flatten(space: TextSpace) -> NoReturn:
    raise NotImplementedError(f"{space} cannot be flattened into numbers: its texts have no alphabet")


@create_shared_memory.register(TextSpace)
def _create(space: TextSpace, n: int = 1, ctx: ModuleType | Any = None) -> SynchronizedArray[Any]:
    import multiprocessing

    size = _LENGTH_BYTES + _MAX_UTF8_BYTES * space.max_length
    return (ctx or multiprocessing).Array(c_uint8, n * size)


@read_from_shared_memory.register(TextSpace)
def _read(space: TextSpace, shared_memory: SynchronizedArray[Any], n: int = 1) -> Any:
    return SharedTexts(shared_memory, n)


@write_to_shared_memory.register(TextSpace)
def _write(space: TextSpace, index: int, value: str, shared_memory: SynchronizedArray[Any]) -> None:
    data = value[: space.max_length].encode(errors="replace")
    size = _LENGTH_BYTES + _MAX_UTF8_BYTES * space.max_length
    row = np.frombuffer(shared_memory.get_obj(), dtype=np.uint8)[index * size : (index + 1) * size]  # type: ignore[call-overload]
    row[_LENGTH_BYTES : _LENGTH_BYTES + len(data)] = np.frombuffer(data, dtype=np.uint8)
    row[:_LENGTH_BYTES] = np.frombuffer(len(data).to_bytes(_LENGTH_BYTES, "little"), dtype=np.uint8)

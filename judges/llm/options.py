"""The options by which a call says how to reach a judge, and what is said of a name that is none of them."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Mapping
from difflib import get_close_matches
from typing import Any, TypedDict

TIMEOUT_SECONDS = 120.0
"""How long one attempt of a call may take where nothing else is said."""


class Reach(TypedDict, total=False):
    """How to reach a judge that is given by name. Every key is optional; `JudgeClient` explains them."""

    api_base: str | None
    api_key: str | None
    timeout_seconds: float
    max_retries: int
    backoff_seconds: float


class CallOptions(Reach, total=False):
    """The same, with parameters of litellm."""

    extra_litellm_params: Mapping[str, Any] | None


def check_names(given: Iterable[str], function: Callable[..., Any], options: Iterable[str]) -> None:
    """Refuse an option that a function does not know.

    Args:
        given: The names that were given.
        function: Whose parameters are known.
        options: What else is known.

    Raises:
        TypeError: As Python does for a wrong keyword; the nearest right name is told.
    """
    known = [*inspect.signature(function).parameters, *options]
    for name in given:
        if name not in known:
            near = get_close_matches(name, known, n=1)
            hint = f"did you mean {near[0]!r}?" if near else f"it takes {', '.join(sorted(known))}"
            raise TypeError(f"{function.__name__}() has no option {name!r}; {hint}")

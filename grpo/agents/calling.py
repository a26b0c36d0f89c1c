"""Calls an agent's function, whichever way it was written, in this process."""

import asyncio
import inspect
from collections.abc import Callable
from typing import Any

from grpo.agents.agent_loop import AgentLoop, in_daemon_thread
from grpo.errors import EvaluationError
from grpo.machine.user_code import load_function
from grpo.types import Answer


async def called(function: Callable[..., Any], loop: AgentLoop, *arguments: Any) -> Answer | None:
    """What the function answers: a plain one in a thread of its own, an ``async`` one in ``loop``.

    Raises:
        TypeError: It returned something else; or whatever it raised.
    """
    if inspect.iscoroutinefunction(function):
        return _answer(await loop.play(function(*arguments)))
    result = await asyncio.wrap_future(in_daemon_thread(function, *arguments))
    return _answer(await loop.play(result) if inspect.isawaitable(result) else result)


def agent_function(target: str) -> Callable[..., Any]:
    """The function that ``pkg.mod:fn`` names.

    Raises:
        ConfigError: There is no such module or function.
        EvaluationError: It does not take (task, tools, model).
    """
    function = load_function(target)
    try:
        inspect.signature(function).bind("task", [], None)
    except TypeError as error:
        raise EvaluationError(
            f"agent {target!r} must take three arguments (task, tools, model); it has {inspect.signature(function)}"
        ) from error
    return function


def _answer(result: Any) -> Answer | None:
    if result is None or isinstance(result, Answer):
        return result
    if isinstance(result, str):
        return Answer(result) if result.strip() else None
    raise TypeError(f"the agent returned {type(result).__name__} {str(result)[:100]!r}; return str, Answer or None")

"""An env's tools as Python functions for agents, which every framework's tool decorator takes.

Whatever they are called with goes to the env, which answers a wrong argument with a text; nothing but an episode that
is closed makes them raise. They hold a queue, a token and their own signature: there is no way from a tool to the env,
its questions or its answers.
"""

from collections.abc import Callable
from queue import SimpleQueue
from typing import Any

from judges.common.typed_functions import typed_function


def typed_tools(schemas: list[dict[str, Any]], ask: Callable[[Any], None], token: str) -> list[Callable[..., str]]:
    """One function for each schema; ``token`` is the episode's secret.

    ``ask`` takes calls, ``(token, name, arguments, reply)``; ``reply`` takes whether it was done, and a text.
    """

    def call(name: str, arguments: dict[str, Any]) -> str:
        reply: SimpleQueue[tuple[bool, str]] = SimpleQueue()
        ask((token, name, arguments, reply.put))
        done, text = reply.get()
        if not done:
            raise RuntimeError(text)
        return text

    return [typed_function(schema["function"], call) for schema in schemas]

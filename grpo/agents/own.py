"""An agent of the user's, from how it is named: a function or a program."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from grpo.episodes.player import Agent
from grpo.errors import EvaluationError
from judges.common.secrets import without_users

if TYPE_CHECKING:
    from grpo.agents.upstream import Upstream

_MODULE = re.compile(r"[A-Za-z_][\w.]*|.*\.py")


def is_module(kind: str) -> bool:
    """Whether this can be the module of a function."""
    return _MODULE.fullmatch(kind) is not None


def own_agent(spec: str, upstream: Upstream | None, python: str | None = None) -> Agent:
    """An agent of the user's: a function (``PKG.MOD:FUNCTION``) or a program (``cmd:...``).

    Args:
        spec: As ``--agent`` names it.
        upstream: The model it may use.
        python: The interpreter that calls the function; None for this one.

    Raises:
        EvaluationError: There is no such agent, or a package is missing.
    """
    kind, found, rest = spec.partition(":")
    if not found or not (kind == "cmd" or is_module(kind)):
        raise EvaluationError(f"no agent {without_users(spec)!r}; write PKG.MOD:FUNCTION or 'cmd:PROGRAM {{question}}'")
    try:
        from grpo.agents.calling import agent_function
        from grpo.agents.function import FunctionAgent
        from grpo.agents.interpreter import Interpreter
        from grpo.agents.program import ProgramAgent
    except ModuleNotFoundError as error:
        raise EvaluationError(
            f"agents that are functions or programs need the package {error.name!r}: pip install 'email-rl[eval]'"
        ) from error
    if kind == "cmd":
        if python is not None:
            raise EvaluationError(f"--agent-python {python} is for functions; a program names its own: {spec}")
        return ProgramAgent(rest, upstream)
    return FunctionAgent(agent_function(spec) if python is None else Interpreter(python, spec), upstream)

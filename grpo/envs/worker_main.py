"""A worker process of envs: it makes them, calls one at a time as it is told, and sends back what they say.

Run by `grpo.envs.worker_env` as ``python -m grpo.envs.worker_main FD PARENT``: its end of a socket pair, and the
process that started it. It ends when that closes, and when that process is gone, in the middle of a step too; what its
envs have started (its process group) ends with it.
"""

import os
import signal
import sys
from multiprocessing.connection import Connection
from typing import Any

from grpo.envs.step_cost import Meter
from grpo.errors import GrpoError
from grpo.machine.processes import end_with_parent
from grpo.machine.user_code import import_user_module


def make(env_id: str, env_kwargs: dict[str, Any], module: str | None, path: list[str]) -> Any:
    """An env as it is made in the process that asks, whose ``sys.path`` is ``path``.

    Raises:
        GrpoError: It cannot be made here.
    """
    from grpo.envs.message_env import MessageEnv

    sys.path[:] = [*path, *(folder for folder in sys.path if folder not in path)]
    if module is not None:
        import_user_module(module)
    return MessageEnv(env_id, env_kwargs)


def serve(connection: Connection) -> None:
    """Answer calls until the other side closes."""
    envs: dict[int, Any] = {}
    while True:
        try:
            number, name, *arguments = connection.recv()
        except EOFError:
            return
        meter = Meter()
        value: Any = None
        error = ""
        try:
            if name == "make":
                envs[number] = make(*arguments)
            elif name == "close":
                if number in envs:
                    envs.pop(number).close()
            else:
                value = getattr(envs[number], name)(*arguments)
        except GrpoError as fault:
            error = str(fault)
        spent = meter.read()
        if name in ("reset", "step") and not error:  # an env's info may hold what cannot be sent, and nobody reads it
            value = value._replace(info={"error": value.info.get("error", "")})
        connection.send((value, error, *spent))


def _end() -> None:
    """This process, and what the envs have started."""
    os.killpg(0, signal.SIGKILL)


if __name__ == "__main__":
    end_with_parent(int(sys.argv[2]), _end)
    try:
        serve(Connection(int(sys.argv[1])))
    except (BrokenPipeError, ConnectionResetError):  # the other side is gone
        pass
    sys.stdout.flush()
    _end()

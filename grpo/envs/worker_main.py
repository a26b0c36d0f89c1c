"""A worker process of envs: it makes them, calls one at a time as it is told, and sends back what they say.

Run by `grpo.envs.worker_env` as ``python -m grpo.envs.worker_main FD``, FD being its end of a socket pair. It ends when
that closes, and when the process that started it is gone, in the middle of a step too; what its envs have started
(its process group) ends with it.
"""

from __future__ import annotations

import os
import pickle
import signal
import sys
import threading
import time
from multiprocessing.connection import Connection
from typing import Any

from grpo.envs.step_cost import Meter
from grpo.envs.worker_calls import PARENT_VARIABLE, Recipe, Reply
from grpo.errors import EnvError, GrpoError
from grpo.machine.user_code import import_user_module

_POLL_SECONDS = 0.25


class Envs:
    """The envs of this process, by the numbers that the other side gave them."""

    def __init__(self) -> None:
        self._envs: dict[int, Any] = {}

    def call(self, number: int, name: str, *arguments: Any) -> Any:
        """Make, call or close an env."""
        if name == "make":
            self._envs[number] = made(arguments[0])
            return None
        if name == "close":
            return self._envs.pop(number).close() if number in self._envs else None
        return getattr(self._envs[number], name)(*arguments)


def made(recipe: Recipe) -> Any:
    """The env of a recipe.

    Raises:
        GrpoError: It cannot be made here.
    """
    import gymnasium

    from grpo.envs.message_env import MessageEnv

    sys.path[:] = [*recipe.path, *(folder for folder in sys.path if folder not in recipe.path)]
    if recipe.module is not None:
        import_user_module(recipe.module)
    module, _, name = recipe.env_id.rpartition(":")
    if not module and name not in gymnasium.registry and recipe.spec:
        try:
            spec = pickle.loads(recipe.spec)
        except (Exception, SystemExit) as error:  # whatever the modules do that it names
            raise EnvError(f"{recipe.env_id} is registered with what another process cannot load: {error}") from error
        gymnasium.registry.setdefault(spec.id, spec)
    return MessageEnv(recipe.env_id, recipe.env_kwargs)


def serve(connection: Connection) -> None:
    """Answer calls until the other side closes."""
    envs = Envs()
    while True:
        try:
            call = connection.recv()
        except EOFError:
            return
        meter = Meter()
        try:
            value, error = envs.call(*call), ""
        except GrpoError as fault:
            value, error = None, str(fault)
        connection.send_bytes(_pickled(Reply(value, error, *meter.read())))


def _pickled(reply: Reply) -> bytes:
    try:
        return pickle.dumps(reply)
    except Exception:  # an env's info may hold anything
        value = reply.value
        if not hasattr(value, "info"):
            raise
        info = {key: part for key, part in value.info.items() if _can_be_sent(part)}
        return pickle.dumps(reply._replace(value=value._replace(info=info)))


def _can_be_sent(value: Any) -> bool:
    try:
        pickle.dumps(value)
    except Exception:
        return False
    return True


def _end_with_parent() -> None:
    parent = int(os.environ[PARENT_VARIABLE])

    def watch() -> None:
        while os.getppid() == parent:
            time.sleep(_POLL_SECONDS)
        os.killpg(0, signal.SIGKILL)

    threading.Thread(target=watch, name="grpo-end-with-parent", daemon=True).start()


if __name__ == "__main__":
    _end_with_parent()
    try:
        serve(Connection(int(sys.argv[1])))
    except (BrokenPipeError, ConnectionResetError):  # the other side is gone
        pass
    sys.stdout.flush()
    os.killpg(0, signal.SIGKILL)  # with what the envs have started

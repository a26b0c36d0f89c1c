"""Registered Gymnasium envs by id: make one, or ask what its constructor takes.

An id is one that is registered, ``module:id``, a bare id of an installed package that names its module in the
entry-point group ``gymnasium.envs`` (Gymnasium itself dropped that group in 1.0), or ``SCHEME:ADDRESS`` (`ELSEWHERE`).
"""

import difflib
import importlib.metadata
import inspect
from collections.abc import Mapping
from typing import Any

from grpo.errors import EnvError, describe
from grpo.machine.installed import has_room
from grpo.machine.user_code import import_user_module

TASKS_ENV = "grpo.envs.tasks:Tasks-v0"
"""What ``--tasks`` plays."""

SYSTEM_PROMPT = "system_prompt"
"""Among the arguments of an env that takes none of this name: the user's words in place of what the env says of itself.

There they reach every process that makes the env, and the settings that a run, its evaluation and a comparison share.
"""

ELSEWHERE = {
    "mcp": "grpo.elsewhere.mcp:McpEnv",
    "openenv": "grpo.elsewhere.openenv:OpenEnv",
    "verifiers": "grpo.elsewhere.verifiers:VerifiersEnv",
}
"""Envs of other ecosystems, by the scheme of their ids; each takes the ``address``. Their room may be taken out."""

ENTRY_POINT_GROUP = "gymnasium.envs"


def make_env(env_id: str, /, **kwargs: Any) -> Any:
    """``gymnasium.make`` that also finds bare ids of installed packages through the entry-point group.

    Raises:
        EnvError: The id is unknown, or the env does not take its arguments, or it raised.
    """
    import gymnasium

    spec = find_spec(env_id)
    own = {name: value for name, value in kwargs.items() if name not in inspect.signature(gymnasium.make).parameters}
    try:
        _signature(env_id).bind(**{**spec.kwargs, **own})
    except TypeError as error:
        raise EnvError(f"{env_id} refused the arguments {kwargs}: {error}") from error
    try:
        return gymnasium.make(spec, disable_env_checker=True, **kwargs)
    except (Exception, SystemExit) as error:  # whatever the env's constructor does
        raise EnvError(f"{env_id} could not be made{f' with {kwargs}' if kwargs else ''}: {describe(error)}") from error


def takes(env_id: str, argument: str) -> bool:
    """Whether the env's constructor has an argument of this name."""
    return argument in _signature(env_id).parameters


def takes_split(env_id: str) -> bool:
    """Whether held-out scenarios can be asked for by name."""
    return takes(env_id, "split")


def with_split(env_id: str, env_kwargs: Mapping[str, Any], split: str) -> dict[str, Any]:
    """An env's arguments, with ``split`` where its constructor takes one and none is given."""
    return {"split": split, **env_kwargs} if takes_split(env_id) else dict(env_kwargs)


def find_spec(env_id: str) -> Any:
    """The registered spec of an id, after importing the module or the package that registers it."""
    import gymnasium
    from gymnasium.envs.registration import EnvSpec

    scheme, _, address = env_id.partition(":")
    if address and (entry := ELSEWHERE.get(scheme)):
        if not has_room(room := entry.rpartition(".")[0]):
            raise EnvError(
                f"{env_id} needs {room}, which was taken out of this installation; install the whole package"
            )
        return EnvSpec(scheme, entry, kwargs={"address": address})
    module, _, name = env_id.rpartition(":")
    if module:
        import_user_module(module)
    try:
        if not module and name not in gymnasium.registry and name in (installed := _installed()):
            import_user_module(installed[name].partition(":")[0])
        return gymnasium.spec(name)
    except (gymnasium.error.Error, ModuleNotFoundError) as error:
        near = difflib.get_close_matches(name, {**gymnasium.registry, **_installed()}, n=2)
        raise EnvError(
            f"no env with the id {env_id!r} could be made: {str(error).rstrip('.')}. "
            f"{'Near: ' + ', '.join(near) + '. ' if near else ''}"
            "Give a registered id; module:id or --env-import imports the module that registers it first"
        ) from error


def _installed() -> dict[str, str]:
    """What installed packages register, by id; their modules need not be imported yet."""
    return {entry.name: entry.value for entry in importlib.metadata.entry_points(group=ENTRY_POINT_GROUP)}


def _signature(env_id: str) -> inspect.Signature:
    """What an env's constructor takes.

    Raises:
        EnvError: It cannot be loaded.
    """
    from gymnasium.envs.registration import load_env_creator

    entry = find_spec(env_id).entry_point
    try:
        return inspect.signature(load_env_creator(entry) if isinstance(entry, str) else entry)
    except (Exception, SystemExit) as error:  # whatever its module does; of an env whose packages are not installed
        raise EnvError(f"{env_id} cannot be loaded: {describe(error)}") from error
